package delivery

import (
	"time"

	"flunq.io/flunq/engine/store"
)

// Contention tracks whether several tenants have had work recently. While Redis and the
// services process a batch of one tenant, the others wait; so batches are small while
// several tenants have work.
type Contention struct {
	last  string    // the tenant whose work was read last
	until time.Time // when contention ends unless another tenant has work
	now   time.Time
}

const (
	contentionTime = 5 * time.Second
	batchFraction  = 8 // during contention, a batch has 1/8 of its usual size
	readFraction   = 4 // during contention, a read has 1/4 of its usual size
)

// Record records the messages of a read.
func (c *Contention) Record(msgs []store.Message, now time.Time) {
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

// ReadSize returns how many messages of each tenant to read in one call, given the usual
// number: writing and reading messages of one tenant delays the others.
func (c *Contention) ReadSize(most int) int {
	if !c.Any() {
		return most
	}
	return max(most/readFraction, 1)
}

// BatchSize returns how many messages to handle in one batch, given the usual number.
func (c *Contention) BatchSize(most int) int {
	if !c.Any() {
		return most
	}
	return max(most/batchFraction, 1)
}
