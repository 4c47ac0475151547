package playback

import (
	"slices"
	"time"

	"flunq.io/flunq/engine/history"
)

// playhead is the moment that is shown.
type playhead struct {
	at     time.Time
	n      int // number of frames played: frames of the same moment may follow
	paused bool
	speed  float64
	real   time.Time // real time of the last update

	calm  time.Duration // real time played since the last event
	pause time.Duration // real time since the last of several simultaneous events
	crowd int           // the last frame of that moment …
	step  time.Duration // … and the real time between its frames

	leapt   time.Duration // idle time skipped recently …
	leaptAt time.Time     // … and when, in real time
	pulse   []beat        // recent positions
}

// beat is the position of a playhead at a real time.
type beat struct {
	real     time.Time
	n, fires int
}

// Playback speed: after an idle stretch longer than patience, it skips to shortly before the next
// event. Simultaneous events are shown one after another.
const (
	patience  = 3 * time.Second
	lead      = time.Second
	between   = 60 * time.Millisecond
	crowdTime = 2 * time.Second
)

// play moves the playhead to where it is by now.
func (f *Playback) play(now time.Time) {
	p := &f.playhead
	left := now.Sub(p.real)
	p.real = now
	if p.paused {
		return
	}
	for left > 0 && !p.paused {
		left = f.roll(left, now)
	}
	p.beat(f, now)
}

// roll moves it up to the next event, and returns the remaining time.
func (f *Playback) roll(left time.Duration, now time.Time) time.Duration {
	p := &f.playhead
	if p.n == len(f.frames) {
		return f.wait(left, now)
	}
	next := f.frames[p.n].at
	if !next.After(p.at) {
		return f.next(left)
	}
	need := scaled(next.Sub(p.at), 1/p.speed)
	if p.calm+need > patience && need > 2*lead {
		if p.calm < lead {
			part := min(left, lead-p.calm)
			p.pass(part)
			return left - part
		}
		to := next.Add(-scaled(lead, p.speed))
		p.leapt, p.leaptAt = to.Sub(p.at), now
		p.at, need = to, lead
	}
	if need > left {
		p.pass(left)
		return 0
	}
	p.at, p.calm, p.pause = next, 0, 0
	p.n++
	return left - max(need, 1)
}

// wait moves it beyond the last event, up to the edge.
func (f *Playback) wait(left time.Duration, now time.Time) time.Duration {
	p := &f.playhead
	edge := f.edge(now)
	if f.over && !p.at.Before(edge) {
		p.at, p.paused = edge, true
		return 0
	}
	p.pass(left)
	if p.at.After(edge) {
		p.at = edge
	}
	return 0
}

// pass counts real time without an event.
func (p *playhead) pass(d time.Duration) {
	p.at = p.at.Add(scaled(d, p.speed))
	p.calm += d
}

// next shows the next of several simultaneous events.
func (f *Playback) next(left time.Duration) time.Duration {
	p := &f.playhead
	wait := f.crowded() - p.pause
	if wait > left {
		p.pause += left
		return 0
	}
	p.n++
	p.calm, p.pause = 0, 0
	return left - max(wait, 0)
}

// crowded returns the pause between the events of the shown moment.
func (f *Playback) crowded() time.Duration {
	p := &f.playhead
	if f.opts.Pace > 0 {
		return 0 // keep up with the run in progress
	}
	if end := f.until(p.at); end != p.crowd {
		many := end - p.n + 1
		p.crowd, p.step = end, scaled(min(between, crowdTime/time.Duration(many)), 1/p.speed)
	}
	return p.step
}

// beat records the position, for as long as rates look back.
func (p *playhead) beat(f *Playback, now time.Time) {
	const over = 2 * time.Second
	p.pulse = slices.DeleteFunc(p.pulse, func(b beat) bool { return now.Sub(b.real) > over || b.n > p.n })
	if n := len(p.pulse); n == 0 || now.Sub(p.pulse[n-1].real) >= over/20 {
		p.pulse = append(p.pulse, beat{now, p.n, int(f.tally(p.n).fired)})
	}
}

// rates returns the events and firings per second of real time.
func (f *Playback) rates(now time.Time) (events, fires float64) {
	p := &f.playhead
	if p.paused || len(p.pulse) == 0 {
		return 0, 0
	}
	first := p.pulse[0]
	seconds := max(now.Sub(first.real), time.Second).Seconds()
	return float64(p.n-first.n) / seconds, float64(int(f.tally(p.n).fired)-first.fires) / seconds
}

// tally returns the counts after n frames.
func (l *frameList) tally(n int) tally {
	if n == 0 {
		return tally{}
	}
	return l.frames[n-1].tally
}

// leap describes an idle stretch that was skipped, for a short time.
func (p *playhead) leap(now time.Time) []string {
	const news = 4 * time.Second
	if p.leapt <= 0 || now.Sub(p.leaptAt) > news {
		return nil
	}
	return []string{history.Duration(p.leapt) + " in which nothing happened were passed over"}
}
