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
	room  = 2000 // events of all tenants in one read, about
	fewer = 4    // of each of them at least
)

// of is the portion of each of so many tenants.
func (p *portion) of(tenants, most int) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	least := max(room/max(tenants, 1), fewer)
	p.size = min(max(p.size, least), most)
	return p.size
}

// saw takes in what was read where it could be so many of each tenant.
func (p *portion) saw(from []tally, count int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	sum, most := 0, 0
	for _, t := range from {
		sum, most = sum+t.events, max(most, t.events)
	}
	switch {
	case sum > room:
		p.size = count / 2
	case most >= count: // there may be more of a tenant than was read
		p.size = max(p.size, 2*count)
	}
}

// tally is how many events of a tenant were read.
type tally struct {
	tenant string
	events int
}

// tallies counts events that were read: messages, and those that are not wanted.
func tallies(msgs []store.Message, unwanted []store.Spent) (out []tally) {
	var places map[string]int
	at := -1
	saw := func(tenant string) {
		if at < 0 {
			out, at, places = []tally{{tenant: tenant}}, 0, map[string]int{tenant: 0}
		} else if out[at].tenant != tenant {
			place, known := places[tenant]
			if !known {
				place = len(out)
				out, places[tenant] = append(out, tally{tenant: tenant}), place
			}
			at = place
		}
		out[at].events++
	}
	for i := range msgs {
		saw(msgs[i].Tenant)
	}
	for i := range unwanted {
		saw(unwanted[i].Tenant)
	}
	return out
}
