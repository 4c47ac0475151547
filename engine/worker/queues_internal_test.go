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

// Commands come before everything else of their tenant, in order, but after the start and the retry of
// their executions.
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
	if got, want := text(q.All()), "b0 a4 a7 a8 a1 a2 a3 a5 a6"; got != want || q.Size() != 9 {
		t.Errorf("%d messages wait: %s, want %s", q.Size(), got, want)
	}
	q.putFront("a", []store.Message{of("9", "v", event.TaskCompleted)})
	if got, want := text(q.All()), "a4 a7 a8 a9 a1 a2 a3 a5 a6 b0"; got != want {
		t.Errorf("%s wait after what came back, want %s", got, want)
	}
}

// A tenant has enough with many messages or with large ones.
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
	q.put([]store.Message{{Tenant: "b", Event: event.Event{Data: make([]byte, 33<<20)}}})
	if got := strings.Join(q.atLeast(4), " "); got != "b" {
		t.Errorf("those with large messages are %q, want b", got)
	}
}
