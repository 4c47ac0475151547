package delivery

import (
	"testing"

	"flunq.io/flunq/engine/store"
)

// Whoever is alone is taken whole batches of; who has had company lately is not.
func TestBatchesAreSmallerInCompany(t *testing.T) {
	t.Parallel()
	const few = 100 / shares
	var c Company
	read := func(tenants ...string) int {
		var msgs []store.Message
		for _, tenant := range tenants {
			msgs = append(msgs, store.Message{Tenant: tenant})
		}
		c.Saw(msgs)
		return c.Share(100)
	}
	if n := read("a", "a"); n != 100 || c.Any() {
		t.Errorf("alone %d are taken, want 100", n)
	}
	if n := read("a", "b", "a"); n != few || !c.Any() {
		t.Errorf("of two tenants %d are taken, want %d", n, few)
	}
	for range companyReads - 2 {
		if n := read("a"); n != few {
			t.Fatalf("soon after that %d are taken, want %d", n, few)
		}
	}
	read()
	if n := read("a"); n != 100 {
		t.Errorf("long after that %d are taken, want 100", n)
	}
	if n := read("b"); n != few || c.Share(2) != 1 {
		t.Errorf("when another one comes %d are taken, and %d of 2", n, c.Share(2))
	}
}
