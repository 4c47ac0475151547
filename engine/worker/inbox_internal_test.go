package worker

import (
	"fmt"
	"testing"
	"time"

	"flunq.io/flunq/engine/delivery"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/store"
)

// While several tenants have work, a tenant has one batch in progress, and its operators'
// commands besides.
func TestCommandsPassABatch(t *testing.T) {
	t.Parallel()
	b := Inbox{
		opts: delivery.Options{Tenants: delivery.NewTenantSet("a", "b"), Batch: 8, Block: time.Second, Isolation: &delivery.Isolation{}},
		busy: map[address]bool{}, changed: make(chan struct{}),
	}
	b.contention.Saw([]store.Message{{Tenant: "a"}, {Tenant: "b"}}, time.Unix(1, 0))
	b.waiting.put(messages("a1", "a2", "a3"))
	if batch := b.pick(); text(batch) != "a1" {
		t.Fatalf("the batch is %s, want a1", text(batch))
	}
	if batch := b.pick(); len(batch) > 0 {
		t.Fatalf("%s begin beside a batch of their tenant", text(batch))
	}
	cancel := event.Event{Type: event.ExecutionCancelled, Execution: "x"}
	b.waiting.put([]store.Message{{Tenant: "a", ID: "4", Event: cancel}})
	if batch := b.pick(); text(batch) != "a4" {
		t.Errorf("the batch beside is %q, want a4", text(batch))
	}
	if left := text(b.waiting.All()); left != "a2 a3" || b.waiting.Size() != 2 {
		t.Errorf("%d are left: %s, want a2 a3", b.waiting.Size(), left)
	}
}

// While every tenant has enough messages and a batch in progress, an idle worker waits
// for a batch to end instead of reading.
func TestNobodyReadsWhenAllHaveEnough(t *testing.T) {
	t.Parallel()
	b := Inbox{
		opts: delivery.Options{Tenants: delivery.NewTenantSet("a", "b"), Batch: 8, Block: time.Second, Isolation: &delivery.Isolation{}},
		busy: map[address]bool{}, changed: make(chan struct{}),
	}
	var msgs []store.Message
	for _, tenant := range []string{"a", "b"} {
		for n := range 8 {
			e := event.Event{Type: event.TaskCompleted, Execution: fmt.Sprintf("x%d", n)}
			msgs = append(msgs, store.Message{Tenant: tenant, ID: fmt.Sprintf("1-%d", n), Event: e})
		}
	}
	b.contention.Saw(msgs, time.Unix(1, 0))
	b.waiting.put(msgs)
	var batches [][]store.Message
	for range 2 {
		batch, read, _ := b.next()
		if len(batch) == 0 || read != nil {
			t.Fatalf("%d messages to handle, and %v to read, want a batch", len(batch), read)
		}
		batches = append(batches, batch)
	}
	batch, read, changed := b.next()
	if len(batch) > 0 || read != nil || changed == nil {
		t.Errorf("%d messages to handle, and %v to read, want to wait", len(batch), read)
	}
	b.done(batches[0], nil, true)
	select {
	case <-changed:
	default:
		t.Error("the waiting worker is not woken when a batch is done")
	}
}
