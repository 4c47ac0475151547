package sim

import (
	"runtime"
	"testing"
	"weak"

	"flunq.io/flunq/engine/dsl"
)

// A search creates a thousand simulations between two garbage collections. If one
// simulation kept its predecessor alive, all of them would stay in memory, and the heap
// would double.
func TestSimulationIsReleased(t *testing.T) {
	t.Parallel()
	def, _, err := dsl.Parse("wait.yaml", []byte(waiting))
	if err != nil {
		t.Fatal(err)
	}
	past := endedSimulation(t, def)
	runtime.GC()
	if past.Value() != nil {
		t.Error("a simulation that has ended stays in memory")
	}
}

const waiting = `
document: {dsl: '1.0.3', namespace: test, name: wait, version: '1.0.0'}
do:
  - pause: {wait: PT1H}
  - note: {set: {waited: true}}
`

// endedSimulation returns a simulation that has ended.
//
//go:noinline
func endedSimulation(t *testing.T, def *dsl.Definition) weak.Pointer[simulation] {
	t.Helper()
	sim, err := newSimulation(t.Context(), Config{Definition: def, ID: "past"}.WithDefaults())
	if err != nil {
		t.Fatal(err)
	}
	defer sim.close()
	if err := sim.launch(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := sim.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	return weak.Make(sim)
}
