package search

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/history"
	"flunq.io/flunq/sim"
	"flunq.io/flunq/sim/explore"
	"flunq.io/flunq/sim/mock"
)

// searchState is a search in progress. Its phases are plain, which learns how the workflow ends without
// faults; each, for the single faults and for the seeds, which compares every run with that; and finish.
// In every phase, runs are made concurrently, and their verdicts noted one after another.
type searchState struct {
	*Search

	report   *Report
	plan     *planner
	outcomes *outcomes
	effects  *usualEffects
	check    *checker
	hints    *hints

	found  map[string]*Finding // by signature
	orders map[uint64]struct{}
	trace  hash.Hash // hash of the orders of all runs
}

func newSearchState(search *Search) *searchState {
	s := &searchState{
		Search: search, report: &Report{Faults: map[sim.FaultKind]int{}}, plan: newPlanner(search), outcomes: newOutcomes(search),
		found: map[string]*Finding{}, orders: map[uint64]struct{}{}, trace: sha256.New(),
	}
	s.effects = &usualEffects{outcomes: s.outcomes, known: map[string]*treeEffects{}}
	s.check = newChecker(search, s.outcomes, s.effects)
	s.hints = newHints(search, s.report)
	return s
}

// ErrUnmocked is wrapped by the error about calls that no mock answers in a run without
// faults. Their consequences would say nothing about the workflow.
var ErrUnmocked = errors.New("no mock answers")

// ErrUnending is wrapped by the error about a workflow that does not end in a run without
// faults.
var ErrUnending = errors.New("the workflow does not end")

// plain runs some seeds without faults, and learns from them how the workflow ends. It
// stops early if the first ones do not end.
func (s *searchState) plain(ctx context.Context) error {
	first, err := s.first(ctx)
	if err != nil {
		return err
	}
	if len(first.Unmocked) > 0 {
		return fmt.Errorf("%w:\n  %s", ErrUnmocked, strings.Join(s.unmockedTexts(first.Unmocked), "\n  "))
	}
	runs := plainRuns
	if len(s.Kinds) > 0 {
		runs = min(runs, int(min(s.Last-s.First, plainRuns))+minRuns) // few seeds, few runs
	}
	s.report.PlainOf = runs
	if first.Stop == sim.TasksUp || first.Stop == sim.TimeUp { // other runs would take as long
		if err := s.unending(ctx, first); err != nil {
			return err
		}
	}
	few := min(minRuns, runs)
	if err := s.plainSeeds(ctx, 0, few); err != nil {
		return err
	}
	if all := s.outcomes.groupsOf(s.Config.ID); len(all) > 0 && !all[0].ended() {
		if err := s.unending(ctx, first); err != nil {
			return err
		}
	}
	if !s.over(ctx) {
		if err := s.plainSeeds(ctx, few, runs); err != nil {
			return err
		}
	}
	s.reportOutcomes()
	return nil
}

// first runs the first seed twice, the second time with a later start: values that differ
// depend on the date, and the search ignores them. The services do everything that they do
// with faults, so all commands at which a single fault is possible are known.
func (s *searchState) first(ctx context.Context) (*sim.Trial, error) {
	cfg := s.plan.scenario(s.First).Config(s.Config)
	cfg.Thorough = true
	t, err := sim.Try(ctx, cfg)
	if err != nil {
		return nil, err
	}
	s.plan.commands, s.plan.calls, s.plan.baseline = t.Commands, t.Calls, baselineOf(t)
	s.outcomes.normalizer = newNormalizer(nil, nil)
	switch t.Stop {
	case "":
		s.Config.MaxTurns = warmTurns + warmFactor*sum(t.Commands)
	case sim.TasksUp, sim.TimeUp: // nothing to compare, and a second run would take as long
		return t, nil
	default:
	}
	cfg.Start, cfg.MaxTurns = cfg.Start.Add(shift), s.Config.MaxTurns
	other, err := sim.Try(ctx, cfg)
	if err != nil {
		return nil, err
	}
	s.outcomes.normalizer = newNormalizer(t.Ends, other.Ends)
	return t, s.firstMissed(ctx)
}

