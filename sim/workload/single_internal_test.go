package workload

import (
	"testing"
	"time"

	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/sim"
)

// What an execution keeps while it waits is not reported as left over, even if another
// execution has ended: whether it may wait depends on other runs. (Three executions of the
// example sensors, one of which began to listen after the events had come, were once reported
// as a bug.)
func TestOneWaitsWhileAnotherHasEnded(t *testing.T) {
	t.Parallel()
	l := workload{
		Document:   "\ndo: [{hear: {listen: {to: {one: {with: {type: com.example.never}}}}}}]",
		Acts:       []act{{Execution: "x", After: time.Hour, Type: event.ExecutionCancelled}},
		Executions: 2, Want: map[string]string{"x": "cancelled", "x-2": "waiting"},
	}
	if wrong := l.wrong(tried(t, l.config(), sim.Plan{})); len(wrong) > 0 {
		t.Error(wrong)
	}
}

// The clock jumps by more than a lease between a service's read and its claim: it claims
// its own messages, and must handle them once. Otherwise a timer would be set after its
// cancellation.
func TestClockJumpsBetweenReadAndClaim(t *testing.T) {
	t.Parallel()
	l := workload{Document: `
do:
  - brief: {do: [{at: {set: {n: 1}}}], timeout: {after: P300D}}
  - rest: {wait: P1D}
`}
	for seed := range uint64(8) {
		cfg := l.config()
		cfg.Seed = seed
		for service, commands := range tried(t, cfg, sim.Plan{}).Commands {
			for n := uint64(1); n <= commands; n++ {
				got := tried(t, cfg, sim.Plan{Faults: []sim.Fault{{Kind: sim.Clock, Service: service, Command: n, Amount: 45 * time.Second}}})
				if len(got.Broken) > 0 || got.Status != "completed" {
					t.Errorf("seed %d, command %d of %s: %s %v", seed, n, service, got.Status, got.Broken)
				}
			}
		}
	}
}
