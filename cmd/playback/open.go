package playback

import (
	"cmp"
	"maps"
	"slices"
)

// openIntervals are the timers and tasks that are open after n frames. They are updated, not
// rebuilt, when the number changes.
type openIntervals struct {
	n      int
	timers map[*interval]bool
	tasks  map[*interval]bool

	due []*interval // timers by due time; nil: must be sorted
	old []*interval // tasks, oldest first; nil: must be sorted
}

// set updates the intervals to n frames.
func (s *openIntervals) set(frames []frame, n int) {
	if s.n == n {
		return
	}
	s.due, s.old = nil, nil
	for ; s.n < n; s.n++ {
		fr := &frames[s.n]
		if fr.opened != nil {
			s.put(fr.opened)
		}
		for _, gone := range fr.closed {
			delete(s.of(gone), gone)
		}
	}
	for ; s.n > n; s.n-- {
		fr := &frames[s.n-1]
		for _, back := range fr.closed {
			s.put(back)
		}
		if fr.opened != nil {
			delete(s.of(fr.opened), fr.opened)
		}
	}
}

func (s *openIntervals) of(sp *interval) map[*interval]bool {
	if sp.timer != nil {
		return s.timers
	}
	return s.tasks
}

func (s *openIntervals) put(sp *interval) { s.of(sp)[sp] = true }

// pending returns the open timers, the next one first.
func (s *openIntervals) pending() []*interval {
	if s.due == nil {
		s.due = slices.SortedFunc(maps.Keys(s.timers), func(a, b *interval) int {
			return cmp.Or(a.timer.Due.Compare(b.timer.Due), cmp.Compare(a.from, b.from))
		})
	}
	return s.due
}

// running returns the open tasks, oldest first.
func (s *openIntervals) running() []*interval {
	if s.old == nil {
		s.old = slices.SortedFunc(maps.Keys(s.tasks), func(a, b *interval) int { return cmp.Compare(a.from, b.from) })
	}
	return s.old
}
