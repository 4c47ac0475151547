package search

import (
	"maps"
	"testing"

	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/sim"
)

// The single faults of a search are injected at the commands of its first run, so that run must
// send the same commands as a run with faults.
func TestFirstRunIsThorough(t *testing.T) {
	t.Parallel()
	def, _, err := dsl.Parse("first.yaml", []byte(`
document: {dsl: '1.0.3', namespace: test, name: first, version: '1.0.0'}
do:
  - both:
      fork:
        branches:
          - slow: {wait: PT5S, timeout: {after: P1D}}
          - quick: {set: {n: 1}}
  - again: {set: {n: 2}}
`))
	if err != nil {
		t.Fatal(err)
	}
	cfg := sim.Config{Definition: def, Remote: true, Processes: 2, Executors: 2}
	s := Search{Config: cfg, First: 1, Last: 1}
	s.withDefaults()
	h := newSearchState(&s)
	if _, err := h.first(t.Context()); err != nil {
		t.Fatal(err)
	}
	sc := h.plan.scenario(1)
	sc.Faults = []sim.Fault{{Kind: sim.DropReply, Service: "nobody", Command: 1}}
	want, err := s.try(t.Context(), sc, nil)
	if err != nil {
		t.Fatal(err)
	}
	if !maps.Equal(h.plan.commands, want.Commands) {
		t.Errorf("the first run sent the commands %v, want those of a run with faults, %v", h.plan.commands, want.Commands)
	}
}
