package sim

import (
	"errors"
	"testing"

	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/event"
)

const faulty = `
document: {dsl: '1.0.3', namespace: test, name: faulty, version: '1.0.0'}
do:
  - both:
      fork:
        branches:
          - slow: {wait: PT5S, timeout: {after: PT1M}}
          - counted:
              for: {in: "[1, 2]"}
              do:
                - add: {set: {sum: "${ (.sum // 0) + $item }"}}
  - guarded:
      try:
        - fail: {raise: {error: {type: https://example.com/no, status: 500}}}
      catch:
        retry: {delay: PT1S, limit: {attempt: {count: 1}}}
        do:
          - note: {set: {caught: "${ $error.status }"}}
  - send: {emit: {event: {with: {type: done, time: '2026-01-01T00:00:00Z', data: {n: 1}}}}}
`

// Whichever single command is lost, or its reply, the execution ends as it does
// without, its history follows from its definition, and nothing is left over.
func TestEverySingleFault(t *testing.T) {
	t.Parallel()
	def, _, err := dsl.Parse("faulty.yaml", []byte(faulty))
	if err != nil {
		t.Fatal(err)
	}
	plain, commands := withFault(t, def, func(int) fault { return noFault })
	for _, kind := range []fault{lostRequest, lostReply} {
		for n := 1; n <= commands; n++ {
			got, _ := withFault(t, def, func(command int) fault {
				if command == n {
					return kind
				}
				return noFault
			})
			if got.Outcome != plain.Outcome {
				t.Fatalf("fault %d at command %d: %s %s %v, want %s", kind, n, got.Status, got.Output, got.Error, plain.Output)
			}
		}
	}
	t.Logf("%d runs", 2*commands)
}

// withFault runs a document under faults, and looks at what is left in Redis.
func withFault(t *testing.T, def *dsl.Definition, faults func(int) fault) (*Result, int) {
	t.Helper()
	var history []event.Event
	cfg := Config{Definition: def, ID: "x", Remote: true, fault: faults}.withDefaults()
	w, err := newWorld(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer w.close()
	if err := w.launch(t.Context()); err != nil {
		t.Fatal(err)
	}
	stop, err := w.run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	r, err := w.result(t.Context(), stop)
	if err != nil {
		t.Fatal(err)
	}
	history, err = w.engine.Store.History(t.Context(), cfg.Tenant, cfg.ID, 0, 1000)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := decide.Rebuild(decide.NewEnv(def, decide.Options{Remote: true}), history); err != nil {
		t.Fatal(err)
	}
	if err := w.leftovers(t); err != nil {
		t.Fatal(err)
	}
	return r, w.commands
}

// leftovers says what stands in Redis that should not after the end.
func (w *world) leftovers(t *testing.T) error {
	t.Helper()
	timers, err := w.client.ZCard(t.Context(), "flunq:timers:all").Result()
	if err != nil {
		return err
	}
	if timers > 0 {
		return errors.New("timers are left")
	}
	return nil
}
