package delivery_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"flunq.io/flunq/engine/delivery"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/store"
)

// ids returns the ids of messages' events.
func ids(msgs []store.Message) (out []string) {
	for _, m := range msgs {
		out = append(out, m.Event.ID)
	}
	return out
}

// together handles the messages of all types except some in batches.
func (d *consumer) together(t *testing.T, handle func([]store.Message) error, but ...event.Type) error {
	t.Helper()
	if d.Empty() {
		if _, _, err := d.Fill(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
	}
	wanted := func(typ event.Type) bool { return !slices.Contains(but, typ) }
	return d.HandleBatches(t.Context(), wanted, func(_ context.Context, msgs []store.Message) error { return handle(msgs) })
}

// Wanted messages are handled in one batch and in order; the others are acknowledged.
func TestHandleBatches(t *testing.T) {
	t.Parallel()
	d := newConsumer(t)
	for _, id := range []string{"a", "b", "c"} {
		d.send(t, id)
		must(t, d.Store.Publish(t.Context(), event.Event{ID: "not", Source: "/test", Type: "com.y", Tenant: tenant}))
	}
	var got [][]string
	must(t, d.together(t, func(msgs []store.Message) error { got = append(got, ids(msgs)); return nil }, "com.y"))
	if len(got) != 1 || !slices.Equal(got[0], []string{"a", "b", "c"}) {
		t.Errorf("handled %v", got)
	}
	want := []delivery.What{
		delivery.Began, delivery.Began, delivery.Began, delivery.Done, delivery.Done, delivery.Done,
	}
	if !slices.Equal(d.whats(), want) || !d.Empty() || len(d.Held()) != 3 {
		t.Errorf("activities %v; %d are held, want the 3 that are not acknowledged yet", d.whats(), len(d.Held()))
	}
	must(t, d.together(t, func([]store.Message) error { return errors.New("nothing is left") }))
	if len(d.Held()) != 0 {
		t.Errorf("held %v", ids(d.Held()))
	}
}

// After an error, the whole batch is handled again.
func TestHandleBatchesStopsAtAnError(t *testing.T) {
	t.Parallel()
	d := newConsumer(t)
	d.send(t, "a")
	d.send(t, "b")
	gone := errors.New("redis is gone")
	if err := d.together(t, func([]store.Message) error { return gone }); !errors.Is(err, gone) || d.Empty() {
		t.Fatalf("error %v", err)
	}
	if last := d.activities[len(d.activities)-1]; last.What != delivery.Broken || !errors.Is(last.Err, gone) {
		t.Errorf("last activity %v", last)
	}
	var got []string
	must(t, d.together(t, func(msgs []store.Message) error { got = ids(msgs); return nil }))
	if !slices.Equal(got, []string{"a", "b"}) || !d.Empty() {
		t.Errorf("handled %v", got)
	}
}

// While a poison candidate is being handled, nothing else begins.
func TestHandleBatchesWaitsForPoisonCandidates(t *testing.T) {
	t.Parallel()
	isolation := &delivery.Isolation{}
	if !isolation.Enter(store.Message{Crashes: 2}) {
		t.Fatal("the candidate may not enter")
	}
	d := newConsumerWith(t, isolation)
	d.send(t, "a")
	handle := func([]store.Message) error { return nil }
	if err := d.together(t, handle); !errors.Is(err, delivery.ErrBusy) || d.Empty() {
		t.Fatalf("error %v, want that it is busy", err)
	}
	isolation.Leave()
	must(t, d.together(t, handle))
	if !isolation.Enter(store.Message{Crashes: 2}) {
		t.Error("a message has not left")
	}
}
