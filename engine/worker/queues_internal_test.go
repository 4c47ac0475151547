package worker

import (
	"strings"
	"testing"

	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/store"
)

// messages parses messages as tests write them: a tenant's letter and a number.
func messages(texts ...string) (msgs []store.Message) {
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

// Tenants take turns, however much each has queued, and each tenant's messages keep their
// order.
func TestTenantsTakeTurns(t *testing.T) {
	t.Parallel()
	var q queues
	q.put(messages("a1", "a2", "a3", "a4", "b1", "c1", "c2"))
	var order []string
	for q.tenants() > 0 {
		msgs := q.next()
		n := min(2, len(msgs))
		order = append(order, text(msgs[:n]))
		q.requeue(msgs[n:])
	}
	if got, want := strings.Join(order, ", "), "a1 a2, b1, c1 c2, a3 a4"; got != want || q.size != 0 {
		t.Errorf("the turns are %s, %d are left, want %s", got, q.size, want)
	}
}

// Commands come before all else of their tenant, in their order, but behind the start and
// the retry of their executions.
func TestCommandsComeFirst(t *testing.T) {
	t.Parallel()
	of := func(id, execution string, kind event.Type) store.Message {
		return store.Message{Tenant: "a", ID: id, Event: event.Event{Type: kind, Execution: execution}}
	}
	var q queues
	q.put(append(messages("b0"), of("1", "x", event.TaskCompleted), of("2", "y", event.ExecutionStarted), of("3", "z", event.ExecutionRetried)))
	q.put([]store.Message{
		of("4", "x", event.ExecutionSuspended), of("5", "y", event.ExecutionCancelled), of("6", "z", event.ExecutionCancelled),
		of("7", "w", event.ExecutionCancelled), of("8", "x", event.ExecutionResumed),
	})
	if got, want := text(q.all()), "b0 a4 a7 a8 a1 a2 a3 a5 a6"; got != want || q.size != 9 {
		t.Errorf("%d messages wait: %s, want %s", q.size, got, want)
	}
	q.putFront([]store.Message{of("9", "v", event.TaskCompleted)})
	if got, want := text(q.all()), "a4 a7 a8 a9 a1 a2 a3 a5 a6 b0"; got != want {
		t.Errorf("%s wait after what came back, want %s", got, want)
	}
}

// Messages that are put back come first, before the rest of their tenant.
func TestBackPutsMessagesFirst(t *testing.T) {
	t.Parallel()
	var q queues
	q.put(messages("a1", "b1", "b2"))
	q.putFront(messages("b0"))
	q.putFront(nil)
	if got, want := text(q.all()), "b0 b1 b2 a1"; got != want || q.size != 4 || q.tenants() != 2 {
		t.Errorf("%d messages of %d tenants wait: %s, want %s", q.size, q.tenants(), got, want)
	}
	if !q.has(messages("b2")[0]) || q.has(messages("a2")[0]) {
		t.Error("has does not report what is queued")
	}
}

// with finds the tenants with long queues.
func TestTenantsWithLongQueues(t *testing.T) {
	t.Parallel()
	var q queues
	q.put(messages("a1", "a2", "b1", "c1", "c2", "c3"))
	if got := strings.Join(q.atLeast(2), " "); got != "a c" {
		t.Errorf("those with two or more are %q, want a and c", got)
	}
	if got := q.atLeast(4); got != nil {
		t.Errorf("those with four are %q", got)
	}
}
