package delivery

import (
	"time"

	"flunq.io/flunq/engine/store"
)

// Contention is whether several tenants have had work lately. Redis, and who works for
// all of them, stand still for the others while they take a batch of one: of a tenant
// that is not alone it is a small one.
type Contention struct {
	last  string    // whose work was read last
	until time.Time // when one is alone, if nobody else brings anything
	now   time.Time
}

const (
	contentionTime = 5 * time.Second
	shares         = 8 // into which a batch falls …
	portions       = 4 // … and a read
)

// Saw takes in what was read at a time.
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

// Any reports whether there is more than one of them.
func (c *Contention) Any() bool { return c.now.Before(c.until) }

// Portion is how much is read at once of each of them: what is written out for one, and
// taken in, is in the way of the others as well.
func (c *Contention) Portion(most int) int {
	if !c.Any() {
		return most
	}
	return max(most/portions, 1)
}

// Share is how much of a batch is taken at once.
func (c *Contention) Share(most int) int {
	if !c.Any() {
		return most
	}
	return max(most/shares, 1)
}
