package worker

import "testing"

// After yield, what a step left over comes first within its tenant, but after all other
// tenants.
func TestYield(t *testing.T) {
	t.Parallel()
	var q queues
	q.put(messages("a1", "b1", "b2"))
	q.putFront(messages("b0"))
	q.yield()
	if got, want := text(q.all()), "a1 b0 b1 b2"; got != want {
		t.Errorf("%s wait, want %s", got, want)
	}
}
