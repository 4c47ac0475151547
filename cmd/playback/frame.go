package playback

import (
	"encoding/json"
	"strings"
	"time"

	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/tui"
)

// frame is an event and its effects.
type frame struct {
	event.Event

	at      time.Time // when it is played, not before the previous frame
	track   *track
	version int
	opened  *interval   // the span that it begins, if any
	closed  []*interval // the spans that it ends
	tally   tally       // the counts after it
}

// tally contains counts after a frame.
type tally struct {
	executions [4]int32 // by kind of state
	timers     int32
	dead       int32
	fired      int32
}

// The kinds of states by which executions are counted.
const (
	openKind = iota
	completedKind
	faultedKind
	cancelledKind
)

func kindOf(s tui.State) int {
	switch s {
	case tui.Completed:
		return completedKind
	case tui.Faulted:
		return faultedKind
	case tui.Cancelled:
		return cancelledKind
	default:
		return openKind
	}
}

// interval is the time during which a timer is set or a task is open.
type interval struct {
	id    string // of the event that began it
	track *track
	from  int // the frame that began it
	until int // the frame that ended it; -1: none so far
	timer *event.Timer
	run   string // the run of a task
	name  string
	kind  string // of a task
	fired bool
}

// add appends an event.
func (pb *Playback) add(e event.Event) {
	fr := frame{Event: e, at: e.Time}
	if n := len(pb.frames); n > 0 {
		fr.tally = pb.frames[n-1].tally
		if last := pb.frames[n-1].at; fr.at.Before(last) {
			fr.at = last
		}
	} else if fr.at.Before(pb.opts.Start) {
		fr.at = pb.opts.Start
	}
	fr.track = pb.trackOf(e)
	at := len(pb.frames)
	pb.count(&fr, fr.track.take(at, e))
	fr.version = len(fr.track.frames)
	pb.begin(&fr, at)
	pb.end(&fr, at)
	pb.index(fr, at)
	// An event before the shown moment counts as played.
	late := pb.playhead.n == at && fr.at.Before(pb.playhead.at)
	pb.frames = append(pb.frames, fr)
	if late {
		pb.playhead.n++
	}
}

// count adds a change of an execution's state to the tally.
func (*frameList) count(fr *frame, was tui.State) {
	now := fr.track.states[len(fr.track.states)-1]
	if was != "" {
		fr.tally.executions[kindOf(was)]--
	}
	fr.tally.executions[kindOf(now)]++
	switch fr.Type {
	case event.TimerFired:
		fr.tally.fired++
	case event.EventDead, event.TaskDead, event.TimerDead:
		fr.tally.dead++
	default:
	}
}

// begin records the span that an event begins.
func (l *frameList) begin(fr *frame, at int) {
	var s *interval
	switch fr.Type {
	case event.TimerScheduled:
		var t event.Timer
		if json.Unmarshal(fr.Data, &t) != nil {
			return
		}
		s = &interval{timer: &t}
		fr.tally.timers++
	case event.TaskRequested:
		var asked event.Requested
		if json.Unmarshal(fr.Data, &asked) != nil {
			return
		}
		s = &interval{run: fr.Task, name: asked.TaskName, kind: asked.TaskType}
	default:
		return
	}
	s.id, s.track, s.from, s.until = fr.ID, fr.track, at, -1
	fr.opened = s
	l.intervals[s.id] = s
	if old := fr.track.open[s.key()]; old != nil { // the new span replaces it
		fr.end(old, at)
	}
	fr.track.open[s.key()] = s
}

// key identifies a span among the open ones of its execution.
func (s *interval) key() string {
	if s.timer != nil {
		return timerKey(*s.timer)
	}
	return "task " + s.run
}

func timerKey(t event.Timer) string {
	return strings.Join([]string{"timer", t.TaskID, string(t.Kind), t.Key, t.FireAt.UTC().String()}, "\x00")
}

// end records the spans that an event ends.
func (*frameList) end(fr *frame, at int) {
	open := fr.track.open
	end := func(key string) {
		if s := open[key]; s != nil {
			fr.end(s, at)
			delete(open, key)
		}
	}
	switch fr.Type {
	case event.TimerFired, event.TimerCancelled:
		var t event.Timer
		if json.Unmarshal(fr.Data, &t) == nil {
			end(timerKey(t))
		}
	case event.TaskCompleted:
		end("task " + fr.Task)
	case event.WorkflowCompleted, event.WorkflowFailed, event.WorkflowCancelled:
		for key := range open {
			end(key)
		}
	default:
	}
}

func (fr *frame) end(s *interval, at int) {
	s.until, s.fired = at, fr.Type == event.TimerFired
	fr.closed = append(fr.closed, s)
	if s.timer != nil {
		fr.tally.timers--
	}
}

// index indexes a frame for searches.
func (l *frameList) index(fr frame, at int) {
	switch fr.Type {
	case event.TimerFired:
		l.fired = append(l.fired, at)
	case event.WorkflowFailed:
		l.failed = append(l.failed, at)
	case event.EventDead, event.TaskDead, event.TimerDead:
		l.dead = append(l.dead, at)
	default:
	}
}

// composite reports whether tasks of a kind contain other tasks.
func composite(kind string) bool {
	switch dsl.Kind(kind) {
	case dsl.Do, dsl.For, dsl.Fork, dsl.Try:
		return true
	default:
		return false
	}
}
