package delivery

import (
	"sync"

	"flunq.io/flunq/engine/store/stream"
)

// portion is how many events of each tenant to read at once. With many tenants it starts
// small, so that a read of all of them fits into the process; it grows while few tenants
// have many events.
type portion struct {
	mu    sync.Mutex
	size  int
	bound int // how many events fit into a read of mostBytes, as far as is known; 0: any number
}

const (
	target = 2000 // events of all tenants in one read, about
	fewer  = 4    // of each tenant at least

	mostBytes = 4 << 20 // of one reply, about: while it is read, the other tenants in it wait
	unbounded = 1000    // a bound that has grown to this is dropped
)

// bounded returns count, or fewer while events are large.
func (p *portion) bounded(count int) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bound == 0 {
		return count
	}
	return min(count, p.bound)
}

// of returns the portion of each of several tenants, at most most.
func (p *portion) of(tenants, most int) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	least := max(target/max(tenants, 1), fewer)
	p.size = min(max(p.size, least), most)
	return p.size
}

// saw records a read of up to count events of each tenant, whose reply had so many bytes.
func (p *portion) saw(found []stream.Found, count, bytes int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case bytes > mostBytes:
		p.bound = max(count*mostBytes/bytes, 1)
	case 2*p.bound >= unbounded:
		p.bound = 0
	default:
		p.bound *= 2
	}
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