// shift is not a multiple of any common unit.
const shift = 37*24*time.Hour + 5*time.Hour + 7*time.Minute + 11*time.Second + 13*time.Millisecond

func sum[K comparable, N int | uint64](counts map[K]N) (total N) {
	for _, n := range counts {
		total += n
	}
	return total
}

// firstMissed finds events that arrive too early even without faults.
func (s *searchState) firstMissed(ctx context.Context) error {
	if !sim.HasTask(s.Config.Definition, func(t *dsl.Task) bool { return t.Listen != nil }) {
		return nil
	}
	cfg := s.plan.scenario(s.First).Config(s.Config)
	cfg.Plan = nil // only a run without a plan explains missed events
	r, err := sim.Run(ctx, cfg)
	if err != nil {
		return err
	}
	s.hints.missedEvents = r.Missed
	return nil
}

// plainSeeds runs seeds s.First+from up to but excluding s.First+to without faults.
func (s *searchState) plainSeeds(ctx context.Context, from, to int) error {
	seeds := func(yield func(Scenario) bool) {
		for n := uint64(from); n < uint64(to); n++ {
			sc := s.plan.scenario(s.First + n)
			if s.plan.inOrder && n >= minRuns {
				sc = sc.reduced(s.Config.Remote)
			}
			if !yield(sc) {
				return
			}
		}
	}
	return explore.InOrder(ctx, s.Parallel, seeds, s.run, func(v *verdict) bool {
		s.outcomes.learn(v)
		s.effects.learn(v.trial)
		s.hints.learnReceivers(v.trial)
		s.report.Plain++
		s.note(v)
		s.show("runs without faults", s.report.Plain, s.report.PlainOf)
		return !s.over(ctx)
	})
}

// unending explains why a workflow does not end without faults; nil if it does.
func (s *searchState) unending(ctx context.Context, t *sim.Trial) error {
	switch {
	case t.Stop == "" || t.Stop == sim.Stuck || t.Stop == sim.Interrupt:
		return nil
	case slices.ContainsFunc(s.report.Findings, func(f *Finding) bool { return f.Class == Engine }):
		return nil // the engine may be the reason
	case s.engineFails(ctx):
		return nil
	case t.Stop == sim.Never && len(t.Waiting) > 0:
		return fmt.Errorf("%w: it waits for something that never happens:\n  %s\n%s",
			ErrUnending, strings.Join(t.Waiting, "\n  "), sim.WaitingHint(s.hints.missedEvents))
	case t.Stop == sim.Never:
		return fmt.Errorf("%w: it is %s, and nothing more will happen", ErrUnending, t.Status)
	case t.Stop == sim.TimeUp:
		return fmt.Errorf("%w within --max-time: it is still running after %s of virtual time%s", ErrUnending, history.Duration(t.Elapsed), s.busiest(t))
	default:
		return fmt.Errorf("%w: it is still running after %s and %s of virtual time%s", ErrUnending, history.Count(t.Tasks, "task"), history.Duration(t.Elapsed), s.busiest(t))
	}
}

// busiest describes which tasks of the execution were started most often, after a semicolon; "" if none
// was started twice.
func (s *searchState) busiest(t *sim.Trial) string {
	starts := sim.Starts{}
	for _, end := range t.Ends {
		if end.ID == t.Execution {
			_ = starts.Add(end.History) // never fails
		}
	}
	if text := starts.Busiest(s.Config.Definition); text != "" {
		return "; " + text
	}
	return ""
}

// engineFails reports whether a companion fails: then the engine may be the reason why a
// document does not end without faults.
func (s *searchState) engineFails(ctx context.Context) bool {
	if len(s.Kinds) == 0 {
		return false
	}
	scenarios := func(yield func(Scenario) bool) {
		const some = 60
		for n := range some {
			if sc, ok := companionScenario(n); !ok || !yield(sc) {
				return
			}
		}
	}
	known := len(s.report.Findings)
	err := explore.InOrder(ctx, s.Parallel, scenarios, s.run, func(v *verdict) bool {
		s.note(v)
		return !s.over(ctx) && len(s.report.Findings) == known
	})
	return err == nil && len(s.report.Findings) > known
}

