package sim

import (
	"cmp"
	"context"
	"iter"
	"maps"
	"runtime"
	"slices"
	"time"

	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/sim/mock"
)

// Search looks for a run of a workflow in which a promise is broken: some runs in
// which nothing goes wrong, every single fault, and then one run for each seed.
type Search struct {
	Config Config // the world; its seed and its plan are the search's

	First, Last uint64      // seeds
	Kinds       []FaultKind // of faults; none: nothing goes wrong
	Rate        uint64      // see Plan
	Singles     int         // single faults that are tried at most; 5000 if 0
	Checks      []Check     // expectations beside the promises
	Parallel    int         // worlds at once; as many as there are cores if 0
	FailFast    bool        // the first failure is enough

	// More, if set, is asked before each run: false ends the search.
	More func() bool
	// Progress, if set, is shown each run when it is over, in the order of the search.
	Progress func(Progress)
}

// Check is an expectation of every run.
type Check struct {
	Of func(*Trial) []Violation // what a run does not do as expected
}

// Progress is how far a search is.
type Progress struct {
	Phase    string // "plain", "single faults" or "seeds"
	Runs     int    // in this phase
	Of       int    // at most
	Seeds    int    // tried in all
	Faults   int    // that struck in all
	Orders   int    // distinct ones
	Findings int
}

// The phases of a search.
const (
	PhasePlain   = "plain"
	PhaseSingles = "single faults"
	PhaseSeeds   = "seeds"
)

// Report is what a search has found.
type Report struct {
	Plain, Singles, Seeds int // runs
	SinglesOf             int // there are: more than were tried, maybe
	Last                  uint64
	Faults                map[FaultKind]int
	Orders                int       // distinct ones
	Trace                 string    // hash of what happened in all runs: the same search gives the same
	Seconds               int64     // virtual, of all runs
	Outcomes              []Outcome // of the runs in which nothing went wrong, the most frequent first
	Findings              []*Finding
	Hints                 []Hint
	Stopped               bool // before its end
	Unmocked              []mock.Exchange
}

// Outcome is how a run can end.
type Outcome struct {
	Status string
	Output []byte
	Error  *event.Problem
	Runs   int
	Stop   Stop
}

// How much is tried unless the search says so.
const (
	plainRuns      = 128
	fewestRuns     = 8 // of those
	usualSingles   = 5000
	searchTurns    = 5_000_000
	spareTurns     = 200_000
	spareFactor    = 100
	searchTasks    = 200_000
	searchExecutor = 4
	mostOrders     = 1 << 20
	mostFindings   = 20
)

func (s *Search) withDefaults() {
	s.Singles = cmp.Or(s.Singles, usualSingles)
	s.Parallel = cmp.Or(s.Parallel, runtime.GOMAXPROCS(0))
	s.Config.MaxTasks = cmp.Or(s.Config.MaxTasks, searchTasks)
	s.Config.Executors = cmp.Or(s.Config.Executors, searchExecutor)
	s.Config.MaxTurns = searchTurns
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
	if err == nil && !h.over(ctx) && len(s.Kinds) > 0 {
		err = h.each(ctx, PhaseSingles, h.singleCount(), h.singles())
	}
	if err == nil && !h.over(ctx) {
		err = h.each(ctx, PhaseSeeds, int(s.Last-s.First+1), h.everySeed())
	}
	return h.finish(ctx, err)
}

// Repeat runs one scenario, and judges it as a search does.
func (s *Search) Repeat(ctx context.Context, sc Scenario) (*Report, error) {
	s.withDefaults()
	h := newHunt(s)
	err := h.plain(ctx)
	if err == nil && !h.over(ctx) {
		err = h.each(ctx, PhaseSeeds, 1, slices.Values([]Scenario{sc}))
	}
	return h.finish(ctx, err)
}

// seeds are the scenarios of the seeds.
func (h *hunt) everySeed() iter.Seq[Scenario] {
	return func(yield func(Scenario) bool) {
		for seed := h.First; ; seed++ {
			sc := h.scenario(seed)
			if sc.chance = h.Kinds; len(h.Kinds) == 0 && h.inOrder {
				sc = sc.slight(h.Config.Remote)
			} else {
				sc = h.operated(sc.inCompany())
			}
			if !yield(sc) || seed == h.Last {
				return
			}
		}
	}
}

