package delivery

import (
	"time"

	"flunq.io/flunq/engine/store"
)

// Contention tells whether several tenants have had work recently. While Redis and the
// services process a batch of one tenant, the others wait; so while several have work,
// batches are small.
type Contention struct {
	last  string    // the tenant whose work was read last
	until time.Time // when contention ends unless another tenant has work
	now   time.Time
}

const (
	contentionTime = 5 * time.Second
	batchFraction  = 8 // fraction of a batch that is taken during contention
	readFraction   = 4 // fraction of a batch that is read during contention
)

// Saw records the messages of a read.
func (c *Contention) Saw(msgs []store.Message, now time.Time) {
	for i := range msgs {
		if m := &msgs[i]; m.Tenant != c.last {
			if c.last != "" {
				c.until = now.Add(contentionTime)
			}
			c.last = m.Tenant
		}
	}
	c.now = now
}

// Any reports whether more than one tenant has work.
func (c *Contention) Any() bool { return c.now.Before(c.until) }

// ReadSize returns how much to read of each tenant at once: writing and reading messages
// of one tenant delays the others too.
func (c *Contention) ReadSize(most int) int {
	if !c.Any() {
		return most
	}
	return max(most/readFraction, 1)
}

// BatchSize returns how much of a batch to take at once.
func (c *Contention) BatchSize(most int) int {
	if !c.Any() {
		return most
	}
	return max(most/batchFraction, 1)
}
