package search

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"maps"
	"slices"
	"strings"
	"time"

	"flunq.io/flunq/engine/history"
	"flunq.io/flunq/sim"
	"flunq.io/flunq/sim/mock"
)

// hunt is a search under way.
type hunt struct {
	*Search

	report          *Report
	commands, calls map[string]uint64            // of the first run, by service
	known           map[string]map[string]*class // outcomes in which nothing went wrong: by execution, by key
	hidden          mask                         // values that follow from the time at which a run starts
	reads           bool                         // the document reads the clock
	inOrder         bool                         // what happens to an execution follows upon what has happened to it before
	orders          map[uint64]struct{}
	trace           hash.Hash // of the orders of all runs
	found           map[string]*Finding
	timeouts        map[string]*timeouts
	repeated        map[sim.Deed]*Repeat
	retried         map[string]*retried
	turns           map[string]int // of loops, at most, by the tasks inside
	scene           scene

	seeds, faults int
}

// class is the runs without faults that ended alike.
type class struct {
	outcome   Outcome
	scenarios []Scenario
	facts     []*facts // of the first of them
}

// mostFacts is how many runs of a class are kept to be compared.
const mostFacts = 16

// verdict is what a run has come to. It is small: a hundred thousand pass.
type verdict struct {
	scenario Scenario // with the faults that struck in the place of chance
	struck   []sim.FaultKind
	order    uint64
	elapsed  time.Duration
	failures []failure
	set      map[string]int // timeouts that were set, by task
	fired    map[string]int // … and came
	repeated []sim.Deed
	retried  []retried
	turns    map[string]int

	trial *sim.Trial // of a run without faults, while those are gathered
}

func newHunt(s *Search) *hunt {
	return &hunt{
		Search: s, report: &Report{Faults: map[sim.FaultKind]int{}},
		known: map[string]map[string]*class{}, orders: map[uint64]struct{}{}, trace: sha256.New(), found: map[string]*Finding{},
		timeouts: map[string]*timeouts{}, repeated: map[sim.Deed]*Repeat{},
		retried: map[string]*retried{}, turns: map[string]int{}, reads: readsClock(s.Config.Definition), inOrder: inOrder(s.Config),
	}
}

// over reports whether the search has come to its end before its time.
func (h *hunt) over(ctx context.Context) bool {
	h.report.Stopped = h.report.Stopped || ctx.Err() != nil || h.More != nil && !h.More()
	return h.report.Stopped || h.FailFast && h.failed() || len(h.found) >= mostFindings
}

// failed reports whether a failure was found: that a workflow depends on time is none.
func (h *hunt) failed() bool {
	return slices.ContainsFunc(h.report.Findings, func(f *Finding) bool { return f.Class != Late })
}

// ErrUnending is wrapped by the error about a workflow that does not end though
// nothing goes wrong.
var ErrUnending = errors.New("the workflow does not end")

// plain runs some seeds without faults, and learns from them how the workflow ends.
func (h *hunt) plain(ctx context.Context) error {
	first, err := h.first(ctx)
	if err != nil {
		return err
	}
	runs := plainRuns
	if len(h.Kinds) > 0 {
		runs = min(runs, int(min(h.Last-h.First, plainRuns))+fewestRuns) // few seeds, few runs
	}
	of := runs
	seeds := func(yield func(Scenario) bool) {
		for n := range uint64(runs) {
			sc := h.scenario(h.First + n)
			if h.inOrder && n >= fewestRuns {
				sc = sc.slight(h.Config.Remote)
			}
			if !yield(sc) {
				return
			}
		}
	}
	run := func(ctx context.Context, sc Scenario) (*verdict, error) {
		t, err := h.try(ctx, sc)
		if err != nil {
			return nil, err
		}
		return h.weigh(t, sc), nil
	}
	err = pool(ctx, h.Parallel, seeds, run, func(v *verdict) bool {
		h.learn(v)
		h.report.Plain++
		h.note(v)
		h.show(PhasePlain, h.report.Plain, of)
		return !h.over(ctx)
	})
	if err != nil {
		return err
	}
	h.usual()
	return h.unending(first)
}

