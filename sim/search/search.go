// Package search runs a workflow with many seeds and faults to find a run that violates an
// invariant or an expectation. It runs simulations of package sim and compares their results.
package search

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"slices"

	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/sim"
	"flunq.io/flunq/sim/explore"
	"flunq.io/flunq/sim/invariant"
	"flunq.io/flunq/sim/mock"
)

// Search looks for a run of a workflow that violates an invariant or an expectation: it
// tries some runs without faults, every single fault, and then one run for each seed.
type Search struct {
	Config sim.Config // the search sets its seed and plan

	First, Last uint64          // seeds
	Kinds       []sim.FaultKind // of faults; empty: no faults
	Rate        uint64          // see sim.Plan
	Singles     int             // maximum number of single faults; 5000 if 0
	Checks      []Check         // expectations in addition to the invariants
	Parallel    int             // number of concurrent runs; the number of cores if 0
	FailFast    bool            // stop after the first failure
	Allowed     []Class         // classes of findings that are not failures

	// More, if set, is called before each run; false ends the search.
	More func() bool
	// Progress, if set, is called after each run, in the order of the search.
	Progress func(explore.Progress)
}

// Fails reports whether a finding is a failure, not a note.
func (s *Search) Fails(f *Finding) bool {
	return f.Class != Late && !slices.Contains(s.Allowed, f.Class)
}

// Check is an expectation that every run has to meet: it returns how a run violates it.
type Check func(*sim.Trial) []sim.Violation

// The defaults and limits of a search.
const (
	plainRuns        = 128
	minRuns          = 8 // of plainRuns
	defaultSingles   = 5000
	defaultTurns     = 5_000_000
	warmTurns        = 200_000
	warmFactor       = 100
	defaultTasks     = 20_000 // for each execution
	defaultExecutors = 4
	maxOrders        = 1 << 20
	maxFindings      = 20
)

func (s *Search) withDefaults() {
	s.Singles = cmp.Or(s.Singles, defaultSingles)
	s.Parallel = cmp.Or(s.Parallel, runtime.GOMAXPROCS(0))
	s.Config.MaxTasks = cmp.Or(s.Config.MaxTasks, defaultTasks*max(s.Config.Executions, 1))
	s.Config.Executors = cmp.Or(s.Config.Executors, defaultExecutors)
	s.Config.MaxTurns = defaultTurns
	s.Config.ID = cmp.Or(s.Config.ID, "sim") // the same for all seeds, so the output may contain it
	if s.Config.Mocks == nil {
		s.Config.Mocks = &mock.Set{} // a search must not call real services thousands of times
	}
	s.Config.Onward, s.Config.Pace = false, 0
	s.Config = s.Config.Prepared() // once for all runs
}

// Run performs the search. The report is valid even if ctx ends or Run returns an error; an
// error means that the configuration is at fault.
func (s *Search) Run(ctx context.Context) (*Report, error) {
	s.withDefaults()
	state := newSearchState(s)
	state.report.SeedsOf = int(s.Last - s.First + 1)
	err := state.plain(ctx)
	if err == nil && len(s.Kinds) > 0 {
		state.report.PossibleSingles = state.plan.singleCount()
		state.report.SinglesOf = min(state.report.PossibleSingles, s.Singles)
		err = state.each(ctx, "single faults", &state.report.Singles, state.report.SinglesOf, state.plan.withCompanions(state.plan.singles()))
		state.report.SinglesFree = state.report.FaultFree - state.report.Plain
	}
	if err == nil {
		err = state.each(ctx, "seeds", &state.report.Seeds, state.report.SeedsOf, state.plan.withCompanions(state.plan.everySeed()))
	}
	return state.finish(ctx, err)
}

// Repeat runs one scenario and evaluates it like a search.
func (s *Search) Repeat(ctx context.Context, sc Scenario) (*Report, error) {
	s.withDefaults()
	state := newSearchState(s)
	state.report.SeedsOf = 1
	err := state.plain(ctx)
	if err == nil {
		err = state.each(ctx, "seeds", &state.report.Seeds, 1, slices.Values([]Scenario{sc}))
	}
	return state.finish(ctx, err)
}

// try runs a scenario. observe may be nil, see sim.Config.
func (s *Search) try(ctx context.Context, sc Scenario, observe func([]event.Event)) (*sim.Trial, error) {
	cfg := sc.Config(s.Config)
	cfg.Observe = observe
	if sc.Companion == "" {
		if cfg.Plan.Rate = s.Rate; sc.Poison > 0 && s.Rate == 0 {
			cfg.Plan.Rate = poisonRate
		}
	}
	t, err := sim.Try(ctx, cfg)
	if err == nil && sc.Companion != "" {
		sc.companion().Check(t)
	}
	return t, err
}

// together reports whether the executions of a run share mock state. Then whole runs are
// compared, since it may differ which execution has which outcome.
func (s *Search) together() bool { return s.Config.Executions > 1 && s.Config.Mocks.Shared() }

// allowsSecondTenant reports whether executions may run in a second tenant: not if they all
// share mock state.
func (s *Search) allowsSecondTenant() bool { return !s.Config.Mocks.Shared() }

// definitionOf returns the document of an execution, or the main one if it is unknown.
func (s *Search) definitionOf(end sim.End) *dsl.Definition {
	if len(end.History) > 0 {
		for _, def := range s.Config.With {
			if def.ID() == end.History[0].Workflow {
				return def
			}
		}
	}
	return s.Config.Definition
}

func (s *Search) taskName(ref string) string {
	for _, def := range s.Config.Definitions() {
		if t := def.Task(ref); t != nil {
			return t.Name
		}
	}
	return ref
}

// unmockedTexts describes calls, without repetitions.
func (s *Search) unmockedTexts(calls []mock.Exchange) []string {
	var out []string
	for _, x := range calls {
		text := x.Method + " " + x.URL
		if t := s.Config.Definition.Task(x.Task); t != nil {
			text = fmt.Sprintf("%s (%s, line %d)", text, t.Name, t.Pos.Line)
		}
		if !slices.Contains(out, text) {
			out = append(out, text)
		}
	}
	return out
}

// listenFor returns the first task that listens for events of a type; nil if there is
// none.
func (s *Search) listenFor(typ string) *dsl.Task {
	for _, t := range s.Config.Definition.Tasks() {
		if t.Kind == dsl.Listen && slices.Contains(invariant.EventTypes(t.Listen.To.Filters...), typ) {
			return t
		}
	}
	return nil
}
