package executor

import "slices"

// sleepers are the idle executors of a process.
type sleepers struct {
	waiting []chan struct{}
	roused  int // woken, but not looking for work yet
}

// one adds a sleeper. The channel is closed when it is woken.
func (s *sleepers) one() chan struct{} {
	c := make(chan struct{})
	s.waiting = append(s.waiting, c)
	return c
}

// wake makes sure that n executors are looking for work. It wakes those first that fell
// asleep last.
func (s *sleepers) wake(n int) {
	for n -= s.roused; n > 0 && len(s.waiting) > 0; n-- {
		last := len(s.waiting) - 1
		close(s.waiting[last])
		s.waiting = s.waiting[:last]
		s.roused++
	}
}

// awake records that an executor is looking for work.
func (s *sleepers) awake() { s.roused = max(0, s.roused-1) }

// leave removes a sleeper. It reports false if the sleeper was woken already.
func (s *sleepers) leave(c chan struct{}) bool {
	i := slices.Index(s.waiting, c)
	if i < 0 {
		return false
	}
	s.waiting = slices.Delete(s.waiting, i, i+1)
	return true
}
