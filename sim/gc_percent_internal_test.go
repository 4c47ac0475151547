package sim

import (
	"runtime"
	"testing"
	"weak"

	"flunq.io/flunq/engine/dsl"
)

// A search makes a thousand worlds between two collections: one that outlives the
// first after its end has all of them kept until the next, and the heap doubles.
func TestSimulationIsReleased(t *testing.T) {
	t.Parallel()
	def, _, err := dsl.Parse("wait.yaml", []byte(waiting))
	if err != nil {
		t.Fatal(err)
	}
	past := lived(t, def)
	runtime.GC()
	if past.Value() != nil {
		t.Error("the first collection after its end leaves a world")
	}
}

const waiting = `
document: {dsl: '1.0.3', namespace: test, name: wait, version: '1.0.0'}
do:
  - pause: {wait: PT1H}
  - note: {set: {waited: true}}
`

// lived is a world that has come to its end.
//
//go:noinline
func lived(t *testing.T, def *dsl.Definition) weak.Pointer[simulation] {
	t.Helper()
	w, err := newSimulation(t.Context(), Config{Definition: def, ID: "past"}.withDefaults())
	if err != nil {
		t.Fatal(err)
	}
	defer w.close()
	if err := w.launch(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := w.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	return weak.Make(w)
}