// first runs the first seed twice, the second time later in the year: what
// differs follows from the date, and is no concern of the search. Its services do
// all that they do where something can go wrong, so that single faults meet it.
func (h *hunt) first(ctx context.Context) (*sim.Trial, error) {
	cfg := h.scenario(h.First).Config(h.Config)
	cfg.Thorough = true
	cfg.Exchange = func(x mock.Exchange) {
		if x.Mock < 0 && x.Err != nil {
			h.report.Unmocked = append(h.report.Unmocked, x)
		}
	}
	t, err := sim.Try(ctx, cfg)
	if err != nil {
		return nil, err
	}
	h.commands, h.calls, h.scene = t.Commands, t.Calls, sceneOf(t)
	if t.Stop == "" {
		h.Config.MaxTurns = spareTurns + spareFactor*sum(t.Commands)
	}
	cfg.Start, cfg.Exchange, cfg.MaxTurns = cfg.Start.Add(shift), h.Config.Exchange, h.Config.MaxTurns
	other, err := sim.Try(ctx, cfg)
	if err != nil {
		return nil, err
	}
	h.hidden = maskOf(t.Ends, other.Ends)
	return t, nil
}

// shift is no round number of anything.
const shift = 37*24*time.Hour + 5*time.Hour + 7*time.Minute + 11*time.Second + 13*time.Millisecond

func sum(counts map[string]uint64) uint64 {
	total := uint64(0)
	for _, n := range counts {
		total += n
	}
	return total
}

// unending says why a workflow does not end though nothing goes wrong.
func (h *hunt) unending(t *sim.Trial) error {
	switch {
	case t.Stop == "" || t.Stop == sim.Stuck || t.Stop == sim.Interrupt:
		return nil
	case slices.ContainsFunc(h.report.Findings, func(f *Finding) bool { return f.Class == Engine }):
		return nil // that may be why
	case t.Stop == sim.Never && len(t.Waiting) > 0:
		return fmt.Errorf("%w: it waits for something that will never come:\n  %s", ErrUnending, strings.Join(t.Waiting, "\n  "))
	default:
		return fmt.Errorf("%w: stopped by --%s after %s and %s", ErrUnending, t.Stop, history.Count(t.Tasks, "task"), history.Duration(t.Elapsed))
	}
}

// each runs scenarios and judges them.
func (h *hunt) each(ctx context.Context, phase string, of int, scenarios func(func(Scenario) bool)) error {
	if phase == PhaseSingles {
		h.report.SinglesOf = of
		of = min(of, h.Singles)
	}
	run := func(ctx context.Context, sc Scenario) (*verdict, error) {
		t, err := h.try(ctx, sc)
		if err != nil {
			return nil, err
		}
		v := h.weigh(t, sc)
		v.failures = append(v.failures, h.odds(t, sc)...)
		v.trial = nil
		return v, nil
	}
	runs := 0
	return pool(ctx, h.Parallel, scenarios, run, func(v *verdict) bool {
		runs++
		if phase == PhaseSingles {
			h.report.Singles++
		} else {
			h.report.Seeds++
			h.report.Last = v.scenario.Seed
			h.seeds++
		}
		h.note(v)
		h.show(phase, runs, of)
		return !h.over(ctx)
	})
}

func (h *hunt) show(phase string, runs, of int) {
	if h.Progress != nil {
		h.Progress(Progress{phase, runs, of, h.seeds, h.faults, len(h.orders), len(h.found)})
	}
}

// weigh asks the promises and the user's expectations, and keeps what counts.
func (h *hunt) weigh(t *sim.Trial, sc Scenario) *verdict {
	v := &verdict{scenario: sc.explicit(t.Struck), elapsed: t.Lasted(), trial: t, order: shorten(t.Order)}
	for _, s := range t.Struck {
		v.struck = append(v.struck, s.Kind)
	}
	for _, b := range t.Broken {
		v.failures = append(v.failures, failure{Class: Engine, Violation: b})
	}
	if sc.attended() { // it does what the document and its operators have it do
		return v
	}
	for _, check := range h.Checks {
		for _, b := range check.Of(t) {
			v.failures = append(v.failures, failure{Class: Expectation, Violation: b})
		}
	}
	v.set, v.fired = timeoutsIn(t.Ends)
	v.repeated, v.retried, v.turns = repetitions(t), retriesIn(t), turnsIn(t.Ends)
	return v
}

// shorten is the beginning of a hash, which is enough to count by.
func shorten(order string) uint64 {
	raw, err := hex.DecodeString(order[:min(16, len(order))]) //nolint:mnd // eight bytes
	if err != nil {
		return 0
	}
	n := uint64(0)
	for _, b := range raw {
		n = n<<8 | uint64(b) //nolint:mnd // a byte
	}
	return n
}

