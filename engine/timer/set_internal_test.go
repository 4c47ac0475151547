package timer

import (
	"errors"
	"testing"

	"github.com/alicebob/miniredis/v2"

	"flunq.io/flunq/engine/delivery"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/redistest"
	"flunq.io/flunq/engine/store/stream"
)

// A poison candidate is handled separately, and waits until nothing else is being handled. A batch that
// was not applied stays, and is applied again.
func TestSetPoisonCandidates(t *testing.T) {
	t.Parallel()
	mini := miniredis.RunT(t)
	st := store.New(redistest.Connect(t, mini.Addr()), store.Options{})
	if err := stream.New(st).Groups(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	began := 0
	var batches []int
	opts := Defaults()
	opts.Consumer, opts.Tenants, opts.Block = "t1", delivery.NewTenantSet("a"), 0
	opts.Observe = func(a delivery.Activity) {
		if a.What == delivery.Began {
			began++
		} else if began > 0 && (a.What == delivery.Done || a.What == delivery.Broken) {
			if a.What == delivery.Done {
				batches = append(batches, began)
			}
			began = 0
		}
	}
	s, err := New(st, opts)
	if err != nil {
		t.Fatal(err)
	}
	for range 5 {
		e := event.Event{ID: "e", Source: "/test", Type: event.TimerScheduled, Tenant: "a", Execution: "x", Task: "/do/0/t", Data: []byte(`{"fire_at":"2126-01-01T00:00:00Z"}`)}
		if err := st.Publish(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.read(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	s.requests[2].Crashes, s.requests[3].Crashes = 2, 3
	if s.watch.isolation.Enter(store.Message{}); !errors.Is(s.set(t.Context()), delivery.ErrBusy) || len(s.Held()) != 3 {
		t.Errorf("%d are held beside another message, want the first candidate and those behind it", len(s.Held()))
	}
	s.watch.isolation.Leave()
	mini.SetError("LOADING")
	if err := s.set(t.Context()); err == nil || len(s.Held()) != 3 {
		t.Errorf("%d are held, error %v", len(s.Held()), err)
	}
	mini.SetError("")
	if err := s.set(t.Context()); err != nil || len(s.Held()) != 0 {
		t.Errorf("%d are held, error %v", len(s.Held()), err)
	}
	if len(batches) != 4 || batches[0] != 2 || batches[1] != 1 || batches[2] != 1 || batches[3] != 1 {
		t.Errorf("batches of %v, want 2, each candidate, and the last", batches)
	}
}
