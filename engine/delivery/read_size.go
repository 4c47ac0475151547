package delivery

import (
	"sync"

	"flunq.io/flunq/engine/store/stream"
)

// readSize determines how many events of each tenant to read in one call. With many tenants the
// number starts small so that a read of all of them fits in memory; it grows while few
// tenants have many events.
type readSize struct {
	mu    sync.Mutex
	size  int
	bound map[string]int // for tenants with large events: how many of them fit into a read of maxBytes
}

const (
	targetEvents = 2000 // approximate number of events in one read of all tenants
	minEvents    = 4    // minimum for each tenant

	maxBytes  = 1 << 20 // approximate size of one reply: while Redis writes it, all other clients wait
	unbounded = 1000    // a bound that has grown to this is dropped
)

// large returns which of the tenants have large events, and how many events of each to read in
// one call.
func (s *readSize) large(tenants []string) (large []string, count int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.bound) == 0 {
		return nil, 0
	}
	for _, tenant := range tenants {
		if n := s.bound[tenant]; n > 0 {
			if large = append(large, tenant); count == 0 || n < count {
				count = n
			}
		}
	}
	return large, count
}

// of returns how many events to read from each of a number of tenants, limited to most.
func (s *readSize) of(tenants, most int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	least := max(targetEvents/max(tenants, 1), minEvents)
	s.size = min(max(s.size, least), most)
	return s.size
}

// saw records a read of up to count events of each tenant.
func (s *readSize) saw(found []stream.Found, count int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range found {
		s.measure(f)
	}
	all, most := 0, 0
	for _, f := range found {
		all, most = all+f.Events, max(most, f.Events)
	}
	switch {
	case all > targetEvents:
		s.size = count / 2
	case len(found) > 0 && most >= count: // this tenant may have more than was read
		s.size = max(s.size, 2*count)
	}
}

// forget forgets which tenants have large events.
func (s *readSize) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bound = nil
}

// measure adapts the bound of a tenant to the size of the events that were read.
func (s *readSize) measure(f stream.Found) {
	switch n := s.bound[f.Tenant]; {
	case f.Bytes > maxBytes:
		if s.bound == nil {
			s.bound = map[string]int{}
		}
		s.bound[f.Tenant] = max(f.Events*maxBytes/f.Bytes, 1)
	case 2*n >= unbounded:
		delete(s.bound, f.Tenant)
	case n > 0:
		s.bound[f.Tenant] = 2 * n
	}
}
