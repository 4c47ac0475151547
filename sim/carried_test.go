package sim_test

import (
	"testing"

	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/sim"
	"flunq.io/flunq/sim/mock"
)

// outcomes runs a document with some seeds, and returns the number of distinct outcomes.
func outcomes(t *testing.T, tasks, mocks string) int {
	t.Helper()
	def, _, err := dsl.Parse("x.yaml", []byte("document: {dsl: '1.0.3', namespace: test, name: x, version: '1.0.0'}\ndo:\n"+tasks))
	if err != nil {
		t.Fatal(err)
	}
	set, err := mock.Parse("mocks.yaml", []byte(mocks))
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for seed := range uint64(24) {
		r, err := sim.Run(t.Context(), sim.Config{Definition: def, Mocks: set, Seed: seed})
		if err != nil {
			t.Fatal(err)
		}
		seen[r.Outcome] = true
	}
	return len(seen)
}

// The outcome of a run includes the calls that were carried out and the state of mocks,
// whatever the workflow's output is.
func TestOutcomeHasEffects(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		tasks, mocks string
		want         int
	}{
		"calls that change something": {
			`
  - ask: {fork: {compete: true, branches: [
      {ups: {call: http, with: {method: get, endpoint: "https://ups.example/"}, output: {as: {by: ups}}}},
      {tnt: {call: http, with: {method: get, endpoint: "https://tnt.example/"}, output: {as: {by: tnt}}}}]}}
  - book: {call: http, with: {method: post, endpoint: "https://{by}.example/book"}, output: {as: {done: true}}}
`, `http: [{match: {url: "*"}, respond: {status: 200}}]`, 2,
		},
		"calls that only read": {
			`
  - ask: {fork: {compete: true, branches: [
      {ups: {call: http, with: {method: get, endpoint: "https://ups.example/"}}},
      {tnt: {call: http, with: {method: get, endpoint: "https://tnt.example/"}}}]}}
`, `http: [{match: {url: "*"}, respond: {status: 200}}]`, 1,
		},
		"what mocks keep": {
			`
  - both: {fork: {branches: [
      {one: {do: [
        {ask: {call: http, with: {method: get, endpoint: "https://ups.example/"}}},
        {write: {call: http, with: {method: put, endpoint: "https://shop.example/by", body: ups}}}]}},
      {two: {do: [
        {ask: {call: http, with: {method: get, endpoint: "https://tnt.example/"}}},
        {write: {call: http, with: {method: put, endpoint: "https://shop.example/by", body: tnt}}}]}}]}}
  - end: {set: {ok: true}}
`, `http: [{match: {url: "https://shop.example/by"}, keep: nobody}, {respond: {status: 200}}]`, 2,
		},
		"an id that follows from the seed": {
			`
  - book: {call: http, with: {method: post, endpoint: "https://ups.example/book", body: {of: "${ $workflow.id }"}}, output: {as: {done: true}}}
`, `http: [{match: {url: "*"}, respond: {status: 200}}]`, 1,
		},
	} {
		if got := outcomes(t, test.tasks, test.mocks); got != test.want {
			t.Errorf("%s: %d outcomes, want %d", name, got, test.want)
		}
	}
}

// A task that injects data is carried out by the worker, as one that sets data is.
func TestCallsOut(t *testing.T) {
	t.Parallel()
	for task, want := range map[string]bool{
		"inject: {b: 1}": false, "set: {b: 1}": false, "call: http, with: {method: get, endpoint: 'https://a.example'}": true,
	} {
		def, _, err := dsl.Parse("x.yaml", []byte("document: {dsl: '1.0.3', namespace: test, name: x, version: '1.0.0'}\ndo:\n  - a: {"+task+"}\n"))
		if err != nil {
			t.Fatal(err)
		}
		if got := sim.CallsOut(def); got != want {
			t.Errorf("%s: %v, want %v", task, got, want)
		}
	}
}
