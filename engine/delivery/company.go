package delivery

import "flunq.io/flunq/engine/store"

// Company is whether several tenants have had work lately. Redis, and who works for
// all of them, stand still for the others while they take a batch of one: of a tenant
// that is not alone it is a small one.
type Company struct {
	last  string // whose work was read last
	reads int    // from which on one is alone, if they bring nothing of another
}

const (
	companyReads = 100 // that bring work of one tenant only, until it is alone
	shares       = 8   // into which a batch falls
)

// Saw takes in what was read.
func (c *Company) Saw(msgs []store.Message) {
	for i := range msgs {
		if m := &msgs[i]; m.Tenant != c.last {
			if c.last != "" {
				c.reads = companyReads
			}
			c.last = m.Tenant
		}
	}
	c.reads = max(c.reads-1, 0)
}

// Any reports whether there is more than one of them.
func (c *Company) Any() bool { return c.reads > 0 }

// Share is how much of a batch is taken at once.
func (c *Company) Share(most int) int {
	if !c.Any() {
		return most
	}
	return max(most/shares, 1)
}
