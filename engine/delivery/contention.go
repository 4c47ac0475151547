package delivery

import (
	"time"

	"flunq.io/flunq/engine/store"
)

// Contention tracks whether several tenants have had work recently. While a batch of one tenant is
// processed, the others wait, so batches are small during contention.
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

// ReadSize returns how many messages of each tenant to read in one call: limit, or less during
// contention, since reading messages of one tenant delays the others.
func (c *Contention) ReadSize(limit int) int {
	if !c.Any() {
		return limit
	}
	return max(limit/readFraction, 1)
}

// BatchSize returns how many messages to handle in one batch: limit, or less during contention.
func (c *Contention) BatchSize(limit int) int {
	if !c.Any() {
		return limit
	}
	return max(limit/batchFraction, 1)
}
