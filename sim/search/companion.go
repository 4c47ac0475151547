package search

import (
	"fmt"

	"flunq.io/flunq/sim"
	"flunq.io/flunq/sim/workload"
)

// companionScenario returns companion number n.
func companionScenario(n int) (Scenario, bool) {
	name, seed, ok := workload.Nth(n)
	if !ok {
		return Scenario{}, false
	}
	sc := Scenario{Companion: name, Seed: seed}
	c := sc.companion()
	sc.built = c
	sc.Processes, sc.Executions, sc.chance = c.Config.Processes, max(c.Config.Executions, 1), c.Config.Plan.Kinds
	return sc, true
}

// companion returns the companion that the scenario names, which must exist.
func (sc Scenario) companion() *workload.Companion {
	if sc.built != nil {
		return sc.built
	}
	c, err := workload.New(sc.Companion, sc.Seed)
	if err != nil {
		panic(fmt.Sprintf("search: %v", err))
	}
	return c
}

// signature returns the signature of a failure in a run of the scenario. A rule that
// companions violate is one finding, however many of them do.
func (sc Scenario) signature(f failure) string {
	if sc.Companion != "" {
		return "companion " + f.Rule
	}
	return f.signature()
}

// companionConfig returns the configuration of a companion: with the faults of its seed,
// or with those of the scenario.
func (sc Scenario) companionConfig() sim.Config {
	cfg := sc.companion().Config
	cfg.Thorough = sc.Thorough
	if sc.chance == nil {
		cfg.Plan = &sim.Plan{Faults: sc.Faults}
	}
	return cfg
}
