package worker

import "flunq.io/flunq/engine/store"

// company is whether several tenants have had work lately. Redis stands still while
// it takes a batch in: a tenant that is not alone has it do so for shorter.
type company struct {
	last  string // whose work was read last
	reads int    // from which on one is alone, if they bring nothing of another
}

const (
	companyReads = 100 // that bring work of one tenant only, until it is alone
	shares       = 4   // into which a batch falls
)

// saw takes in a read.
func (c *company) saw(msgs []store.Message) {
	for i := range msgs {
		if m := &msgs[i]; m.Tenant != c.last && concerns(m.Event.Type) {
			if c.last != "" {
				c.reads = companyReads
			}
			c.last = m.Tenant
		}
	}
	c.reads = max(c.reads-1, 0)
}

// share is how much of a batch is taken at once.
func (c *company) share(most int) int {
	if c.reads == 0 {
		return most
	}
	return max(most/shares, 1)
}
