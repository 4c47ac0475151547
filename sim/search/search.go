// Package search looks through seeds for a run in which a promise is broken: it is apart
// from the simulator because it only asks it for runs, and compares what comes back.
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

// Search looks for a run of a workflow in which a promise is broken: some runs in
// which nothing goes wrong, every single fault, and then one run for each seed.
type Search struct {
	Config sim.Config // the world; its seed and its plan are the search's

	First, Last uint64          // seeds
	Kinds       []sim.FaultKind // of faults; none: nothing goes wrong
	Rate        uint64          // see sim.Plan
	Singles     int             // single faults that are tried at most; 5000 if 0
	Checks      []Check         // expectations beside the promises
	Parallel    int             // worlds at once; as many as there are cores if 0
	FailFast    bool            // the first failure is enough
	Allowed     []Class         // of findings that are no failures

	// More, if set, is asked before each run: false ends the search.
	More func() bool
	// Progress, if set, is shown each run when it is over, in the order of the search.
	Progress func(Progress)
}

// Fails reports whether a finding is a failure, and not a note.
func (s *Search) Fails(f *Finding) bool {
	return f.Class != Tardy && !slices.Contains(s.Allowed, f.Class)
}

// Check is an expectation of every run.
type Check struct {
	Of func(*sim.Trial) []sim.Violation // what a run does not do as expected
}

// Progress is how far a search is.
type Progress struct {
	Phase    string // one of those below
	Runs     int    // in this phase
	Of       int    // at most
	Seeds    int    // tried in all
	Faults   int    // that struck in all
	Orders   int    // distinct ones
	Findings int
}

// The phases of a search.
const (
	PhasePlain   = "runs without faults"
	PhaseSingles = "single faults"
	PhaseSeeds   = "seeds"
)

// Report is what a search has found.
type Report struct {
	Plain, Singles, Seeds       int // runs
	PlainOf, SinglesOf, SeedsOf int // that were to be made
	Companions                  int // likewise, of the simulator's own workflows
	SinglesThereAre             int // of which SinglesOf are tried
	Calm                        int // runs in which no fault struck, and operators did nothing
	Last                        uint64
	Faults                      map[sim.FaultKind]int
	Orders                      int       // distinct ones
	Trace                       string    // hash of what happened in all runs: the same search gives the same
	Seconds                     int64     // virtual, of all runs
	Outcomes                    []Outcome // of the runs in which nothing went wrong, the most frequent first
	Findings                    []*Finding
	Hints                       []Hint
	Stopped                     Reason   // before its end; "" if it was not
	Unmocked                    []string // calls that no mock answers, made in runs with faults, which were not judged then
	UnmockedRuns                int
}

// Reason is why a search stopped before its end.
type Reason string

// The reasons to stop.
const (
	Interrupted Reason = "interrupted"
	OutOfTime   Reason = "duration"
	FailedFast  Reason = "fail-fast"
	EnoughFound Reason = "findings" // there are so many that more would not help
)

// Outcome is how a run can end.
type Outcome struct {
	Status string
	Output []byte
	Error  *event.Problem
	Calls  []sim.Call     // that were carried out
	Kept   map[string]any // what mocks keep, by URL
	Apart  []string       // in words: what it did to the world and other outcomes did not
	Runs   int
	Stop   sim.Stop
}

// How much is tried unless the search says so.
const (
	plainRuns      = 128
	fewestRuns     = 8 // of those
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
		s.Config.ID = "sim" // one for all seeds: the output may tell it
	}
	if s.Config.Mocks == nil {
		s.Config.Mocks = &mock.Set{} // a search calls nobody thousands of times
	}
	s.Config.Onward, s.Config.Pace = false, 0
	s.Config = s.Config.Prepared()
}

// Run searches. The report holds what is known when ctx ends, or an error comes:
// an error is the configuration's.
func (s *Search) Run(ctx context.Context) (*Report, error) {
	s.withDefaults()
	h := newHunt(s)
	err := h.plain(ctx)
	if err == nil && len(s.Kinds) > 0 {
		h.report.SinglesThereAre = h.singleCount()
		h.report.SinglesOf = min(h.report.SinglesThereAre, s.Singles)
	}
	h.report.SeedsOf = int(s.Last - s.First + 1) //nolint:gosec // there are not so many
	if err == nil && !h.over(ctx) && len(s.Kinds) > 0 {
		err = h.each(ctx, PhaseSingles, h.singleCount(), h.accompanied(h.singles()))
	}
	if err == nil && !h.over(ctx) {
		err = h.each(ctx, PhaseSeeds, int(s.Last-s.First+1), h.accompanied(h.everySeed()))
	}
	return h.finish(ctx, err)
}

// Repeat runs one scenario, and judges it as a search does.
func (s *Search) Repeat(ctx context.Context, sc Scenario) (*Report, error) {
	s.withDefaults()
	h := newHunt(s)
	err := h.plain(ctx)
	h.report.SeedsOf = 1
	if err == nil && !h.over(ctx) {
		err = h.each(ctx, PhaseSeeds, 1, slices.Values([]Scenario{sc}))
	}
	return h.finish(ctx, err)
}
