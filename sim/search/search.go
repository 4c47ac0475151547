// Package search runs a workflow with many seeds and faults to find a run that violates
// an invariant. It uses package sim only to run simulations, and compares their results.
package search

import (
	"cmp"
	"context"
	"runtime"
	"slices"

	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/sim"
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
	Checks      []Check         // expectations beside the invariants
	Parallel    int             // number of concurrent runs; the number of cores if 0
	FailFast    bool            // stop after the first failure
	Allowed     []Class         // classes of findings that are no failures

	// More, if set, is called before each run; false ends the search.
	More func() bool
	// Progress, if set, is called after each run, in the order of the search.
	Progress func(Progress)
}

// Fails reports whether a finding is a failure, not a note.
func (s *Search) Fails(f *Finding) bool {
	return f.Class != Late && !slices.Contains(s.Allowed, f.Class)
}

// Check is an expectation of every run.
type Check struct {
	Of func(*sim.Trial) []sim.Violation // returns what a run does not do as expected
}

// Progress is how far a search has come.
type Progress struct {
	Phase    string // one of the constants below
	Runs     int    // in this phase
	Of       int    // maximum in this phase
	Seeds    int    // tried in all phases
	Faults   int    // that struck in all runs
	Orders   int    // distinct ones
	Findings int
}

// The phases of a search.
const (
	PhasePlain   = "runs without faults"
	PhaseSingles = "single faults"
	PhaseSeeds   = "seeds"
)

// Report is the result of a search.
type Report struct {
	Plain, Singles, Seeds       int // number of runs
	PlainOf, SinglesOf, SeedsOf int // number of planned runs
	Companions                  int // number of runs of the simulator's own workflows
	SinglesThereAre             int // number of possible single faults, of which SinglesOf are tried
	Calm                        int // runs without faults and operator actions
	Last                        uint64
	Faults                      map[sim.FaultKind]int
	Orders                      int       // distinct ones
	Trace                       string    // hash of what happened in all runs: equal for equal searches
	Seconds                     int64     // virtual, of all runs
	Outcomes                    []Outcome // of the runs without faults, the most frequent first
	Findings                    []*Finding
	Hints                       []Hint
	Stopped                     Reason   // why it stopped early; "" if it did not
	Unmocked                    []string // calls that no mock answers, made in runs with faults; these runs were not evaluated
	UnmockedRuns                int
}

// Reason is why a search stopped before its end.
type Reason string

// The reasons to stop.
const (
	Interrupted Reason = "interrupted"
	OutOfTime   Reason = "duration"
	FailedFast  Reason = "fail-fast"
	EnoughFound Reason = "findings" // more findings would not help
)

// Outcome is how a run can end.
type Outcome struct {
	Status string
	Output []byte
	Error  *event.Problem
	Calls  []sim.Call     // that were carried out
	Kept   map[string]any // the state of mocks, by URL
	Apart  []string       // external effects that other outcomes do not have, in words
	Runs   int
	Stop   sim.Stop
}

// The defaults and limits of a search.
const (
	plainRuns      = 128
	fewestRuns     = 8 // of plainRuns
	usualSingles   = 5000
	usualTurns     = 5_000_000
	warmTurns      = 200_000
	warmFactor     = 100
	usualTasks     = 20_000 // for each execution
	usualExecutors = 4
	mostOrders     = 1 << 20
	mostFindings   = 20
)

func (s *Search) withDefaults() {
	s.Singles = cmp.Or(s.Singles, usualSingles)
	s.Parallel = cmp.Or(s.Parallel, runtime.GOMAXPROCS(0))
	s.Config.MaxTasks = cmp.Or(s.Config.MaxTasks, usualTasks*max(s.Config.Executions, 1))
	s.Config.Executors = cmp.Or(s.Config.Executors, usualExecutors)
	s.Config.MaxTurns = usualTurns
	if s.Config.ID == "" {
		s.Config.ID = "sim" // the same for all seeds, so the output may contain it
	}
	if s.Config.Mocks == nil {
		s.Config.Mocks = &mock.Set{} // a search must not call real services thousands of times
	}
	s.Config.Onward, s.Config.Pace = false, 0
	s.Config = s.Config.Prepared()
}

// Run performs the search. The report is valid even if ctx ends or an error is returned;
// an error means that the configuration is at fault.
func (s *Search) Run(ctx context.Context) (*Report, error) {
	s.withDefaults()
	h := newSearchState(s)
	err := h.plain(ctx)
	if err == nil && len(s.Kinds) > 0 {
		h.report.SinglesThereAre = h.singleCount()
		h.report.SinglesOf = min(h.report.SinglesThereAre, s.Singles)
	}
	h.report.SeedsOf = int(s.Last - s.First + 1) //nolint:gosec // there are fewer
	if err == nil && !h.over(ctx) && len(s.Kinds) > 0 {
		err = h.each(ctx, PhaseSingles, h.singleCount(), h.withCompanions(h.singles()))
	}
	if err == nil && !h.over(ctx) {
		err = h.each(ctx, PhaseSeeds, int(s.Last-s.First+1), h.withCompanions(h.everySeed()))
	}
	return h.finish(ctx, err)
}

// Repeat runs one scenario and evaluates it as a search does.
func (s *Search) Repeat(ctx context.Context, sc Scenario) (*Report, error) {
	s.withDefaults()
	h := newSearchState(s)
	err := h.plain(ctx)
	h.report.SeedsOf = 1
	if err == nil && !h.over(ctx) {
		err = h.each(ctx, PhaseSeeds, 1, slices.Values([]Scenario{sc}))
	}
	return h.finish(ctx, err)
}
