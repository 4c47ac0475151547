package delivery

import (
	"sync"

	"flunq.io/flunq/engine/store"
)

// portion is how many events of each tenant are read at once. Where there are many
// tenants it is few of each at first, so that all of them together are not more than
// a process can hold; it grows while some have more and most have nothing.
type portion struct {
	mu   sync.Mutex
	size int
}

const (
	target = 2000 // events of all tenants in one read, about
	fewer  = 4    // of each of them at least
)

// of is the portion of each of so many tenants.
func (p *portion) of(tenants, most int) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	least := max(target/max(tenants, 1), fewer)
	p.size = min(max(p.size, least), most)
	return p.size
}

// saw takes in what was read where it could be so many of each tenant.
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
	case len(found) > 0 && most >= count: // there may be more of a tenant than was read
		p.size = max(p.size, 2*count)
	}
}
