package store

import (
	"sync"
	"sync/atomic"
)

// keysOfTenant is what each step needs of a tenant: the names of its keys, made once.
type keysOfTenant struct {
	stream, timers, timerKeys, forgottenKeys, askedTimers string
	open, faulted, completed, cancelled                   string // indexes of executions
	executions                                            string // what the names of executions begin with

	known atomic.Bool // the Store has made the tenant known
}

// tenantKeyCache are those of the tenants that a Store has met.
type tenantKeyCache struct {
	mu    sync.RWMutex
	known map[string]*keysOfTenant
}

// keysFor is that of a tenant.
func (s *Store) keysFor(tenant string) *keysOfTenant {
	s.tenantKeyCache.mu.RLock()
	h := s.tenantKeyCache.known[tenant]
	s.tenantKeyCache.mu.RUnlock()
	if h == nil {
		h = s.keys.keysFor(tenant)
		s.tenantKeyCache.add(tenant, h)
	}
	return h
}

func (h *tenantKeyCache) add(tenant string, one *keysOfTenant) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.known == nil {
		h.known = map[string]*keysOfTenant{}
	}
	h.known[tenant] = one
}

// keysFor makes the names of a tenant's keys.
func (k Keys) keysFor(tenant string) *keysOfTenant {
	return &keysOfTenant{
		stream: k.Stream(tenant), timers: k.Timers(tenant), timerKeys: k.timerKeys(tenant), forgottenKeys: k.forgottenKeys(tenant), askedTimers: k.askedTimers(tenant),
		open: k.Executions(tenant, openIndex), faulted: k.Executions(tenant, faultedIndex),
		completed: k.Executions(tenant, completedIndex), cancelled: k.Executions(tenant, cancelledIndex),
		executions: k.Execution(tenant, ""),
	}
}

// execution is the names of an execution's keys, cut from one text.
func (h *keysOfTenant) execution(id string) (execution, history string) {
	history = h.executions + id + historySuffix
	return history[:len(history)-len(historySuffix)], history
}