// learn adds the ends of a run without faults to what is known.
func (h *hunt) learn(v *verdict) {
	for _, end := range v.trial.Ends {
		id := sibling(end.ID)
		if h.known[id] == nil {
			h.known[id] = map[string]*class{}
		}
		key := h.hidden.key(end)
		c := h.known[id][key]
		if c == nil {
			c = &class{outcome: Outcome{Status: string(end.Status), Output: end.Output, Error: end.Error, Stop: v.trial.Stop}}
			h.known[id][key] = c
		}
		c.outcome.Runs++
		if len(c.facts) < mostFacts {
			c.facts = append(c.facts, h.factsOf(v.trial, end))
			c.scenarios = append(c.scenarios, v.scenario)
		}
	}
}

// sibling is the id that an execution would have if it were the first of those
// that are started alike.
func sibling(id string) string {
	root, rest, below := strings.Cut(id, ".")
	if at := strings.LastIndexByte(root, '-'); at > 0 && strings.Trim(root[at+1:], "0123456789") == "" {
		root = root[:at]
	}
	if below {
		return root + "." + rest
	}
	return root
}

// usual says which outcomes there are, and that the workflow races if there are several.
func (h *hunt) usual() {
	id := sibling(h.Config.ID)
	for _, c := range h.classes(id) {
		h.report.Outcomes = append(h.report.Outcomes, c.outcome)
	}
	for _, id := range slices.Sorted(maps.Keys(h.known)) {
		all := h.classes(id)
		for _, c := range all[1:] {
			f := failure{Class: Race, Violation: sim.Violation{Rule: ruleOrder, Execution: id}, task: h.pair(id, all[0], c)}
			h.fail(f, c.scenarios[0], c.outcome.Runs)
		}
	}
}

// classes are those of an execution, the most frequent first.
func (h *hunt) classes(id string) []*class {
	return slices.SortedFunc(maps.Values(h.known[id]), func(a, b *class) int {
		return cmp.Or(b.outcome.Runs-a.outcome.Runs, cmp.Compare(a.scenarios[0].Seed, b.scenarios[0].Seed))
	})
}

// note takes a verdict into the report.
func (h *hunt) note(v *verdict) {
	for _, kind := range v.struck {
		h.report.Faults[kind]++
	}
	h.faults += len(v.struck)
	h.trace.Write(binary.BigEndian.AppendUint64(nil, v.order))
	if len(h.orders) < mostOrders {
		h.orders[v.order] = struct{}{}
	}
	h.report.Seconds += int64(v.elapsed / time.Second)
	seen := map[string]bool{}
	for _, f := range v.failures {
		if !seen[f.signature()] {
			seen[f.signature()] = true
			h.fail(f, v.scenario, 1)
		}
	}
	h.countTimeouts(v)
	h.countRepeats(v)
	h.countRetries(v)
	for ref, n := range v.turns {
		h.turns[ref] = max(h.turns[ref], n)
	}
}

// fail notes a failure: the first of its kind is a finding.
func (h *hunt) fail(f failure, sc Scenario, runs int) {
	known := h.found[f.signature()]
	if known == nil {
		known = &Finding{Class: f.Class, Violation: f.Violation, Task: f.task, Seen: sc, Small: sc, Tasks: map[string]int{}, signature: f.signature()}
		h.found[f.signature()] = known
		h.report.Findings = append(h.report.Findings, known)
	}
	known.Runs += runs
	known.Tasks[f.task] += runs
}

// finish makes what was found smaller, and tells it.
func (h *hunt) finish(ctx context.Context, err error) (*Report, error) {
	if err != nil && ctx.Err() != nil {
		h.report.Stopped, err = true, nil
	}
	h.report.Orders, h.report.Trace = len(h.orders), hex.EncodeToString(h.trace.Sum(nil))
	if err != nil {
		return h.report, err
	}
	for _, f := range h.report.Findings {
		if err := h.explain(ctx, f); err != nil && ctx.Err() == nil {
			return h.report, err
		}
	}
	rank := []Class{Engine, Expectation, Race, Late}
	slices.SortStableFunc(h.report.Findings, func(a, b *Finding) int {
		return slices.Index(rank, a.Class) - slices.Index(rank, b.Class)
	})
	h.report.Hints = h.hints()
	return h.report, nil
}
