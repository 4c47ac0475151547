package worker

import (
	"strings"
	"testing"

	"flunq.io/flunq/engine/store"
)

// reportTo are messages as tests write them: tenant and number.
func reportTo(texts ...string) (msgs []store.Message) {
	for _, text := range texts {
		msgs = append(msgs, store.Message{Tenant: text[:1], ID: text[1:]})
	}
	return msgs
}

func text(msgs []store.Message) string {
	var out []string
	for _, m := range msgs {
		out = append(out, m.Tenant+m.ID)
	}
	return strings.Join(out, " ")
}

// Tenants take turns, whoever has how much; each one's messages keep their order.
func TestTenantsTakeTurns(t *testing.T) {
	t.Parallel()
	var q queues
	q.put(reportTo("a1", "a2", "a3", "a4", "b1", "c1", "c2"))
	var order []string
	for q.tenants() > 0 {
		msgs := q.next()
		n := min(2, len(msgs))
		order = append(order, text(msgs[:n]))
		q.leave(msgs[n:])
	}
	if got, want := strings.Join(order, ", "), "a1 a2, b1, c1 c2, a3 a4"; got != want || q.size != 0 {
		t.Errorf("the turns are %s, %d are left, want %s", got, q.size, want)
	}
}

// What comes back is first, before what its tenant has besides.
func TestWhatComesBackIsFirst(t *testing.T) {
	t.Parallel()
	var q queues
	q.put(reportTo("a1", "b1", "b2"))
	q.back(reportTo("b0"))
	q.back(nil)
	if got, want := text(q.all()), "b0 b1 b2 a1"; got != want || q.size != 4 || q.tenants() != 2 {
		t.Errorf("%d messages of %d tenants wait: %s, want %s", q.size, q.tenants(), got, want)
	}
	if !q.has(reportTo("b2")[0]) || q.has(reportTo("a2")[0]) {
		t.Error("it is not known what waits")
	}
}

// Of whom there is enough is known.
func TestTenantsWithMuch(t *testing.T) {
	t.Parallel()
	var q queues
	q.put(reportTo("a1", "a2", "b1", "c1", "c2", "c3"))
	if got := strings.Join(q.with(2), " "); got != "a c" {
		t.Errorf("those with two or more are %q, want a and c", got)
	}
	if got := q.with(4); got != nil {
		t.Errorf("those with four are %q", got)
	}
}
