package executor

import "slices"

// sleepers are the executors of a process that have nothing to do.
type sleepers struct {
	waiting []chan struct{}
	roused  int // were woken, and have not looked yet for what there is to do
}

// one is a new sleeper; the channel is closed when it is woken.
func (s *sleepers) one() chan struct{} {
	c := make(chan struct{})
	s.waiting = append(s.waiting, c)
	return c
}

// wake sees to it that so many look for what there is to do, those that fell
// asleep last first.
func (s *sleepers) wake(n int) {
	for n -= s.roused; n > 0 && len(s.waiting) > 0; n-- {
		last := len(s.waiting) - 1
		close(s.waiting[last])
		s.waiting = s.waiting[:last]
		s.roused++
	}
}

// awake notes that somebody looks.
func (s *sleepers) awake() { s.roused = max(0, s.roused-1) }

// leave takes a sleeper out, and reports false if it was woken already.
func (s *sleepers) leave(c chan struct{}) bool {
	i := slices.Index(s.waiting, c)
	if i < 0 {
		return false
	}
	s.waiting = slices.Delete(s.waiting, i, i+1)
	return true
}
