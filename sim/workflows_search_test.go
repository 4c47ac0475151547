package sim_test

import (
	"testing"

	"flunq.io/flunq/sim"
	"flunq.io/flunq/sim/search"
	"flunq.io/flunq/workflows"
)

// No example loses anything through crashes, lost messages and repeated ones.
func TestSearchWorkflows(t *testing.T) {
	t.Parallel()
	for _, name := range workflows.Names() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg, _ := exampleConfig(t, name)
			cfg.Processes = 2
			s := search.Search{
				Config: cfg, First: 1, Last: 10, Singles: 10, Parallel: 1,
				Kinds: []sim.FaultKind{sim.CrashBefore, sim.CrashAfter, sim.DropRequest, sim.DropReply, sim.Duplicate},
			}
			r, err := s.Run(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range r.Findings {
				if f.Class != search.Late {
					t.Errorf("%s: %v: %+v", f.Class, f.Violation, f.Small)
				}
			}
			if r.Seeds != 10 || len(r.Faults) != 5 {
				t.Errorf("%d seeds, faults %v", r.Seeds, r.Faults)
			}
		})
	}
}
