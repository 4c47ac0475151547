package top

import (
	"slices"
	"sync"
	"time"

	"flunq.io/flunq/engine/store"
)

// sampler makes rates of looks that follow each other.
type sampler struct {
	mu     sync.Mutex
	at     time.Time // of the last look, by the machine's clock
	last   string    // id of the newest entry then
	added  int64
	events float64
	fires  float64
	failed []string // executions that were seen to fail, the latest first
}

// shortest is how far apart two looks have to be to make a rate.
const shortest = 200 * time.Millisecond

// mostFailed is how many executions are remembered for having failed.
const mostFailed = 50

// since is the entry that the next look begins behind.
func (s *sampler) since() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last
}

// take notes a look that began behind an entry, and says how many events and fired
// timers there were in a second since the one before.
func (s *sampler) take(g store.Glance, since string, at time.Time) (events, fires float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	passed := at.Sub(s.at)
	if since != s.last || !s.at.IsZero() && passed < shortest {
		return s.events, s.fires // somebody else has looked meanwhile
	}
	s.events, s.fires = s.rates(g, passed)
	for _, id := range slices.Backward(g.Failed) {
		s.failed = slices.DeleteFunc(s.failed, func(other string) bool { return other == id })
		s.failed = slices.Insert(s.failed, 0, id)
	}
	s.failed = s.failed[:min(len(s.failed), mostFailed)]
	s.at, s.added = at, g.Added
	if g.Last != "" {
		s.last = g.Last
	}
	return s.events, s.fires
}

// rates are what a look says. The first one, and one of a Redis that counts nothing,
// goes by the age of the entries that it has seen.
func (s *sampler) rates(g store.Glance, passed time.Duration) (events, fires float64) {
	first := s.at.IsZero()
	span := max(g.Now.Sub(g.Oldest), time.Second)
	switch {
	case g.Sample == 0:
		return 0, 0
	case first, g.More && (g.Added < 0 || g.Added < s.added):
		events = float64(g.Sample) / span.Seconds()
	case g.More:
		events = float64(g.Added-s.added) / passed.Seconds()
	default:
		events = float64(g.Sample) / passed.Seconds()
	}
	return events, events * float64(g.Fired) / float64(g.Sample)
}

// faulted are the executions that were seen to fail lately.
func (s *sampler) faulted() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.failed)
}
