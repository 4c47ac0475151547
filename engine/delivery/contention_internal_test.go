package delivery

import (
	"testing"
	"time"

	"flunq.io/flunq/engine/store"
)

// Without contention a tenant gets whole batches, with contention it gets smaller ones.
func TestBatchesShrinkUnderContention(t *testing.T) {
	t.Parallel()
	const few = 100 / batchFraction
	var c Contention
	read := func(second int, tenants ...string) int {
		var msgs []store.Message
		for _, tenant := range tenants {
			msgs = append(msgs, store.Message{Tenant: tenant})
		}
		c.Record(msgs, noon().Add(time.Duration(second)*time.Second))
		return c.BatchSize(100)
	}
	if n := read(0, "a", "a"); n != 100 || c.Any() {
		t.Errorf("without contention %d are taken, want 100", n)
	}
	if n := read(1, "a", "b", "a"); n != few || !c.Any() {
		t.Errorf("of two tenants %d are taken, want %d", n, few)
	}
	if n := read(5, "a"); n != few || c.BatchSize(2) != 1 {
		t.Errorf("soon after that %d are taken, and %d of 2", n, c.BatchSize(2))
	}
	if n := read(6, "a"); n != 100 {
		t.Errorf("long after that %d are taken, want 100", n)
	}
	if n := read(60, "b"); n != few {
		t.Errorf("with work of another tenant %d are taken, want %d", n, few)
	}
	if n := read(66); n != 100 {
		t.Errorf("without new work %d are taken, want 100", n)
	}
}
