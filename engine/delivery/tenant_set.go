package delivery

import (
	"slices"
	"sync"

	"flunq.io/flunq/engine/store"
)

// TenantSet is the set of tenants that a process serves. It can grow until Fix is called.
// It is safe for concurrent use.
type TenantSet struct {
	mu    sync.Mutex
	fixed bool
	names []string
	known map[string]bool
}

// NewTenantSet returns a set of the tenants with these names. It ignores invalid names.
func NewTenantSet(names ...string) *TenantSet {
	s := &TenantSet{known: map[string]bool{}}
	s.add(names)
	return s
}

// Fix prevents the set from growing, for a process that serves only some tenants. Such a process also
// fires the timers of other tenants, but does nothing else for them.
func (s *TenantSet) Fix() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fixed = true
}

// Names returns all tenants, sorted. The caller must not change the slice.
func (s *TenantSet) Names() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.names
}

// Add adds tenants and returns those that are new. It ignores invalid names and private
// tenants.
func (s *TenantSet) Add(names ...string) (added []string) {
	return s.add(slices.DeleteFunc(slices.Clone(names), store.Private))
}

func (s *TenantSet) add(names []string) (added []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fixed {
		return nil
	}
	for _, name := range names {
		if !s.known[name] && store.CheckTenant(name) == nil {
			s.known[name] = true
			added = append(added, name)
		}
	}
	if len(added) > 0 {
		s.names = append(slices.Clone(s.names), added...)
		slices.Sort(s.names)
	}
	return added
}
