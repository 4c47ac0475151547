package workload

import (
	"cmp"
	"strings"
	"testing"

	"flunq.io/flunq/sim"
)

// testedSeeds is the maximum number of seeds of a workload in a test run.
const testedSeeds = 10

// The workloads end as expected, whatever goes wrong.
func TestWorkloads(t *testing.T) {
	t.Parallel()
	for _, l := range workloads() {
		t.Run(l.Name, func(t *testing.T) {
			t.Parallel()
			cfg, faults := l.config(), 0
			for seed := range min(cmp.Or(l.Seeds, defaultSeeds), testedSeeds) {
				cfg.Seed, cfg.Remote = seed, seed%2 == 1
				plan := l.plan()
				if seed < plainSeeds {
					plan = sim.Plan{}
				}
				got := tried(t, cfg, plan)
				faults += len(got.Injected)
				if wrong := l.wrong(got); len(wrong) > 0 {
					t.Fatalf("seed %d: %s, injected %+v", seed, strings.Join(wrong, "\n"), got.Injected)
				}
			}
			t.Logf("%d faults", faults)
		})
	}
}

// tried simulates cfg with a plan.
func tried(t *testing.T, cfg sim.Config, plan sim.Plan) *sim.Trial {
	t.Helper()
	cfg.Plan = &plan
	trial, err := sim.Try(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return trial
}

// sameEnd expects a trial to end like the plain one, without violations.
func sameEnd(t *testing.T, plain, got *sim.Trial) {
	t.Helper()
	if got.Outcome != plain.Outcome {
		t.Errorf("it ended as %s with %s, %v; without faults the output is %s", got.Status, got.Output, got.Error, plain.Output)
	}
	for _, v := range got.Broken {
		t.Error(v)
	}
	if t.Failed() {
		t.Fatalf("injected %+v", got.Injected)
	}
}