// scenario is the world of a seed, in which nothing goes wrong.
func (h *hunt) scenario(seed uint64) Scenario {
	return Scenario{
		Seed: seed, Processes: h.Config.Processes, Executions: h.Config.Executions,
		// Both ways that a deployment can be set to.
		Remote: h.Config.Remote || Choice(seed, "remote")%2 == 1,
	}
}

// slight is the same with less that is many: where nothing goes wrong, and the
// document does one thing after the other, most worlds have one process, and compute
// at once.
func (sc Scenario) slight(remote bool) Scenario {
	const most = 16 // all but one in so many
	if Choice(sc.Seed, "alone")%most != 0 {
		sc.Processes = 1
	}
	sc.Remote = remote || Choice(sc.Seed, "remote")%most == 1
	return sc
}

// inOrder reports whether whatever happens to an execution follows upon what has
// happened to it before: nothing runs side by side, is sent, or comes from outside,
// and several executions have nothing to do with one another.
func inOrder(cfg Config) bool {
	if cfg.Executions > 1 && CallsOut(cfg.Definition) || len(cfg.With) > 0 || cfg.Definition.Timeout != nil || cfg.Mocks != nil && len(cfg.Mocks.Events) > 0 {
		return false
	}
	for _, t := range cfg.Definition.Tasks() {
		switch t.Kind {
		case dsl.Fork, dsl.Listen, dsl.Emit, dsl.Run:
			return false
		default:
		}
		if t.Timeout != nil {
			return false
		}
	}
	return true
}

// How long single faults last: longer than a lease where something stands still.
const (
	singleDelay  = 45 * time.Second
	singleAway   = 5 * time.Minute
	singleOutage = 20 * time.Second
	singleJump   = 60 * time.Second
)

// singles are the scenarios with one fault: each kind at each command of the
// first run, or as many of them as there may be, evenly spread.
func (h *hunt) singles() iter.Seq[Scenario] {
	all := h.singleCount()
	return func(yield func(Scenario) bool) {
		n := 0
		for f := range h.everyFault() {
			// The n-th is taken where the even spread passes the next whole number.
			taken := all <= h.Singles || n*h.Singles/all != (n+1)*h.Singles/all
			n++
			if !taken {
				continue
			}
			sc := h.scenario(h.First)
			sc = sc.besides(f)
			sc.Faults = []Fault{f}
			if !yield(sc) {
				return
			}
		}
	}
}

func (h *hunt) singleCount() int {
	n := 0
	for range h.everyFault() {
		n++
	}
	return n
}

// everyFault is each kind of fault at each command, and at each call. All kinds at
// one place come together, so that a search which is stopped has seen some of each.
func (h *hunt) everyFault() iter.Seq[Fault] {
	inside := slices.DeleteFunc(slices.Clone(h.Kinds), func(k FaultKind) bool { return k == CallLost })
	return func(yield func(Fault) bool) {
		if len(inside) < len(h.Kinds) && !faultsAt(h.calls, []FaultKind{CallLost}, yield) {
			return
		}
		faultsAt(h.commands, inside, yield)
	}
}

// faultsAt yields faults of some kinds at each place, until it is not to go on.
func faultsAt(counts map[string]uint64, kinds []FaultKind, yield func(Fault) bool) bool {
	for service, n := range each(counts) {
		for _, kind := range kinds {
			if !yield(Fault{kind, service, n, single(kind)}) {
				return false
			}
		}
	}
	return true
}

// each are the numbers of commands of each service, from 1 on.
func each(counts map[string]uint64) iter.Seq2[string, uint64] {
	return func(yield func(string, uint64) bool) {
		for _, service := range slices.Sorted(maps.Keys(counts)) {
			for n := uint64(1); n <= counts[service]; n++ {
				if !yield(service, n) {
					return
				}
			}
		}
	}
}

// single is how long, or how far, a fault goes that is the only one.
func single(k FaultKind) time.Duration {
	switch k {
	case Delay, CrashBefore, CrashAfter:
		return singleDelay
	case ToldToStop:
		return singleAway
	case Outage:
		return singleOutage
	case Clock:
		return singleJump
	default:
		return 0
	}
}