// reportOutcomes reports the outcomes of the runs without faults, and races if there are several.
func (s *searchState) reportOutcomes() {
	main := s.Config.ID
	if s.together() {
		main = wholeRun
	}
	all := s.outcomes.groupsOf(main)
	for _, g := range all {
		s.report.Outcomes = append(s.report.Outcomes, Outcome{
			Status: string(g.end.Status), Output: g.end.Output, Error: g.end.Error, Distinct: s.outcomes.distinctEffects(g, all), Runs: g.runs,
		})
	}
	if s.together() {
		s.reportUnusual(wholeRun)
		if len(all) == 1 && all[0].loses != nil {
			s.fail(*all[0].loses, all[0].scenarios[0], all[0].runs, true)
		}
		return
	}
	for _, id := range slices.Sorted(maps.Keys(s.outcomes.known)) {
		s.reportUnusual(id)
	}
}

// reportUnusual reports the groups of runs without faults whose outcome is not the usual one.
func (s *searchState) reportUnusual(id string) {
	all := s.outcomes.groupsOf(id)
	for i, g := range all {
		f := failed(Race, RuleOrder, id, "", "")
		switch {
		case !g.ended() && (i > 0 || sim.Parent(id) != ""):
			f = s.check.hangs(id, all[0], g)
		case i == 0 || g.expected(all) || s.outcomes.follows(id, all[0], g):
			continue
		case id != wholeRun:
			if differ := disagreement(all[0].facts, g.facts); differ != nil {
				f.task = s.check.fork(id, differ)
			}
		}
		g.finding = f.signature()
		s.fail(*f, g.scenarios[0], g.runs, true)
	}
}

// each runs the scenarios of a phase, and counts those of the document in runs, unless the search is over.
func (s *searchState) each(ctx context.Context, phase string, runs *int, of int, scenarios iter.Seq[Scenario]) error {
	if s.over(ctx) {
		return nil
	}
	return explore.InOrder(ctx, s.Parallel, scenarios, s.compared, func(v *verdict) bool {
		s.note(v)
		if v.scenario.Companion == "" {
			*runs++
			s.show(phase, *runs, of)
		}
		return !s.over(ctx)
	})
}

// verdict is the result of a run.
type verdict struct {
	scenario Scenario // with explicit faults instead of random ones
	trial    *sim.Trial
	failures []failure
	seen     observations // of a run of the document without interventions
	unmocked []mock.Exchange
	known    []string // signatures of earlier findings, from runs without faults, that this run confirms
}

// faultFree reports whether there were no faults and no operator actions.
func (v *verdict) faultFree() bool { return len(v.scenario.Faults) == 0 && !v.scenario.intervened() }

// run runs a scenario, checks the invariants and the user's expectations, and collects what the hints
// need. It may be called concurrently.
func (s *searchState) run(ctx context.Context, sc Scenario) (*verdict, error) {
	t, err := s.try(ctx, sc, nil)
	if err != nil {
		return nil, err
	}
	v := &verdict{scenario: sc.explicit(t.Injected), trial: t, failures: s.check.violations(t, sc)}
	if sc.Companion == "" && !sc.intervened() {
		v.seen = s.hints.observe(t)
	}
	return v, nil
}

// compared is like run, and also compares the outcome of a document with those of its runs without
// faults.
func (s *searchState) compared(ctx context.Context, sc Scenario) (*verdict, error) {
	v, err := s.run(ctx, sc)
	if err != nil || sc.Companion != "" {
		return v, err
	}
	v.failures = append(v.failures, s.check.anomalies(v.trial, sc)...)
	if v.faultFree() {
		v.known = s.outcomes.knownFindings(v.trial)
	}
	if v.unmocked = v.trial.Unmocked; len(v.unmocked) > 0 { // the workflow is not to blame for their consequences
		v.failures = slices.DeleteFunc(v.failures, func(f failure) bool { return f.Class != Engine })
		v.seen.undo, v.seen.left = nil, nil
	}
	return v, nil
}

