package search

import (
	"context"
	"fmt"
	"iter"

	"flunq.io/flunq/sim"
	"flunq.io/flunq/sim/workload"
)

// companionEvery is the number of runs between two companions, which are runs of the
// simulator's own workflows with known results. Companions exercise parts of the engine
// that the document does not use, so their findings are never the document's.
const companionEvery = 40

// withCompanions inserts companions between scenarios, each once in a search.
func (h *searchState) withCompanions(scenarios iter.Seq[Scenario]) iter.Seq[Scenario] {
	if len(h.Kinds) == 0 {
		return scenarios // a search for races only
	}
	return func(yield func(Scenario) bool) {
		for sc := range scenarios {
			if h.drawn%companionEvery == 0 {
				if companion, ok := companionScenario(h.drawn / companionEvery); ok && !yield(companion) {
					return
				}
			}
			if h.drawn++; !yield(sc) {
				return
			}
		}
	}
}

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

// engineFails reports whether a companion fails: then the engine may be the reason why a
// document does not end without faults.
func (h *searchState) engineFails(ctx context.Context) bool {
	if len(h.Kinds) == 0 {
		return false
	}
	scenarios := func(yield func(Scenario) bool) {
		for n := range companionsForHang {
			if sc, ok := companionScenario(n); !ok || !yield(sc) {
				return
			}
		}
	}
	run := func(ctx context.Context, sc Scenario) (*verdict, error) {
		t, err := h.try(ctx, sc)
		if err != nil {
			return nil, err
		}
		return h.evaluate(t, sc), nil
	}
	known := len(h.report.Findings)
	err := pool(ctx, h.Parallel, scenarios, run, func(v *verdict) bool {
		h.note(v)
		return !h.over(ctx) && len(h.report.Findings) == known
	})
	return err == nil && len(h.report.Findings) > known
}

// companionsForHang is how many companions run if a document does not end.
const companionsForHang = 60
