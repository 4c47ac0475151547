package store

import (
	"sync"
	"sync/atomic"
)

// home is what each step needs of a tenant: the names of its keys, made once.
type home struct {
	stream, timers, timerKeys, forgottenKeys, askedTimers string
	open, faulted, completed, cancelled                   string // indexes of executions
	executions                                            string // what the names of executions begin with

	known atomic.Bool // the Store has made the tenant known
}

// homes are those of the tenants that a Store has met.
type homes struct {
	mu    sync.RWMutex
	known map[string]*home
}

// home is that of a tenant.
func (s *Store) home(tenant string) *home {
	s.homes.mu.RLock()
	h := s.homes.known[tenant]
	s.homes.mu.RUnlock()
	if h == nil {
		h = s.keys.home(tenant)
		s.homes.add(tenant, h)
	}
	return h
}

func (h *homes) add(tenant string, one *home) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.known == nil {
		h.known = map[string]*home{}
	}
	h.known[tenant] = one
}

// home makes the names of a tenant's keys.
func (k keys) home(tenant string) *home {
	return &home{
		stream: k.stream(tenant), timers: k.timers(tenant), timerKeys: k.timerKeys(tenant), forgottenKeys: k.forgottenKeys(tenant), askedTimers: k.askedTimers(tenant),
		open: k.executions(tenant, openShelf), faulted: k.executions(tenant, faultedShelf),
		completed: k.executions(tenant, completedShelf), cancelled: k.executions(tenant, cancelledShelf),
		executions: k.execution(tenant, ""),
	}
}

// execution is the names of an execution's keys, cut from one text.
func (h *home) execution(id string) (execution, history string) {
	history = h.executions + id + historySuffix
	return history[:len(history)-len(historySuffix)], history
}
