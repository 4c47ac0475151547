package top

import (
	"slices"
	"sync"
	"time"

	"flunq.io/flunq/engine/store/inspect"
)

// sampler computes rates from consecutive samples.
type sampler struct {
	mu        sync.Mutex
	sampledAt time.Time // when the last sample was taken, by this machine's clock
	last      string    // id of its newest entry
	added     int64
	events    float64
	fires     float64
	failed    []string // executions that have failed, latest first
}

// shortest is the minimum time between two samples.
const shortest = 200 * time.Millisecond

// maxFailed is how many failed executions are remembered.
const maxFailed = 50

// since returns the entry after which the next sample begins.
func (s *sampler) since() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last
}

// take adds a sample that began after the entry since. It returns the events and fired
// timers per second since the previous sample.
func (s *sampler) take(g inspect.Overview, since string, at time.Time) (events, fires float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	passed := at.Sub(s.sampledAt)
	if since != s.last || !s.sampledAt.IsZero() && passed < shortest {
		return s.events, s.fires // another caller has sampled meanwhile
	}
	s.events, s.fires = s.rates(g, passed)
	for _, id := range slices.Backward(g.Failed) {
		s.failed = slices.DeleteFunc(s.failed, func(other string) bool { return other == id })
		s.failed = slices.Insert(s.failed, 0, id)
	}
	s.failed = s.failed[:min(len(s.failed), maxFailed)]
	s.sampledAt, s.added = at, g.Added
	if g.Last != "" {
		s.last = g.Last
	}
	return s.events, s.fires
}

// rates computes the rates of a sample. The first sample and a Redis without counters use
// the age of the entries.
func (s *sampler) rates(g inspect.Overview, passed time.Duration) (events, fires float64) {
	first := s.sampledAt.IsZero()
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

// faulted returns the executions that failed recently.
func (s *sampler) faulted() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.failed)
}
