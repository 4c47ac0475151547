package sim_test

import (
	"testing"
	"time"

	"flunq.io/flunq/sim"
	"flunq.io/flunq/sim/mock"
)

// A clock that jumps past the restart of a dead process does not prevent the restart,
// even if nothing else is left to do.
func TestJumpPastTheStart(t *testing.T) {
	t.Parallel()
	withstands(t, 10629, `
  - a: {set: {x: 1}}
  - b: {set: {x: '${ .x + 1 }'}}
  - w1: {wait: {hours: 1}}
  - c: {set: {x: '${ .x + 1 }'}}
  - d: {set: {x: '${ .x + 1 }'}}
  - w2: {wait: {hours: 1}}
  - e: {set: {x: '${ .x + 1 }'}}
`,
		sim.Fault{Kind: sim.StopRequested, Service: "timer-sim-1", Command: 4, Amount: time.Millisecond},
		sim.Fault{Kind: sim.CrashAfter, Service: "timer-sim1.0-1", Command: 2, Amount: 47 * time.Second},
		sim.Fault{Kind: sim.Clock, Service: "timer-sim-1", Command: 6, Amount: 61 * time.Second},
	)
}

// withstands expects tasks to complete with a seed despite the faults, and all faults to be
// injected.
func withstands(t *testing.T, seed uint64, tasks string, faults ...sim.Fault) {
	t.Helper()
	def := definition(t, "ten.yaml", []byte("document: {dsl: '1.0.3', namespace: default, name: ten, version: '1.0.0'}\ndo:"+tasks))
	trial, err := sim.Try(t.Context(), sim.Config{
		Definition: def, ID: "sim", Seed: seed, Processes: 2, Executors: 4, Mocks: &mock.Set{}, Plan: &sim.Plan{Faults: faults},
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(trial.Injected) != len(faults) || trial.Status != "completed" || len(trial.Broken) > 0 {
		t.Errorf("after %d faults it is %s, with %v", len(trial.Injected), trial.Status, trial.Broken)
	}
}
