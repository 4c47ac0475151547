package sim_test

import (
	"testing"
	"time"

	"flunq.io/flunq/sim"
)

// A copy of timer.scheduled that is handled between the timer's firing and the
// execution's reaction makes the timer fire again, as the same event, and the execution
// may have ended by then. This is no violation, even if the stream was trimmed in between
// and contains only the second one.
func TestCopyFiresAfterTheEnd(t *testing.T) {
	t.Parallel()
	withstands(t, 18279, `
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
`,
		sim.Fault{Kind: sim.Duplicate, Service: "housekeeping-sim1.0", Command: 9},
		sim.Fault{Kind: sim.Clock, Service: "timer-sim-1", Command: 15, Amount: time.Second},
		sim.Fault{Kind: sim.CrashAfter, Service: "housekeeping-sim1.0", Command: 16, Amount: 45 * time.Second},
		sim.Fault{Kind: sim.Clock, Service: "timer-sim-0", Command: 19, Amount: 10 * time.Second},
		sim.Fault{Kind: sim.Clock, Service: "timer-sim-1", Command: 21, Amount: 10 * time.Second},
		sim.Fault{Kind: sim.Duplicate, Service: "housekeeping-sim", Command: 36},
		sim.Fault{Kind: sim.CrashBefore, Service: "housekeeping-sim", Command: 38, Amount: 32139 * time.Millisecond},
	)
}
