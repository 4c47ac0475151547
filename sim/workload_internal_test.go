package sim

import (
	"cmp"
	"strings"
	"testing"
)

// The workloads end as expected, whatever goes wrong.
func TestWorkloads(t *testing.T) {
	t.Parallel()
	for _, l := range workloads() {
		t.Run(l.name, func(t *testing.T) {
			t.Parallel()
			cfg, struck := l.config(), 0
			for seed := range cmp.Or(l.seeds, usualSeeds) {
				cfg.Seed, cfg.Remote = seed, seed%2 == 1
				plan := l.plan()
				if seed < plainSeeds {
					plan = Plan{}
				}
				got := try(t, cfg, plan)
				struck += len(got.Struck)
				if wrong := l.wrong(got); len(wrong) > 0 {
					t.Fatalf("seed %d: %s, struck %+v", seed, strings.Join(wrong, "\n"), got.Struck)
				}
			}
			t.Logf("%d faults", struck)
		})
	}
}
