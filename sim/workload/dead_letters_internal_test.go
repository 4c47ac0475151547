package workload

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/sim"
)

// An execution that ends because of an unreadable event leaves exactly one dead letter,
// whichever request or reply is lost and whichever process crashes or freezes.
func TestDeadLettersOfEverySingleFault(t *testing.T) {
	t.Parallel()
	const name = "an execution with an unreadable event ends"
	l := workloads()[slices.IndexFunc(workloads(), func(l workload) bool { return l.Name == name })]
	l.everyFault(t, func(t *testing.T, got *sim.Trial, kind sim.FaultKind) []string {
		t.Helper()
		return deadLettered(l, got, kind)
	})
}

// An execution that ends because of an unreadable event releases its timers, its entries in
// lists of listeners, and its child.
func TestGivenUpExecutionReleasesAll(t *testing.T) {
	t.Parallel()
	l := workload{
		Document: `
do:
  - all:
      fork:
        branches:
          - rest: {wait: P9D, timeout: {after: P20D}}
          - hear: {listen: {to: {one: {with: {type: com.example.never}}}}}
          - begin: {run: {workflow: {namespace: test, name: child, version: '1.0.0'}}}
`,
		With:        []string{"document: {dsl: '1.0.3', namespace: test, name: child, version: '1.0.0'}\ndo: [{rest: {wait: P30D}}]"},
		Acts:        []act{{Execution: "x", After: time.Hour, Type: event.TimerFired, Task: "/do/0/all/fork/branches/0/rest", Data: "nonsense"}},
		DeadLetters: []string{"io.flunq.timer.fired x/act/0 by the worker-service after 1"},
		Want:        map[string]string{"x": "faulted", "x.1": "cancelled"},
	}
	l.everyFault(t, func(t *testing.T, got *sim.Trial, kind sim.FaultKind) []string {
		t.Helper()
		if kind == sim.Duplicate && len(got.Broken) == 2 { // the copy is dead-lettered as well
			got.Broken = got.Broken[:1]
		}
		return l.wrong(got)
	})
}

// everyFault runs a workload with each single fault, and reports what is wrong.
func (w workload) everyFault(t *testing.T, wrong func(*testing.T, *sim.Trial, sim.FaultKind) []string) {
	t.Helper()
	for _, kind := range []sim.FaultKind{sim.DropRequest, sim.DropReply, sim.CrashBefore, sim.CrashAfter, sim.Duplicate, sim.Delay, sim.Outage, sim.Clock, sim.StopRequested} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			for _, seed := range []uint64{1, 2} {
				cfg := w.config()
				cfg.Seed, cfg.Remote, cfg.Processes = seed, seed%2 == 1, 1+int(seed/2)
				plain := tried(t, cfg, sim.Plan{})
				for _, service := range slices.Sorted(maps.Keys(plain.Commands)) {
					for n := range plain.Commands[service] {
						f := sim.Fault{Kind: kind, Service: service, Command: n + 1, Amount: 45 * time.Second}
						if text := wrong(t, tried(t, cfg, sim.Plan{Faults: []sim.Fault{f}}), kind); len(text) > 0 {
							t.Errorf("seed %d, %v: %s", seed, f, strings.Join(text, "\n"))
						}
					}
				}
			}
		})
	}
}

// deadLettered returns what is wrong with a trial in which an execution either ends because of
// an unreadable event, or completes because its response was faster. A copy of the event may
// become a second dead letter, and so may an event that a worker holds when the execution
// ends.
func deadLettered(l workload, got *sim.Trial, kind sim.FaultKind) []string {
	least, limit := 1, 1
	if got.Ends[1].Status == decide.Completed {
		least, l.Want = 0, map[string]string{"x": "completed", "x-2": "completed"}
	}
	if kind == sim.Duplicate {
		limit = 2
	}
	n := 0
	for _, v := range got.Broken {
		if v.DeadLetter() {
			n++
		}
	}
	l.DeadLetters = slices.Repeat(l.DeadLetters, max(least, min(n, limit)))
	return l.wrong(got)
}
