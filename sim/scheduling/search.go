package scheduling

import (
	"cmp"
	"context"
	"iter"
	"runtime"
	"slices"
	"time"

	"flunq.io/flunq/sim"
	"flunq.io/flunq/sim/explore"
)

// Search looks for a run that breaks a promise of the scheduler: it tries some seeds without
// faults, then every single fault at every call of small runs, and then each seed with random
// faults.
type Search struct {
	First, Last uint64 // seeds
	Singles     int    // maximum number of single faults; 3000 if 0
	Parallel    int    // number of concurrent runs; the number of cores if 0
	FailFast    bool   // stop after the first finding
	Bridge      bool   // of bridges, not of the scheduler
	Mistake     Mistake

	// More, if set, is called before each run; false ends the search.
	More func() bool
	// Progress, if set, is called after each run, in the order of the search.
	Progress func(explore.Progress)
}

// Report is the result of a search.
type Report struct {
	Plain, Singles, Seeds       int // runs of each phase
	PlainOf, SinglesOf, SeedsOf int // that were planned
	Faults                      map[sim.FaultKind]int
	Calls, Published            int
	Elapsed                     time.Duration // virtual, of all runs
	Trace                       uint64        // a hash of all runs
	Findings                    []*Finding
	Stopped                     bool // before the end
}

// Finding is a broken promise.
type Finding struct {
	sim.Violation

	Runs  int    // number of runs that broke it
	Seen  Plan   // the first of these runs
	Small Plan   // Seen, reduced to what breaks the promise
	Trial *Trial // of Small, with its story
}

// The limits of a search.
const (
	plainRuns      = 100
	defaultSingles = 3000
	maxFindings    = 10
	maxTries       = 300 // to shrink one finding
)

// Run performs the search. The report is valid even if ctx ends.
func (s *Search) Run(ctx context.Context) (*Report, error) {
	f := newFinder(s)
	seeds := int(s.Last - s.First + 1)
	f.report.PlainOf, f.report.SeedsOf = min(seeds, plainRuns), seeds
	err := f.each(ctx, "runs without faults", &f.report.Plain, f.report.PlainOf, f.plans(f.report.PlainOf, Plan{points: true}))
	singles := f.singles()
	f.report.SinglesOf = len(singles)
	if err == nil {
		err = f.each(ctx, "single faults", &f.report.Singles, len(singles), slices.Values(singles))
	}
	if err == nil {
		err = f.each(ctx, "seeds with faults", &f.report.Seeds, seeds, f.plans(seeds, Plan{Random: true}))
	}
	return f.report, err
}

// Repeat runs one plan and evaluates it like a search.
func (s *Search) Repeat(ctx context.Context, p Plan) (*Report, error) {
	f := newFinder(s)
	f.report.SeedsOf = 1
	return f.report, f.each(ctx, "seeds with faults", &f.report.Seeds, 1, slices.Values([]Plan{p}))
}

// finder is a search in progress.
type finder struct {
	*Search

	report *Report
	found  map[string]*Finding // by rule
	faults int
	orders map[string]struct{}
	small  map[deployment]*tried // of the runs without faults, the smallest of each kind of setting
}

func newFinder(s *Search) *finder {
	return &finder{
		Search: s, report: &Report{Faults: map[sim.FaultKind]int{}},
		found: map[string]*Finding{}, orders: map[string]struct{}{}, small: map[deployment]*tried{},
	}
}

// deployment says where records, requests and events are.
type deployment struct{ table, broker, feed bool }

func (g *Setting) deployment() deployment { return deployment{g.Table, g.Broker, g.Feed} }

// tried is a plan and its run.
type tried struct {
	plan Plan
	*Trial
}

// plans returns plans that differ in their seeds.
func (f *finder) plans(n int, p Plan) iter.Seq[Plan] {
	return func(yield func(Plan) bool) {
		for i := range n {
			p.Seed, p.Bridge = f.First+uint64(i), f.Bridge
			if !yield(p) {
				return
			}
		}
	}
}

// each tries plans and adds them to the report.
func (f *finder) each(ctx context.Context, phase string, runs *int, of int, plans iter.Seq[Plan]) error {
	if f.over(ctx) {
		return nil
	}
	try := func(ctx context.Context, p Plan) (tried, error) {
		t, err := Try(ctx, p, f.Mistake)
		return tried{p, t}, err
	}
	err := explore.InOrder(ctx, cmp.Or(f.Parallel, runtime.GOMAXPROCS(0)), plans, try, func(t tried) bool {
		*runs++
		f.take(ctx, t)
		if f.Progress != nil {
			f.Progress(explore.Progress{Phase: phase, Runs: *runs, Of: of, Faults: f.faults, Orders: len(f.orders), Findings: len(f.report.Findings)})
		}
		return !f.over(ctx)
	})
	f.report.Stopped = f.report.Stopped || ctx.Err() != nil // also during a run, which is not reported then
	return err
}

