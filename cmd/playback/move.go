package playback

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/history"
	"flunq.io/flunq/tui"
)

// Move moves the shown moment. Moving to an event pauses.
func (pb *Playback) Move(_ context.Context, m tui.Move) error {
	now := pb.lock()
	defer pb.mu.Unlock()
	return pb.move(m, now)
}

// lock locks the playback and advances the playhead to the current time. The caller
// unlocks.
func (pb *Playback) lock() (now time.Time) {
	pb.mu.Lock()
	now = pb.opts.Now()
	pb.play(now)
	return now
}

func (pb *Playback) move(m tui.Move, now time.Time) error {
	p := &pb.playhead
	switch m.Verb {
	case tui.Play:
		if pb.over && p.n == len(pb.frames) {
			pb.seek(pb.opts.Start, now)
		}
		p.paused, p.before = false, ""
	case tui.Pause:
		p.paused = true
	case tui.Pace:
		return pb.pace(m.Speed)
	case tui.Seek:
		if n := min(m.Event, len(pb.frames)); n > 0 {
			pb.put(pb.frames[n-1].at, n)
		} else {
			pb.seek(m.To, now)
		}
	case tui.Advance:
		pb.seek(p.at.Add(m.By), now)
	case tui.NextEvent:
		return pb.stop(p.n+1, "there is no event after this one")
	case tui.LastEvent:
		return pb.stop(p.n-1, "there is no event before this moment")
	case tui.NextTimer:
		return pb.nextTimer()
	case tui.LastTimer:
		return pb.lastTimer()
	case tui.NextTask:
		return pb.nextTask(func(string) bool { return true }, "no task begins after this moment")
	case tui.NextBreak:
		return pb.nextTask(pb.breaksAt, "no breakpoint is reached after this moment")
	case tui.Break:
		if pb.breaks[m.Task] = !pb.breaks[m.Task]; !pb.breaks[m.Task] {
			delete(pb.breaks, m.Task)
		}
	default:
		return fmt.Errorf("%s: not possible in a playback", m.Verb)
	}
	return nil
}

// pace changes the playback speed.
func (pb *Playback) pace(speed float64) error {
	const least, most = 1e-3, 1e7
	if !(speed >= least && speed <= most) {
		return fmt.Errorf("a speed of %g: want %g to %g", speed, least, most)
	}
	pb.playhead.speed = speed
	return nil
}

// seek moves to a moment, after all events up to it.
func (pb *Playback) seek(to, now time.Time) {
	if edge := pb.edge(now); to.After(edge) {
		to = edge
	}
	if to.Before(pb.opts.Start) {
		to = pb.opts.Start
	}
	pb.put(to, pb.until(to))
}

// put sets the playhead.
func (pb *Playback) put(at time.Time, n int) {
	p := &pb.playhead
	p.at, p.n = at, n
	p.idle, p.pause, p.skipped, p.samples, p.before = 0, 0, 0, nil, ""
}

// stop moves to frame n and pauses. If there are fewer frames, it returns none as the error.
func (pb *Playback) stop(n int, none string) error {
	if n < 0 || n > len(pb.frames) {
		return errors.New(none)
	}
	pb.playhead.paused = true
	at := pb.opts.Start
	if n > 0 {
		at = pb.frames[n-1].at
	}
	pb.put(at, n)
	return nil
}

// nextTimer moves to just after the next firing of a timer.
func (pb *Playback) nextTimer() error {
	i := before(pb.fired, pb.playhead.n)
	if i == len(pb.fired) {
		return errors.New("no timer fires after this moment")
	}
	return pb.stop(pb.fired[i]+1, "")
}

func (pb *Playback) lastTimer() error {
	i := before(pb.fired, pb.playhead.n-1)
	if i == 0 {
		return errors.New("no timer fires before this moment")
	}
	return pb.stop(pb.fired[i-1]+1, "")
}

// nextTask moves to just before the next task whose reference is wanted.
func (pb *Playback) nextTask(wanted func(ref string) bool, none string) error {
	for i := pb.playhead.n; i < len(pb.frames); i++ {
		if run := event.ParseRun(pb.frames[i].Task); pb.frames[i].Type == event.TaskRequested && wanted(run.Ref) {
			err := pb.stop(i+1, none)
			pb.playhead.before = nameOf(run)
			return err
		}
	}
	return errors.New(none)
}

// halt pauses if the last played event requests a task with a breakpoint.
func (pb *Playback) halt() {
	if fr := &pb.frames[pb.playhead.n-1]; len(pb.breaks) > 0 && fr.Type == event.TaskRequested {
		if run := event.ParseRun(fr.Task); pb.breaksAt(run.Ref) {
			pb.playhead.paused, pb.playhead.before = true, nameOf(run)
		}
	}
}

func (pb *Playback) breaksAt(ref string) bool { return pb.breaks[ref] }

// nameOf names a task run for people.
func nameOf(run event.Run) string {
	return history.Run(history.TaskName(run.Ref), run.Iteration, run.Attempt)
}

// Break sets breakpoints at the tasks with this name or reference.
func (pb *Playback) Break(name string) {
	pb.mu.Lock()
	defer pb.mu.Unlock()
	for _, def := range append(slices.Clone(pb.opts.With), pb.opts.Definition) {
		for ref, task := range def.Tasks() {
			if ref == name || task.Name == name {
				pb.breaks[ref] = true
			}
		}
	}
}

// At moves to a number of events, or to a time if events is 0, and pauses.
func (pb *Playback) At(events int, to time.Time) {
	now := pb.lock()
	defer pb.mu.Unlock()
	pb.playhead.paused = true
	if events > 0 {
		_ = pb.stop(min(events, len(pb.frames)), "") // within range
		return
	}
	pb.seek(to, now)
}

// clock returns the state of the clock.
func (pb *Playback) clock(now time.Time) tui.Clock {
	return tui.Clock{
		Moves: true, Seeks: true, Paused: pb.playhead.paused, Speed: pb.playhead.speed,
		Start: pb.opts.Start, End: pb.edge(now), Marks: pb.timerMarks(),
		At: pb.playhead.n, Of: len(pb.frames), Before: pb.playhead.before,
	}
}

// maxMarks is the maximum number of timer marks on a time bar.
const maxMarks = 500

// timerMarks returns the moments at which timers fire, thinned out for the time bar.
func (pb *Playback) timerMarks() []time.Time {
	apart := time.Duration(0)
	if len(pb.fired) > maxMarks {
		apart = pb.frames[len(pb.frames)-1].at.Sub(pb.opts.Start) / maxMarks
	}
	marks := make([]time.Time, 0, min(len(pb.fired), maxMarks+1))
	for _, frame := range pb.fired {
		at := pb.frames[frame].at
		if n := len(marks); n == 0 || at.Sub(marks[n-1]) > apart {
			marks = append(marks, at)
		}
	}
	return marks
}
