package sim

import (
	"testing"
	"time"

	"flunq.io/flunq/engine/event"
)

// A clock that jumps past an event from outside does not go back to it: otherwise
// messages delivered after the jump would seem to come from the future.
func TestClockNeverGoesBack(t *testing.T) {
	t.Parallel()
	cfg := twoProcesses(t).WithDefaults()
	cfg.Plan = &Plan{Faults: []Fault{{Clock, "worker-sim-0", 1, time.Minute}}}
	w, err := newSimulation(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer w.close()
	if err := w.launch(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		at := cfg.Start.Add(time.Duration(i+1) * 10 * time.Second)
		w.arrivals = append(w.arrivals, Arrival{At: at, Event: event.Event{ID: at.String(), Source: "/test", Type: "com.x", Tenant: cfg.Tenant, Time: at}})
	}
	for last := w.clock.now; w.openExecutions > 0 || len(w.arrivals) > 0; last = w.clock.now {
		if s := w.choose(); s != nil {
			w.turn(s)
		} else if moved, err := w.advance(t.Context()); err != nil || !moved {
			t.Fatalf("after %v of all: %v", w.clock.now.Sub(cfg.Start), err)
		}
		if w.clock.now.Before(last) {
			t.Fatalf("the clock went back from %v to %v", last, w.clock.now)
		}
	}
}
