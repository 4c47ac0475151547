package worker

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"flunq.io/flunq/engine/delivery"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/redistest"
	"flunq.io/flunq/engine/store/stream"
)

// inboxOf returns an inbox of some tenants that is not connected to Redis.
func inboxOf(t *testing.T, tenants ...string) *Inbox {
	t.Helper()
	opts := delivery.Defaults("worker", store.WorkerGroup)
	opts.Consumer, opts.Tenants, opts.Batch = "p", delivery.NewTenantSet(tenants...), 8
	rdb := redistest.Connect(t, "localhost:6379")
	b, err := NewInbox(store.New(rdb, store.Options{}), opts)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// While several tenants have work, a tenant has one batch in progress, and its operators'
// commands besides.
func TestCommandsPassABatch(t *testing.T) {
	t.Parallel()
	b := inboxOf(t, "a", "b")
	b.contention.Record([]store.Message{{Tenant: "a"}, {Tenant: "b"}}, time.Unix(1, 0))
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
	b := inboxOf(t, "a", "b")
	var msgs []store.Message
	for _, tenant := range []string{"a", "b"} {
		for n := range 8 {
			e := event.Event{Type: event.TaskCompleted, Execution: fmt.Sprintf("x%d", n)}
			msgs = append(msgs, store.Message{Tenant: tenant, ID: fmt.Sprintf("1-%d", n), Event: e})
		}
	}
	b.contention.Record(msgs, time.Unix(1, 0))
	b.waiting.put(msgs)
	var batches [][]store.Message
	for range 2 {
		a := b.next()
		if len(a.batch) == 0 {
			t.Fatalf("the worker does %+v, want a batch", a)
		}
		batches = append(batches, a.batch)
	}
	a := b.next()
	if len(a.batch) > 0 || a.changed == nil {
		t.Errorf("the worker does %+v, want to wait", a)
	}
	b.done(batches[0], nil, true)
	select {
	case <-a.changed:
	default:
		t.Error("the waiting worker is not woken when a batch is done")
	}
}

// After a batch with much data, a tenant waits while others have work. Its operators' commands
// do not, and waiting workers wake when it may continue.
func TestPauseAfterMuchData(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := inboxOf(t, "a", "b")
		b.pause("a", 8<<20)
		b.waiting.put(messages("a1"))
		if batch := b.pick(); text(batch) != "a1" {
			t.Fatalf("the batch is %q, want a1: no other tenant has work", text(batch))
		}
		b.done(messages("a1"), nil, true)
		b.contention.Record([]store.Message{{Tenant: "a"}, {Tenant: "b"}}, time.Now())
		b.pause("a", 4<<20)
		cancel := event.Event{Type: event.ExecutionCancelled, Execution: "x"}
		b.waiting.put(append(messages("a2"), store.Message{Tenant: "a", ID: "3", Event: cancel}))
		if batch := b.pick(); text(batch) != "a3" {
			t.Fatalf("the batch is %q, want the command a3", text(batch))
		}
		b.done(messages("a3"), nil, true)
		b.reading = true
		a := b.next()
		if a.changed == nil {
			t.Fatalf("the worker does %+v, want to wait", a)
		}
		began := time.Now()
		<-a.changed
		if took := time.Since(began); took != time.Second/2 {
			t.Errorf("the workers wake after %v, want 500ms", took)
		}
		if batch := b.pick(); text(batch) != "a2" {
			t.Errorf("the batch is %q, want a2", text(batch))
		}
	})
}

// A tenant with large events is read by another worker than the others.
func TestLargeEventsAreReadApart(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t)
	st := store.New(rdb, store.Options{})
	opts := delivery.Defaults("worker", store.WorkerGroup)
	opts.Consumer, opts.Tenants, opts.Block = "p", delivery.NewTenantSet("a", "b", "c"), 10*time.Millisecond
	b, err := NewInbox(st, opts)
	if err != nil {
		t.Fatal(err)
	}
	for _, tenant := range opts.Tenants.Names() {
		if err := stream.New(st).Groups(t.Context(), tenant, store.WorkerGroup); err != nil {
			t.Fatal(err)
		}
	}
	e := event.Event{ID: "1", Source: "/x", Type: "com.example.large", Time: time.Unix(1, 0), Tenant: "b", Data: slices.Repeat([]byte("1"), 2<<20)}
	if err := rdb.XAdd(t.Context(), &redis.XAddArgs{Stream: st.Keys().Stream("b"), Values: e.Fields()}).Err(); err != nil {
		t.Fatal(err)
	}
	batch, _, err := b.take(t.Context())
	if err != nil || len(batch) != 1 || batch[0].Tenant != "b" {
		t.Fatalf("%q, %v: want the event of b", text(batch), err)
	}
	b.done(batch, nil, true)
	first, second := b.next(), b.next()
	if !first.large || !slices.Equal(first.skip, []string{"a", "c"}) {
		t.Errorf("the first worker reads %+v, want only b", first)
	}
	if second.changed != nil || second.large || !slices.Equal(second.skip, []string{"b"}) {
		t.Errorf("the second worker reads %+v, want all but b", second)
	}
	// A single worker reads them in turns.
	b.reading, b.readsLarge, b.largeDue = false, false, true
	read := func() (large bool) {
		if batch, _, err := b.take(t.Context()); err != nil || len(batch) > 0 {
			t.Fatalf("%q, %v: want nothing", text(batch), err)
		}
		return !b.largeDue
	}
	if turns, want := []bool{read(), read(), read(), read()}, []bool{true, false, true, false}; !slices.Equal(turns, want) {
		t.Errorf("a single worker reads large events %v, want %v", turns, want)
	}
	// After a while without such events, all are read together again.
	b.largeAt = b.largeAt.Add(-2 * largeTime)
	if !read() {
		t.Error("it does not look for large events")
	}
	if read := b.next(); read.large || len(read.skip) > 0 || read.block != b.opts.Block {
		t.Errorf("the next read is %+v, want all tenants", read)
	}
}