// over reports whether the search must stop early, and records why.
func (s *searchState) over(ctx context.Context) bool {
	switch {
	case s.report.Stopped != "":
	case ctx.Err() != nil:
		s.report.Stopped = Interrupted
	case s.More != nil && !s.More():
		s.report.Stopped = OutOfTime
	case s.FailFast && slices.ContainsFunc(s.report.Findings, s.Fails):
		s.report.Stopped = FailedFast
	case len(s.found) >= maxFindings:
		s.report.Stopped = EnoughFound
	}
	return s.report.Stopped != ""
}

// note adds a verdict to the report, each failure once.
func (s *searchState) note(v *verdict) {
	seen := map[string]bool{}
	for _, f := range v.failures {
		if signature := v.scenario.signature(f); !seen[signature] {
			seen[signature] = true
			s.fail(f, v.scenario, 1, v.faultFree())
		}
	}
	if v.scenario.Companion != "" {
		s.report.Companions++
		return
	}
	for _, f := range v.scenario.Faults {
		s.report.Faults[f.Kind]++
	}
	if v.faultFree() {
		s.report.FaultFree++
	}
	order, _ := strconv.ParseUint(v.trial.Order[:16], 16, 64) // the first half of a hex-encoded hash suffices for counting
	s.trace.Write(binary.BigEndian.AppendUint64(nil, order))
	if len(s.orders) < maxOrders {
		s.orders[order] = struct{}{}
	}
	s.report.Seconds += int64(v.trial.Lasted() / time.Second)
	for _, signature := range v.known {
		s.found[signature].Runs++
		s.found[signature].FaultFree++
	}
	if len(v.unmocked) > 0 {
		s.report.UnmockedRuns++
		s.report.Unmocked = append(s.report.Unmocked, s.unmockedTexts(v.unmocked)...)
		slices.Sort(s.report.Unmocked)
		s.report.Unmocked = slices.Compact(s.report.Unmocked)
	}
	s.hints.add(v.seen, v.faultFree())
}

// fail records a failure: the first of its signature becomes a finding.
func (s *searchState) fail(f failure, sc Scenario, runs int, faultFree bool) {
	signature := sc.signature(f)
	known := s.found[signature]
	if known == nil {
		known = &Finding{Class: f.Class, Violation: f.Violation, Task: f.task, Companion: sc.Companion, Seen: sc, Small: sc, Tasks: map[string]int{}, signature: signature}
		s.found[signature] = known
		s.report.Findings = append(s.report.Findings, known)
	}
	if known.Runs += runs; faultFree {
		known.FaultFree += runs
	}
	known.Tasks[f.task] += runs
}

func (s *searchState) show(phase string, runs, of int) {
	if s.Progress != nil {
		s.Progress(explore.Progress{Phase: phase, Runs: runs, Of: of, Faults: sum(s.report.Faults), Orders: len(s.orders), Findings: len(s.found)})
	}
}

// finish shrinks and explains the findings, and completes the report.
func (s *searchState) finish(ctx context.Context, err error) (*Report, error) {
	if err != nil && ctx.Err() != nil {
		s.report.Stopped, err = Interrupted, nil
	}
	if r := s.report; r.Plain == r.PlainOf && r.Singles == r.SinglesOf && r.Seeds == r.SeedsOf {
		r.Stopped = "" // the search was complete
	}
	s.report.Orders, s.report.Trace = len(s.orders), hex.EncodeToString(s.trace.Sum(nil))
	if err != nil {
		return s.report, err
	}
	for _, f := range s.report.Findings {
		if err := s.explain(ctx, f); err != nil && ctx.Err() == nil {
			return s.report, err
		}
	}
	rank := []Class{Engine, Expectation, SideEffect, Hang, Race, Late}
	place := func(f *Finding) int {
		if !s.Fails(f) {
			return len(rank)
		}
		return slices.Index(rank, f.Class)
	}
	slices.SortStableFunc(s.report.Findings, func(a, b *Finding) int { return place(a) - place(b) })
	s.report.Hints = s.hints.list(s.report.Stopped == "" || s.report.Seeds > 0)
	return s.report, nil
}
