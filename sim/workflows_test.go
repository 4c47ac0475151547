package sim_test

import (
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/sim"
	"flunq.io/flunq/sim/mock"
	"flunq.io/flunq/workflows"
)

// exampleConfig returns the configuration of an example.
func exampleConfig(t *testing.T, name string) (sim.Config, workflows.Example) {
	t.Helper()
	e, err := workflows.Load(name)
	if err != nil {
		t.Fatal(err)
	}
	cfg := sim.Config{Definition: definition(t, name, e.Document), Input: e.Input, Seed: 1}
	for child, text := range e.With {
		cfg.With = append(cfg.With, definition(t, child, text))
	}
	if e.Mocks != nil {
		if cfg.Mocks, err = mock.Parse(name, e.Mocks); err != nil {
			t.Fatal(err)
		}
	}
	return cfg, e
}

func definition(t *testing.T, name string, text []byte) *dsl.Definition {
	t.Helper()
	def, _, err := dsl.Parse(name, text)
	if err != nil {
		t.Fatal(err)
	}
	return def
}

// Every example ends with the output in its folder for any seed, whether or not every task
// goes through the stream; and its state can be rebuilt from its history.
func TestWorkflows(t *testing.T) {
	t.Parallel()
	for _, name := range workflows.Names() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(10) {
				cfg, e := exampleConfig(t, name)
				cfg.Seed, cfg.Remote, cfg.ID = seed, seed%2 == 1, "example"
				var history []event.Event
				cfg.Observe = func(events []event.Event) {
					for _, one := range events {
						if one.Execution == cfg.ID {
							history = append(history, one)
						}
					}
				}
				r, err := sim.Run(t.Context(), cfg)
				if err != nil {
					t.Fatal(err)
				}
				if diff := gocmp.Diff(decoded(e.Output), decoded(r.Output)); diff != "" {
					t.Fatalf("seed %d: %s, %v: output differs (-want +got):\n%s", seed, r.Status, r.Error, diff)
				}
				env := decide.NewEnv(cfg.Definition, decide.Options{Remote: cfg.Remote})
				if _, err := decide.Rebuild(env, history); err != nil {
					t.Fatalf("seed %d: %v", seed, err)
				}
			}
		})
	}
}

// race runs three tasks concurrently.
const race = `
document: {dsl: '1.0.3', namespace: test, name: race, version: '1.0.0'}
do:
  - all:
      fork:
        branches:
          - a: {call: http, with: {method: get, endpoint: "http://a.example/"}}
          - b: {call: http, with: {method: get, endpoint: "http://b.example/"}}
          - c: {call: http, with: {method: get, endpoint: "http://c.example/"}}
`

// The same seed gives the same order; a different seed may give a different one.
func TestSameSeedSameOrder(t *testing.T) {
	t.Parallel()
	mocks, err := mock.Parse("mocks.yaml", []byte("http: [{respond: [{status: 200, body: 1}]}]"))
	if err != nil {
		t.Fatal(err)
	}
	orders := map[string]bool{}
	for seed := range uint64(8) {
		var first string
		for range 3 {
			cfg := sim.Config{Definition: definition(t, "race", []byte(race)), Seed: seed, ID: "same", Mocks: mocks}
			r, err := sim.Run(t.Context(), cfg)
			if err != nil {
				t.Fatal(err)
			}
			if first == "" {
				first = r.Order
			}
			if r.Order != first {
				t.Fatalf("seed %d gave two orders", seed)
			}
		}
		orders[first] = true
	}
	if len(orders) < 2 {
		t.Error("all seeds gave the same order: the seed decides nothing")
	}
}
