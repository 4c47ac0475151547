package playback

import (
	"slices"
	"time"

	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/history"
	"flunq.io/flunq/tui"
)

// frame is an event and its effects.
type frame struct {
	event.Event

	at      time.Time // when it is played, not before the previous frame
	track   *track
	version int
	tally   tally // the counts after it
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
	run   *history.TaskRun
	timer *history.Timer // nil: the task itself
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
	run, timer := fr.track.x.Add(history.Read(int64(len(fr.track.frames))+1, e))
	fr.count(fr.track.take(at, e))
	fr.version = len(fr.track.frames)
	pb.begin(&fr, at, run, timer)
	fr.end(run, at)
	pb.index(fr, at)
	// An event before the shown moment counts as played.
	late := pb.playhead.n == at && fr.at.Before(pb.playhead.at)
	pb.frames = append(pb.frames, fr)
	if late {
		pb.playhead.n++
		pb.halt()
	}
}

// count adds a change of an execution's state to the tally.
func (fr *frame) count(was tui.State) {
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

// begin records the interval that an event begins.
func (pb *Playback) begin(fr *frame, at int, run *history.TaskRun, timer *history.Timer) {
	s := &interval{id: fr.ID, track: fr.track, from: at, until: -1, run: run}
	switch {
	case fr.Type == event.TimerScheduled && timer != nil:
		s.timer = timer
		fr.tally.timers++
	case fr.Type != event.TaskRequested:
		return
	}
	pb.intervals = append(pb.intervals, s)
	fr.close(s.key(), at) // the new interval replaces it
	fr.track.open[s.key()] = s
}

// key identifies an interval among the open ones of its execution.
func (s *interval) key() any {
	if s.timer != nil {
		return s.timer
	}
	return s.run
}

// end records the intervals that an event of a run ends.
func (fr *frame) end(run *history.TaskRun, at int) {
	for _, t := range run.Timers {
		if !t.Gone.IsZero() {
			fr.close(t, at)
		}
	}
	switch fr.Type {
	case event.TaskCompleted:
		fr.close(run, at)
	case event.WorkflowCompleted, event.WorkflowFailed, event.WorkflowCancelled:
		for key := range fr.track.open {
			fr.close(key, at)
		}
	default:
	}
}

// close ends an interval if it is open.
func (fr *frame) close(key any, at int) {
	s := fr.track.open[key]
	if s == nil {
		return
	}
	delete(fr.track.open, key)
	s.until = at
	if s.timer != nil {
		fr.tally.timers--
	}
}

// index indexes a frame for searches.
func (pb *Playback) index(fr frame, at int) {
	switch fr.Type {
	case event.TimerFired:
		pb.fired = append(pb.fired, at)
	case event.WorkflowFailed:
		pb.failed = append(pb.failed, at)
	case event.EventDead, event.TaskDead, event.TimerDead:
		pb.dead = append(pb.dead, at)
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

// openIntervals are the timers and tasks that are open after n frames.
type openIntervals struct {
	n      int
	timers []*interval // the next one first
	tasks  []*interval // oldest first
}

// open returns what is open at the shown moment.
func (pb *Playback) open() *openIntervals {
	n := pb.playhead.n
	if pb.opened != nil && pb.opened.n == n {
		return pb.opened
	}
	o := &openIntervals{n: n}
	for _, s := range pb.intervals {
		switch {
		case s.from >= n:
		case s.until >= 0 && s.until < n:
		case s.timer != nil:
			o.timers = append(o.timers, s)
		default:
			o.tasks = append(o.tasks, s)
		}
	}
	slices.SortStableFunc(o.timers, func(a, b *interval) int { return a.timer.Due.Compare(b.timer.Due) })
	pb.opened = o
	return o
}