// over reports whether the search must stop early.
func (f *finder) over(ctx context.Context) bool {
	n := len(f.report.Findings)
	if ctx.Err() != nil || f.More != nil && !f.More() || n >= maxFindings || n > 0 && f.FailFast {
		f.report.Stopped = true
	}
	return f.report.Stopped
}

// take adds a run to the report.
func (f *finder) take(ctx context.Context, t tried) {
	r := f.report
	for _, x := range t.Injected {
		r.Faults[x.Kind]++
	}
	f.faults += len(t.Injected)
	for _, actor := range t.Calls {
		r.Calls += int(actor)
	}
	r.Published += t.Published
	r.Elapsed += t.Elapsed
	r.Trace = sim.Draw(r.Trace, t.Trace, 0)
	f.orders[t.Trace] = struct{}{}
	if t.plan.points {
		f.keepSmall(&t)
	}
	seen := map[string]bool{}
	for _, v := range t.Broken {
		known := f.found[v.Rule]
		switch {
		case seen[v.Rule]:
		case known != nil:
			known.Runs++
		default:
			f.found[v.Rule] = f.finding(ctx, t, v)
			r.Findings = append(r.Findings, f.found[v.Rule])
		}
		seen[v.Rule] = true
	}
}

// keepSmall keeps a run without faults if single faults in it are worth trying: there are few
// calls, yet something is published.
func (f *finder) keepSmall(t *tried) {
	best := f.small[t.Setting.deployment()]
	if len(t.Broken) == 0 && t.Published >= 2 && (best == nil || len(t.points) < len(best.points)) {
		f.small[t.Setting.deployment()] = t
	}
}

// singles returns the plans with one fault, evenly spread if there are more than Singles.
func (f *finder) singles() []Plan {
	var all []Plan
	for n := range 8 {
		t := f.small[deployment{n&1 > 0, n&2 > 0, n&4 > 0}]
		if t == nil {
			continue
		}
		for _, at := range t.points {
			for _, kind := range at.kinds {
				fault := sim.Fault{Kind: kind, Service: at.actor, Command: at.call, Amount: single(kind)}
				all = append(all, Plan{Seed: t.plan.Seed, Bridge: f.Bridge, Faults: []sim.Fault{fault}})
			}
		}
	}
	limit := cmp.Or(f.Singles, defaultSingles)
	if len(all) <= limit {
		return all
	}
	some := make([]Plan, limit)
	for i := range some {
		some[i] = all[i*len(all)/limit]
	}
	return some
}

// single returns the duration of a single fault: longer than a lease, or how far a clock jumps.
func single(k sim.FaultKind) time.Duration {
	switch k {
	case sim.Outage, Throttle:
		return 20 * time.Second
	case sim.Delay, Slow, sim.CrashBefore, sim.CrashAfter, sim.Clock:
		return 45 * time.Second
	default:
		return 0
	}
}

// finding returns the finding of a run, reduced to what is necessary.
func (f *finder) finding(ctx context.Context, t tried, v sim.Violation) *Finding {
	p := Plan{Seed: t.plan.Seed, Bridge: t.plan.Bridge, Events: t.plan.Events, Faults: append([]sim.Fault{}, t.Injected...)}
	out := &Finding{Violation: v, Runs: 1, Seen: p, Small: p}
	tries := 0
	fails := func(p Plan) bool {
		if tries++; tries > maxTries {
			return false
		}
		again, err := Try(ctx, p, f.Mistake)
		return err == nil && slices.ContainsFunc(again.Broken, func(w sim.Violation) bool { return w.Rule == v.Rule })
	}
	if !fails(p) {
		return out // at least it shows what happened
	}
	fewer := func() {
		p.Faults = explore.Fewer(p.Faults, func(some []sim.Fault) bool {
			less := p
			less.Faults = some
			return fails(less)
		})
	}
	fewer()
	if len(p.Events) == 0 {
		for i := range t.Setting.Events {
			p.Events = append(p.Events, i)
		}
	}
	p.Events = explore.Fewer(p.Events, func(some []int) bool {
		less := p
		less.Events = some
		return len(some) > 0 && fails(less)
	})
	fewer()
	out.Small = p
	p.Story = true
	if again, err := Try(ctx, p, f.Mistake); err == nil {
		out.Trial = again
		if i := slices.IndexFunc(again.Broken, func(w sim.Violation) bool { return w.Rule == v.Rule }); i >= 0 {
			out.Violation = again.Broken[i]
		}
	}
	return out
}
