package playback

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"flunq.io/flunq/tui"
)

// Move moves the shown moment. Moving to an event pauses.
func (f *Playback) Move(_ context.Context, m tui.Move) (tui.Clock, error) {
	now := f.lock()
	defer f.mu.Unlock()
	if err := f.move(m, now); err != nil {
		return tui.Clock{}, err
	}
	return f.clock(now), nil
}

// lock locks the playback and advances the playhead to the current time. The caller
// unlocks.
func (f *Playback) lock() (now time.Time) {
	f.mu.Lock()
	now = f.opts.Now()
	f.play(now)
	f.stage.set(f.frames, f.playhead.n)
	return now
}

func (f *Playback) move(m tui.Move, now time.Time) error {
	p := &f.playhead
	switch m.Verb {
	case tui.Play:
		if f.over && p.n == len(f.frames) {
			f.seek(f.opts.Start, now)
		}
		p.paused = false
	case tui.Pause:
		p.paused = true
	case tui.Pace:
		return f.pace(m.Speed)
	case tui.Seek:
		f.seekTo(m, now)
	case tui.Advance:
		f.seek(p.at.Add(m.By), now)
	case tui.NextEvent:
		return f.stop(p.n+1, "there is no event after this one")
	case tui.LastEvent:
		return f.stop(p.n-1, "there is no event before this moment")
	case tui.NextTimer:
		return f.nextTimer()
	case tui.LastTimer:
		return f.lastTimer()
	default:
		return fmt.Errorf("%s: not possible in a playback", m.Verb)
	}
	f.stage.set(f.frames, p.n)
	return nil
}

// pace changes the playback speed.
func (f *Playback) pace(speed float64) error {
	const least, most = 1e-3, 1e7
	if !(speed >= least && speed <= most) {
		return fmt.Errorf("a speed of %g: want %g to %g", speed, least, most)
	}
	f.playhead.speed, f.playhead.together = speed, 0
	return nil
}

// seekTo moves to a number of events or to a moment.
func (f *Playback) seekTo(m tui.Move, now time.Time) {
	n := min(m.Event, len(f.frames))
	if n <= 0 {
		f.seek(m.To, now)
		return
	}
	f.put(f.frames[n-1].at, n)
}

// seek moves to a moment, after all events up to it.
func (f *Playback) seek(to, now time.Time) {
	if edge := f.edge(now); to.After(edge) {
		to = edge
	}
	if to.Before(f.opts.Start) {
		to = f.opts.Start
	}
	f.put(to, f.until(to))
}

// put sets the playhead.
func (f *Playback) put(at time.Time, n int) {
	p := &f.playhead
	p.at, p.n = at, n
	p.idle, p.pause, p.together, p.skipped, p.samples = 0, 0, 0, 0, nil
	f.stage.set(f.frames, n)
}

// stop moves to a number of frames and pauses. If there are not as many, the error is none.
func (f *Playback) stop(n int, none string) error {
	if n < 0 || n > len(f.frames) {
		return errors.New(none)
	}
	f.playhead.paused = true
	at := f.opts.Start
	if n > 0 {
		at = f.frames[n-1].at
	}
	f.put(at, n)
	return nil
}

// nextTimer moves to just after the next firing of a timer.
func (f *Playback) nextTimer() error {
	i, _ := slices.BinarySearch(f.fired, f.playhead.n)
	if i == len(f.fired) {
		return errors.New("no timer fires after this moment")
	}
	return f.stop(f.fired[i]+1, "")
}

func (f *Playback) lastTimer() error {
	i, _ := slices.BinarySearch(f.fired, f.playhead.n-1)
	if i == 0 {
		return errors.New("no timer fires before this moment")
	}
	return f.stop(f.fired[i-1]+1, "")
}

// At moves to a number of events, or to a time if events is 0, and pauses.
func (f *Playback) At(events int, to time.Time) {
	now := f.lock()
	defer f.mu.Unlock()
	f.playhead.paused = true
	if events > 0 {
		_ = f.stop(min(events, len(f.frames)), "") // within range
		return
	}
	f.seek(to, now)
}

// clock returns the state of the clock.
func (f *Playback) clock(now time.Time) tui.Clock {
	return tui.Clock{
		Moves: true, Seeks: true, Paused: f.playhead.paused, Speed: f.playhead.speed,
		Start: f.opts.Start, End: f.edge(now), Marks: f.timerMarks(),
		At: f.playhead.n, Of: len(f.frames),
	}
}

// mostMarks is the maximum number of timer marks on a timeline.
const mostMarks = 500

// timerMarks returns the moments at which timers fire, thinned out for the timeline.
func (f *Playback) timerMarks() []time.Time {
	if f.marked == len(f.fired) {
		return f.marks
	}
	f.marked = len(f.fired)
	apart := time.Duration(0)
	if len(f.fired) > mostMarks {
		apart = f.frames[len(f.frames)-1].at.Sub(f.opts.Start) / mostMarks
	}
	marks := make([]time.Time, 0, min(len(f.fired), mostMarks+1))
	for _, frame := range f.fired {
		at := f.frames[frame].at
		if n := len(marks); n == 0 || at.Sub(marks[n-1]) > apart {
			marks = append(marks, at)
		}
	}
	f.marks = marks
	return marks
}
