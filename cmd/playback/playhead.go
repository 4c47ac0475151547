package playback

import (
	"slices"
	"time"

	"flunq.io/flunq/engine/history"
)

// playhead is the shown moment.
type playhead struct {
	at     time.Time
	n      int // number of frames played; simultaneous ones may follow
	paused bool
	speed  float64
	real   time.Time // real time of the last update
	before string    // the task run before which it has stopped; "" after any move

	idle  time.Duration // real time played since the last event
	pause time.Duration // real time since the last of several simultaneous events

	skipped   time.Duration // idle time that was skipped last
	skippedAt time.Time     // in real time
	samples   []sample      // recent positions
}

// sample is the position of a playhead at a real time.
type sample struct {
	real     time.Time
	n, fires int
}

// If nothing happens for longer than patience, playback skips to shortly before the next
// event. Simultaneous events are shown one after another.
const (
	patience     = 3 * time.Second
	lead         = time.Second           // before the next event
	between      = 60 * time.Millisecond // maximum between two simultaneous events
	togetherTime = 2 * time.Second       // maximum for all simultaneous events of a moment
)

// play advances the playhead to the current time.
func (pb *Playback) play(now time.Time) {
	p := &pb.playhead
	left := now.Sub(p.real)
	p.real = now
	if p.paused {
		return
	}
	for left > 0 && !p.paused {
		left = pb.step(left, now)
	}
	p.sample(pb, now)
}

// step advances the playhead at most to the next event and returns the remaining time.
func (pb *Playback) step(left time.Duration, now time.Time) time.Duration {
	p := &pb.playhead
	if p.n == len(pb.frames) {
		return pb.wait(left, now)
	}
	next := pb.frames[p.n].at
	if !next.After(p.at) {
		return pb.next(left)
	}
	need := scaled(next.Sub(p.at), 1/p.speed)
	if p.idle+need > patience && need > 2*lead {
		if p.idle < lead {
			part := min(left, lead-p.idle)
			p.pass(part)
			return left - part
		}
		to := next.Add(-scaled(lead, p.speed))
		p.skipped, p.skippedAt = to.Sub(p.at), now
		p.at, need = to, lead
	}
	if need > left {
		p.pass(left)
		return 0
	}
	p.at, p.idle, p.pause = next, 0, 0
	p.n++
	pb.halt()
	return left - max(need, 1)
}

// wait advances the playhead after the last event, up to the edge.
func (pb *Playback) wait(left time.Duration, now time.Time) time.Duration {
	p := &pb.playhead
	edge := pb.edge(now)
	if pb.over && !p.at.Before(edge) {
		p.at, p.paused = edge, true
		return 0
	}
	p.pass(left)
	if p.at.After(edge) {
		p.at = edge
	}
	return 0
}

// pass advances the playhead by real time without an event.
func (p *playhead) pass(d time.Duration) {
	p.at = p.at.Add(scaled(d, p.speed))
	p.idle += d
}

// next shows the next of several simultaneous events.
func (pb *Playback) next(left time.Duration) time.Duration {
	p := &pb.playhead
	wait := pb.stepTime() - p.pause
	if wait > left {
		p.pause += left
		return 0
	}
	p.n++
	pb.halt()
	p.idle, p.pause = 0, 0
	return left - max(wait, 0)
}

// stepTime returns the real time between the events of the shown moment.
func (pb *Playback) stepTime() time.Duration {
	if pb.opts.Pace > 0 {
		return 0 // keep up with the run in progress
	}
	at := pb.frames[pb.playhead.n].at
	together := pb.until(at) - pb.until(at.Add(-1))
	return scaled(min(between, togetherTime/time.Duration(together)), 1/pb.playhead.speed)
}

// sample records the position for rates.
func (p *playhead) sample(pb *Playback, now time.Time) {
	const over = 2 * time.Second
	p.samples = slices.DeleteFunc(p.samples, func(s sample) bool { return now.Sub(s.real) > over || s.n > p.n })
	if n := len(p.samples); n == 0 || now.Sub(p.samples[n-1].real) >= over/20 {
		p.samples = append(p.samples, sample{now, p.n, before(pb.fired, p.n)})
	}
}

// rates returns the events and fired timers per second of real time.
func (pb *Playback) rates(now time.Time) (events, fires float64) {
	p := &pb.playhead
	if p.paused || len(p.samples) == 0 {
		return 0, 0
	}
	first := p.samples[0]
	seconds := max(now.Sub(first.real), time.Second).Seconds()
	return float64(p.n-first.n) / seconds, float64(before(pb.fired, p.n)-first.fires) / seconds
}

// before returns how many of the indexed frames are among the first n.
func before(frames []int, n int) int {
	i, _ := slices.BinarySearch(frames, n)
	return i
}

// skipNote returns a note about skipped idle time, for a few seconds.
func (p *playhead) skipNote(now time.Time) []string {
	const shownFor = 4 * time.Second
	if p.skipped <= 0 || now.Sub(p.skippedAt) > shownFor {
		return nil
	}
	return []string{"skipped " + history.Duration(p.skipped) + " without events"}
}
