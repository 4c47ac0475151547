package sim_test

import (
	"testing"
	"time"

	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/sim"
	"flunq.io/flunq/sim/mock"
)

// A copy of timer.scheduled that is taken through between the timer's firing and what
// the execution makes of it has the timer fire once more, as the same event, and by
// then the execution may have ended. That is no timer which outlives it, though the
// stream was trimmed in between, and shows the second one only.
func TestCopyFiresAfterTheEnd(t *testing.T) {
	t.Parallel()
	def, _, err := dsl.Parse("ten.yaml", []byte(`
document: {dsl: '1.0.3', namespace: default, name: ten, version: '1.0.0'}
do:
  - a: {set: {x: 1}}
  - b: {set: {x: '${ .x + 1 }'}}
  - w1: {wait: {hours: 1}}
  - c: {set: {x: '${ .x + 1 }'}}
  - d: {set: {x: '${ .x + 1 }'}}
  - w2: {wait: {hours: 1}}
  - e: {set: {x: '${ .x + 1 }'}}
  - f: {set: {x: '${ .x + 1 }'}}
  - w3: {wait: {hours: 1}}
  - g: {set: {x: '${ .x + 1 }'}}
`))
	if err != nil {
		t.Fatal(err)
	}
	trial, err := sim.Try(t.Context(), sim.Config{
		Definition: def, ID: "sim", Seed: 18279, Processes: 2, Executors: 4, Mocks: &mock.Set{}, Plan: &sim.Plan{Faults: []sim.Fault{
			{Kind: sim.Duplicate, Service: "housekeeping-sim1.0", Command: 9},
			{Kind: sim.Clock, Service: "timer-sim-1", Command: 15, Amount: time.Second},
			{Kind: sim.CrashAfter, Service: "housekeeping-sim1.0", Command: 16, Amount: 45 * time.Second},
			{Kind: sim.Clock, Service: "timer-sim-0", Command: 19, Amount: 10 * time.Second},
			{Kind: sim.Clock, Service: "timer-sim-1", Command: 21, Amount: 10 * time.Second},
			{Kind: sim.Duplicate, Service: "housekeeping-sim", Command: 36},
			{Kind: sim.CrashBefore, Service: "housekeeping-sim", Command: 38, Amount: 32139 * time.Millisecond},
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(trial.Struck) != 7 || trial.Status != "completed" || len(trial.Broken) > 0 {
		t.Errorf("after %d faults it is %s, with %v", len(trial.Struck), trial.Status, trial.Broken)
	}
}
