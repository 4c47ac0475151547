package playback

import "slices"

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
