package worker

import (
	"strings"
	"testing"

	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/store"
)

// told are messages as tests write them: tenant and number.
func told(texts ...string) (msgs []store.Message) {
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
	q.put(told("a1", "a2", "a3", "a4", "b1", "c1", "c2"))
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
	q.put(told("a1", "b1", "b2"))
	q.back(told("b0"))
	q.back(nil)
	if got, want := text(q.all()), "b0 b1 b2 a1"; got != want || q.size != 4 || q.tenants() != 2 {
		t.Errorf("%d messages of %d tenants wait: %s, want %s", q.size, q.tenants(), got, want)
	}
	if !q.has(told("b2")[0]) || q.has(told("a2")[0]) {
		t.Error("it is not known what waits")
	}
}

// Whoever is alone is taken whole batches of; who has had company lately is not.
func TestBatchesAreSmallerInCompany(t *testing.T) {
	t.Parallel()
	var c company
	read := func(texts ...string) int {
		msgs := told(texts...)
		for i := range msgs {
			msgs[i].Event.Type = event.TimerFired
		}
		c.saw(msgs)
		return c.share(100)
	}
	if n := read("a1", "a2"); n != 100 {
		t.Errorf("alone %d are taken, want 100", n)
	}
	if n := read("a3", "b1", "a4"); n != 25 {
		t.Errorf("of two tenants %d are taken, want 25", n)
	}
	for range companyReads - 2 {
		if n := read("a5"); n != 25 {
			t.Fatalf("soon after that %d are taken, want 25", n)
		}
	}
	read()
	if n := read("a6"); n != 100 {
		t.Errorf("long after that %d are taken, want 100", n)
	}
	if n := read("b2"); n != 25 || c.share(2) != 1 {
		t.Errorf("when another one comes %d are taken, and %d of 2", n, c.share(2))
	}
}
