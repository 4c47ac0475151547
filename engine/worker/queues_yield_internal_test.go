package worker

import "testing"

// What a step has not come to is first of its tenant, behind all other tenants.
func TestYield(t *testing.T) {
	t.Parallel()
	var q queues
	q.put(reportTo("a1", "b1", "b2"))
	q.back(reportTo("b0"))
	q.yield()
	if got, want := text(q.all()), "a1 b0 b1 b2"; got != want {
		t.Errorf("%s wait, want %s", got, want)
	}
}
