package spec_test

import (
	"os"
	"path/filepath"
	"testing"

	"flunq.io/flunq/sim/spec"
	"flunq.io/flunq/workflows"
)

// The tests of every example workflow pass and reach all of its points.
func TestWorkflows(t *testing.T) {
	t.Parallel()
	for _, name := range workflows.Names() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, _, err := spec.NewLoader(os.ReadFile).Load(filepath.Join("..", "..", "workflows", name+".test.yaml"))
			if err != nil {
				t.Fatal(err)
			}
			c := spec.NewCoverage()
			for _, one := range s.Cases {
				v := run(t, one, func(o *spec.Outcome) { c.Add(s, one.Secrets, o) })
				for _, d := range v.Differences {
					t.Errorf("%s: %s%s (line %d): %s %v", one.Name, d.Expect, d.Path, d.At.Line, d.Why, d.Lines)
				}
			}
			for _, r := range c.Documents() {
				if reached, all := r.Reached(); reached < all {
					t.Errorf("the tests reach %d of %d points of %s", reached, all, r.Document.File)
				}
			}
		})
	}
}
