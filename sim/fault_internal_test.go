package sim

import (
	"testing"
	"time"

	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/sim/mock"
)

const faulty = `
document: {dsl: '1.0.3', namespace: test, name: faulty, version: '1.0.0'}
do:
  - both:
      fork:
        branches:
          - slow: {wait: PT5S, timeout: {after: P1D}}
          - counted:
              for: {in: "[1, 2]"}
              do:
                - add: {set: {sum: "${ (.sum // 0) + $item }"}}
  - quick: {set: {n: 1}, timeout: {after: PT1H}}
  - guarded:
      try:
        - fail: {raise: {error: {type: https://example.com/no, status: 500}}}
      catch:
        retry: {delay: PT1S, limit: {attempt: {count: 1}}}
        do:
          - note: {set: {caught: "${ $error.status }"}}
  - send: {emit: {event: {with: {type: done, time: '2026-01-01T00:00:00Z', data: {n: 1}}}}}
`

// twoProcesses returns a configuration in which two processes share the faulty document.
func twoProcesses(t *testing.T) Config {
	t.Helper()
	def, _, err := dsl.Parse("faulty.yaml", []byte(faulty))
	if err != nil {
		t.Fatal(err)
	}
	return Config{Definition: def, ID: "x", Remote: true, Processes: 2, Executors: 2}
}

// Whatever goes wrong at any single command, the execution ends as without faults, its
// history follows from its definition, and nothing is left over.
func TestEverySingleFault(t *testing.T) {
	t.Parallel()
	plain := try(t, twoProcesses(t), Plan{})
	for _, kind := range []FaultKind{DropRequest, DropReply, CrashBefore, CrashAfter, Duplicate, Delay, Outage, Clock} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			for service, commands := range plain.Commands {
				for n := uint64(1); n <= commands; n++ {
					f := Fault{kind, service, n, 45 * time.Second}
					same(t, plain, try(t, twoProcesses(t), Plan{Faults: []Fault{f}}))
				}
			}
		})
	}
}

// The same holds for several random faults.
func TestRandomFaults(t *testing.T) {
	t.Parallel()
	plain := try(t, twoProcesses(t), Plan{})
	injected := 0
	for seed := range uint64(300) {
		cfg := twoProcesses(t)
		cfg.Seed = seed
		got := try(t, cfg, Plan{Kinds: Faults(), Rate: 100, Most: 8})
		same(t, plain, got)
		injected += len(got.Injected)
	}
	t.Logf("%d faults", injected)
}

const listening = `
document: {dsl: '1.0.3', namespace: test, name: listening, version: '1.0.0'}
do:
  - hear: {listen: {to: {one: {with: {type: com.example.paid}}}}}
  - ship: {set: {shipped: true}}
`

// An event from outside reaches the execution that listens for it, even if a worker froze
// with it until another one claimed it: the first must not acknowledge it. (Found by
// flunq sim.)
func TestEventsReachListeners(t *testing.T) {
	t.Parallel()
	def, _, err := dsl.Parse("listening.yaml", []byte(listening))
	if err != nil {
		t.Fatal(err)
	}
	mocks, err := mock.Parse("mocks.yaml", []byte("events: [{after: P1D, type: com.example.paid, source: /shop}]"))
	if err != nil {
		t.Fatal(err)
	}
	cfg := Config{Definition: def, ID: "x", Processes: 2, Executors: 2, Mocks: mocks}
	plain := try(t, cfg, Plan{})
	for seed := range uint64(500) {
		cfg.Seed = seed
		same(t, plain, try(t, cfg, Plan{Kinds: []FaultKind{CrashBefore, CrashAfter, DropReply, Delay, Clock}, Rate: 40, Most: 4}))
	}
}

// same expects a trial to end like plain, the one without faults, and without violations.
func same(t *testing.T, plain, got *Trial) {
	t.Helper()
	if got.Outcome != plain.Outcome {
		t.Errorf("%s %s %v, want %s", got.Status, got.Output, got.Error, plain.Output)
	}
	for _, v := range got.Broken {
		t.Error(v)
	}
	if t.Failed() {
		t.Fatalf("injected %+v", got.Injected)
	}
}

func try(t *testing.T, cfg Config, plan Plan) *Trial {
	t.Helper()
	cfg.Plan = &plan
	trial, err := Try(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return trial
}
