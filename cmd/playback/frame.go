package playback

import (
	"slices"
	"time"

	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/history"
)

// frame is an event and its effects.
type frame struct {
	event.Event

	at      time.Time // when it is played, not before the previous frame
	track   *track
	version int
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
		if last := pb.frames[n-1].at; fr.at.Before(last) {
			fr.at = last
		}
	} else if fr.at.Before(pb.opts.Start) {
		fr.at = pb.opts.Start
	}
	fr.track = pb.trackOf(e)
	at := len(pb.frames)
	run, timer := fr.track.x.Add(history.Read(int64(len(fr.track.frames))+1, e))
	fr.track.take(at, e)
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

// begin records the interval that an event begins.
func (pb *Playback) begin(fr *frame, at int, run *history.TaskRun, timer *history.Timer) {
	s := &interval{id: fr.ID, track: fr.track, from: at, until: -1, run: run}
	switch {
	case fr.Type == event.TimerScheduled && timer != nil:
		s.timer = timer
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
	if s := fr.track.open[key]; s != nil {
		s.until = at
		delete(fr.track.open, key)
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

// open returns what is open at the shown moment: the timers, the next one first, and the tasks, the
// oldest first.
func (pb *Playback) open() (timers, tasks []*interval) {
	n := pb.playhead.n
	for _, s := range pb.intervals {
		switch {
		case s.from >= n, s.until >= 0 && s.until < n:
		case s.timer != nil:
			timers = append(timers, s)
		default:
			tasks = append(tasks, s)
		}
	}
	slices.SortStableFunc(timers, func(a, b *interval) int { return a.timer.Due.Compare(b.timer.Due) })
	return timers, tasks
}
