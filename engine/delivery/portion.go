package delivery

import (
	"sync"

	"flunq.io/flunq/engine/store"
)

// portion is how many events of each tenant to read at once. With many tenants it starts
// small, so that a read of all of them fits into the process; it grows while few tenants
// have many events.
type portion struct {
	mu   sync.Mutex
	size int
}

const (
	target = 2000 // events of all tenants in one read, about
	fewer  = 4    // of each tenant at least
)

// of returns the portion of each of several tenants, at most most.
func (p *portion) of(tenants, most int) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	least := max(target/max(tenants, 1), fewer)
	p.size = min(max(p.size, least), most)
	return p.size
}

// saw records a read of up to count events of each tenant.
func (p *portion) saw(found []store.Found, count int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	all, most := 0, 0
	for _, f := range found {
		all, most = all+f.Events, max(most, f.Events)
	}
	switch {
	case all > target:
		p.size = count / 2
	case len(found) > 0 && most >= count: // this tenant may have more than was read
		p.size = max(p.size, 2*count)
	}
}
