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
	sim, err := newSimulation(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer sim.close()
	if err := sim.launch(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		at := cfg.Start.Add(time.Duration(i+1) * 10 * time.Second)
		sim.arrivals = append(sim.arrivals, Arrival{At: at, Event: event.Event{ID: at.String(), Source: "/test", Type: "com.x", Tenant: cfg.Tenant, Time: at}})
	}
	for last := sim.clock.now; sim.openExecutions > 0 || len(sim.arrivals) > 0; last = sim.clock.now {
		if s := sim.choose(); s != nil {
			sim.turn(s)
		} else if moved, err := sim.advance(t.Context()); err != nil || !moved {
			t.Fatalf("after %v: %v", sim.clock.now.Sub(cfg.Start), err)
		}
		if sim.clock.now.Before(last) {
			t.Fatalf("the clock went back from %v to %v", last, sim.clock.now)
		}
	}
}
