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

	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/history"
	"flunq.io/flunq/sim"
	"flunq.io/flunq/sim/mock"
)

// searchState is the state of a running search.
type searchState struct {
	*Search

	report          *Report
	commands, calls map[string]uint64            // of the first run, by service
	whole           map[string]*class            // outcomes of whole runs, see together
	known           map[string]map[string]*class // outcomes without faults: by execution, by key
	suppressed      *pattern                     // values that depend on the start time of a run
	done            map[string]*done             // external effects without faults, by root execution
	reads           bool                         // the document reads the clock
	inOrder         bool                         // see inOrder
	orders          map[uint64]struct{}
	trace           hash.Hash // hash of the orders of all runs
	found           map[string]*Finding
	timeouts        map[string]*timeouts
	repeated        map[sim.Action]*Repeat
	retried         map[string]*retried
	rekeyed         map[string]*sim.Rekeyed // calls with wrong idempotency keys, by task
	takenBack       map[string]*takenBack   // tries that do not undo what they have done, or in the wrong order
	left            map[string]*leftBehind  // calls that faulted executions did not undo, by task
	receivers       map[string]int          // highest number of executions that received one event, by its type
	handling        []*dsl.Task             // see handling
	turns           map[string]int          // highest number of iterations of loops, by the tasks inside
	missedEvents    []sim.Missed            // events that came too early in the first run
	baseline        baseline

	seeds, faults int
	drawn         int // scenarios of the document that were handed out, apart from the plain ones
}

// class is the set of runs without faults that ended alike.
type class struct {
	keys      keys
	end       sim.End       // of the first of them, without its history
	calls     []sim.Call    // of the first of them and its descendants
	history   []event.Event // of one that did not end
	outcome   Outcome
	loses     *failure // a lost update in it; nil: none
	finding   string   // signature of the finding about it; "" if there is none
	scenarios []Scenario
	facts     []*facts // of the first of them
}

// mostFacts is how many runs of a class are kept for comparisons.
const mostFacts = 16

// ended reports whether the executions of a class ended.
func (c *class) ended() bool { return c.end.Status.Ended() }

// verdict is the result of a run. It is small, because a search has up to a hundred
// thousand.
type verdict struct {
	scenario Scenario // with explicit faults instead of random ones
	struck   []sim.FaultKind
	order    uint64
	elapsed  time.Duration
	failures []failure
	set      map[string]int // number of timeouts that were set, by task
	fired    map[string]int // … and that fired
	repeated []sim.Action
	retried  []retried
	rekeyed  []sim.Rekeyed
	undoings []undoings
	left     []leftBehind
	turns    map[string]int
	unmocked []mock.Exchange
	known    []string // signatures of the findings of runs without faults that this run confirms

	trial *sim.Trial // of a run without faults, until it is learned
}

// calm reports whether there were no faults and no operator actions.
func (v *verdict) calm() bool { return len(v.struck) == 0 && !v.scenario.intervened() }

func newSearchState(s *Search) *searchState {
	return &searchState{
		Search: s, report: &Report{Faults: map[sim.FaultKind]int{}},
		known: map[string]map[string]*class{}, whole: map[string]*class{}, done: map[string]*done{}, orders: map[uint64]struct{}{}, trace: sha256.New(), found: map[string]*Finding{},
		timeouts: map[string]*timeouts{}, repeated: map[sim.Action]*Repeat{},
		retried: map[string]*retried{}, rekeyed: map[string]*sim.Rekeyed{}, takenBack: map[string]*takenBack{}, left: map[string]*leftBehind{}, receivers: map[string]int{}, handling: handling(s.Config.Definition), turns: map[string]int{}, reads: readsClock(s.Config.Definition), inOrder: inOrder(s.Config),
	}
}

// over reports whether the search must stop early, and records why.
func (h *searchState) over(ctx context.Context) bool {
	switch {
	case h.report.Stopped != "":
	case ctx.Err() != nil:
		h.report.Stopped = Interrupted
	case h.More != nil && !h.More():
		h.report.Stopped = OutOfTime
	case h.FailFast && h.failed():
		h.report.Stopped = FailedFast
	case len(h.found) >= mostFindings:
		h.report.Stopped = EnoughFound
	}
	return h.report.Stopped != ""
}

// failed reports whether a failure was found. Findings that are only notes do not count.
func (h *searchState) failed() bool {
	return slices.ContainsFunc(h.report.Findings, h.Fails)
}

// ErrUnmocked is wrapped by the error about calls that no mock answers in a run without
// faults. What follows from them would say nothing about the workflow.
var ErrUnmocked = errors.New("no mock answers")

// unmockedTexts describes calls, each once.
func (h *searchState) unmockedTexts(calls []mock.Exchange) []string {
	var out []string
	for _, x := range calls {
		text := x.Method + " " + x.URL
		if t := h.Config.Definition.Task(x.Task); t != nil {
			text = fmt.Sprintf("%s (%s, line %d)", text, t.Name, t.Pos.Line)
		}
		if !slices.Contains(out, text) {
			out = append(out, text)
		}
	}
	return out
}

// ErrUnending is wrapped by the error about a workflow that does not end in a run without
// faults.
var ErrUnending = errors.New("the workflow does not end")

// plain runs some seeds without faults, and learns from them how the workflow ends. It
// stops early if the first ones do not end.
func (h *searchState) plain(ctx context.Context) error {
	first, err := h.first(ctx)
	if err != nil {
		return err
	}
	if len(first.Unmocked) > 0 {
		return fmt.Errorf("%w:\n  %s", ErrUnmocked, strings.Join(h.unmockedTexts(first.Unmocked), "\n  "))
	}
	runs := plainRuns
	if len(h.Kinds) > 0 {
		runs = min(runs, int(min(h.Last-h.First, plainRuns))+fewestRuns) // few seeds, few runs
	}
	h.report.PlainOf = runs
	if first.Stop == sim.TasksUp || first.Stop == sim.TimeUp { // other runs would take as long
		if err := h.unending(ctx, first); err != nil {
			return err
		}
	}
	few := min(fewestRuns, runs)
	if err := h.plainSeeds(ctx, 0, few); err != nil {
		return err
	}
	if all := h.classes(sibling(h.Config.ID)); len(all) > 0 && !all[0].ended() {
		if err := h.unending(ctx, first); err != nil {
			return err
		}
	}
	if !h.over(ctx) {
		if err := h.plainSeeds(ctx, few, runs); err != nil {
			return err
		}
	}
	h.usual()
	return nil
}

// plainSeeds runs seeds h.First+from up to but excluding h.First+to without faults.
func (h *searchState) plainSeeds(ctx context.Context, from, to int) error {
	seeds := func(yield func(Scenario) bool) {
		for n := uint64(from); n < uint64(to); n++ {
			sc := h.scenario(h.First + n)
			if h.inOrder && n >= fewestRuns {
				sc = sc.reduced(h.Config.Remote)
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
		return h.evaluate(t, sc), nil
	}
	return pool(ctx, h.Parallel, seeds, run, func(v *verdict) bool {
		h.learn(v)
		h.report.Plain++
		h.note(v)
		h.show(PhasePlain, h.report.Plain, h.report.PlainOf)
		return !h.over(ctx)
	})
}

// first runs the first seed twice, the second time with a later start: what differs
// depends on the date, and the search ignores it. The services do everything they do with
// faults, so the commands for single faults are known.
func (h *searchState) first(ctx context.Context) (*sim.Trial, error) {
	cfg := h.scenario(h.First).Config(h.Config)
	cfg.Thorough = true
	t, err := sim.Try(ctx, cfg)
	if err != nil {
		return nil, err
	}
	h.commands, h.calls, h.baseline = t.Commands, t.Calls, baselineOf(t)
	h.suppressed = patternOf(nil, nil)
	switch t.Stop {
	case "":
		h.Config.MaxTurns = warmTurns + warmFactor*sum(t.Commands)
	case sim.TasksUp, sim.TimeUp: // nothing to compare, and it would take as long again
		return t, nil
	default:
	}
	cfg.Start, cfg.MaxTurns = cfg.Start.Add(shift), h.Config.MaxTurns
	other, err := sim.Try(ctx, cfg)
	if err != nil {
		return nil, err
	}
	h.suppressed = patternOf(t.Ends, other.Ends)
	return t, h.firstMissed(ctx)
}

// shift is not a multiple of any common unit.
const shift = 37*24*time.Hour + 5*time.Hour + 7*time.Minute + 11*time.Second + 13*time.Millisecond

func sum(counts map[string]uint64) uint64 {
	total := uint64(0)
	for _, n := range counts {
		total += n
	}
	return total
}

// unending explains why a workflow does not end without faults; nil if it does.
func (h *searchState) unending(ctx context.Context, t *sim.Trial) error {
	switch {
	case t.Stop == "" || t.Stop == sim.Stuck || t.Stop == sim.Interrupt:
		return nil
	case slices.ContainsFunc(h.report.Findings, func(f *Finding) bool { return f.Class == Engine }):
		return nil // that may be the reason
	case h.engineFails(ctx):
		return nil // likewise
	case t.Stop == sim.Never && len(t.Waiting) > 0:
		return fmt.Errorf("%w: it waits for something that will never come:\n  %s\nsend what it waits for with an events entry in --mocks, or give the task a timeout",
			ErrUnending, strings.Join(t.Waiting, "\n  "))
	case t.Stop == sim.Never:
		return fmt.Errorf("%w: it is %s, and nothing happens any more", ErrUnending, t.Status)
	case t.Stop == sim.TimeUp:
		return fmt.Errorf("%w within --max-time: it still goes on after %s of virtual time%s", ErrUnending, history.Duration(t.Elapsed), h.busiest(t))
	default:
		return fmt.Errorf("%w: it still goes on after %s and %s of virtual time%s", ErrUnending, history.Count(t.Tasks, "task"), history.Duration(t.Elapsed), h.busiest(t))
	}
}

// busiest names the task that ran most often.
func (h *searchState) busiest(t *sim.Trial) string {
	counts, most := map[string]int{}, ""
	for _, end := range t.Ends {
		for _, e := range end.History {
			ref := event.ParseRun(e.Task).Ref
			if task := h.Config.Definition.Task(ref); e.Type != event.TaskRequested || end.ID != t.Execution || task == nil || len(task.Do) > 0 {
				continue
			}
			if counts[ref]++; counts[ref] > counts[most] {
				most = ref
			}
		}
	}
	if counts[most] < 2 { //nolint:mnd // nothing was repeated
		return ""
	}
	task := h.Config.Definition.Task(most)
	return fmt.Sprintf("; %s (line %d) has run %s times", task.Name, task.Pos.Line, history.Number(counts[most]))
}

// each runs scenarios and evaluates the results.
func (h *searchState) each(ctx context.Context, phase string, of int, scenarios func(func(Scenario) bool)) error {
	if phase == PhaseSingles {
		of = min(of, h.Singles)
	}
	run := func(ctx context.Context, sc Scenario) (*verdict, error) {
		t, err := h.try(ctx, sc)
		if err != nil {
			return nil, err
		}
		v := h.evaluate(t, sc)
		if sc.Companion == "" {
			v.failures = append(v.failures, h.anomalies(t, sc)...)
			if v.calm() {
				v.known = h.knownFindings(t)
			}
			if v.unmocked = t.Unmocked; len(v.unmocked) > 0 { // their consequences are no failures of the workflow
				v.failures = slices.DeleteFunc(v.failures, func(f failure) bool { return f.Class != Engine })
			}
		}
		v.trial = nil
		return v, nil
	}
	runs := 0
	return pool(ctx, h.Parallel, scenarios, run, func(v *verdict) bool {
		if v.scenario.Companion != "" {
			h.note(v)
			return !h.over(ctx)
		}
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

func (h *searchState) show(phase string, runs, of int) {
	if h.Progress != nil {
		h.Progress(Progress{phase, runs, of, h.seeds, h.faults, len(h.orders), len(h.found)})
	}
}

// evaluate checks the invariants and the user's expectations, and extracts what the report
// needs.
func (h *searchState) evaluate(t *sim.Trial, sc Scenario) *verdict {
	v := &verdict{scenario: sc.explicit(t.Struck), elapsed: t.Lasted(), trial: t, order: shorten(t.Order)}
	for _, s := range t.Struck {
		v.struck = append(v.struck, s.Kind)
	}
	for _, b := range t.Broken {
		v.failures = append(v.failures, failure{Class: Engine, Violation: b})
	}
	if sc.Companion != "" {
		return v
	}
	if sc.intervened() { // expectations are for the document alone
		return v
	}
	for _, check := range h.Checks {
		for _, b := range check.Of(t) {
			v.failures = append(v.failures, failure{Class: Expectation, Violation: b})
		}
	}
	v.set, v.fired = timeoutsIn(t.Ends)
	v.repeated, v.retried, v.turns = repetitions(t), retriesIn(t), turnsIn(t.Ends)
	v.rekeyed, v.undoings, v.left = t.Rekeyed, h.undoingsIn(t), leftIn(t)
	return v
}

// shorten returns the first eight bytes of a hash, which suffice for counting.
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

// learn adds the ends of a run without faults to the known outcomes.
func (h *searchState) learn(v *verdict) {
	h.learnDone(v.trial)
	if h.together() && len(v.trial.Ends) > 0 {
		h.learnRun(v)
	}
	h.learnReceivers(v.trial)
	for _, end := range v.trial.Ends {
		id := sibling(end.ID)
		if h.known[id] == nil {
			h.known[id] = map[string]*class{}
		}
		key := h.suppressed.keysOf(end)
		c := h.known[id][key.whole]
		if c == nil {
			c = &class{keys: key, end: end, calls: callsBelow(v.trial, end.ID)}
			c.outcome = Outcome{Status: string(end.Status), Output: end.Output, Error: end.Error, Calls: c.calls, Kept: end.Kept, Stop: v.trial.Stop}
			if c.end.History = nil; !c.ended() {
				c.history = end.History
			}
			h.known[id][key.whole] = c
		}
		h.count(c, v, end)
	}
}

// count adds a run to its class.
func (h *searchState) count(c *class, v *verdict, end sim.End) {
	c.outcome.Runs++
	if len(c.facts) < mostFacts {
		c.facts = append(c.facts, h.factsOf(v.trial, end))
		c.scenarios = append(c.scenarios, v.scenario)
	}
}

// sibling returns the id that an execution would have if its root were the first of those
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

// usual reports the outcomes without faults, and races if there are several.
func (h *searchState) usual() {
	all := h.classes(sibling(h.Config.ID))
	if h.together() {
		all = classes(h.whole)
	}
	for _, c := range all {
		c.outcome.Apart = h.apartFrom(c, all)
		h.report.Outcomes = append(h.report.Outcomes, c.outcome)
	}
	if h.together() {
		h.unlikeOutcomes("", all)
		for _, c := range all {
			if c.loses != nil && len(all) == 1 {
				h.fail(*c.loses, c.scenarios[0], c.outcome.Runs, true)
			}
		}
		return
	}
	for _, id := range slices.Sorted(maps.Keys(h.known)) {
		h.unlikeOutcomes(id, h.classes(id))
	}
}

// apartFrom returns the external effects of a class that not all others have.
func (h *searchState) apartFrom(c *class, all []*class) []string {
	var out []string
	own := h.suppressed.effects(c.calls)
	for _, e := range slices.SortedFunc(maps.Keys(own), Effect.compare) {
		if !slices.ContainsFunc(all, func(o *class) bool { return h.suppressed.effects(o.calls)[e] != own[e] }) {
			continue
		}
		text := e.String()
		if own[e] > 1 {
			text = fmt.Sprintf("%d times %s", own[e], text)
		}
		out = append(out, text)
	}
	for _, at := range slices.Sorted(maps.Keys(c.end.Kept)) {
		value := string(event.Encode(c.end.Kept[at]))
		if slices.ContainsFunc(all, func(o *class) bool { return string(event.Encode(o.end.Kept[at])) != value }) {
			out = append(out, at+" keeps "+value)
		}
	}
	return out
}

// unlikeOutcomes reports the classes without faults whose outcome is not the usual one.
func (h *searchState) unlikeOutcomes(id string, all []*class) {
	for i, c := range all {
		f := failure{Class: Race, Violation: sim.Violation{Rule: RuleOrder, Execution: id}}
		switch {
		case !c.ended() && (i > 0 || strings.Contains(id, ".")):
			f = h.hangs(id, all[0], c)
		case i == 0 || h.follows(id, all[0], c):
			continue
		case id != "":
			f.task = h.pair(id, all[0], c)
		}
		c.finding = f.signature()
		h.fail(f, c.scenarios[0], c.outcome.Runs, true)
	}
}

// knownFindings returns the findings of runs without faults that a run confirms.
func (h *searchState) knownFindings(t *sim.Trial) []string {
	var out []string
	add := func(c *class) {
		if c != nil && c.finding != "" && !slices.Contains(out, c.finding) {
			out = append(out, c.finding)
		}
	}
	if h.together() {
		add(h.whole[h.runKey(t)])
		return out
	}
	for _, end := range t.Ends {
		add(h.known[sibling(end.ID)][h.suppressed.key(end)])
	}
	return out
}

// follows reports whether an execution ended differently only because another one did,
// which has its own finding: a child because it got another input, or its parent because
// of the child.
func (h *searchState) follows(id string, usual, c *class) bool {
	if strings.Contains(id, ".") && !slices.ContainsFunc(usual.facts, func(f *facts) bool { return f.input == c.facts[0].input }) {
		return true
	}
	if _, _, ok := disagreement(usual.facts, c.facts); ok {
		return false
	}
	for other, classes := range h.known {
		if strings.HasPrefix(other, id+".") && len(classes) > 1 {
			return true
		}
	}
	return false
}

// classes returns the classes of an execution, see classes.
func (h *searchState) classes(id string) []*class { return classes(h.known[id]) }

// classes sorts classes: those that ended first, and within each group the most frequent
// first.
func classes(of map[string]*class) []*class {
	return slices.SortedFunc(maps.Values(of), func(a, b *class) int {
		if a.ended() != b.ended() {
			if a.ended() {
				return -1
			}
			return 1
		}
		return cmp.Or(b.outcome.Runs-a.outcome.Runs, cmp.Compare(a.scenarios[0].Seed, b.scenarios[0].Seed))
	})
}

// note adds a verdict to the report.
func (h *searchState) note(v *verdict) {
	if v.scenario.Companion != "" {
		h.report.Companions++
		h.noteFailures(v)
		return
	}
	for _, kind := range v.struck {
		h.report.Faults[kind]++
	}
	h.faults += len(v.struck)
	if v.calm() {
		h.report.Calm++
	}
	h.trace.Write(binary.BigEndian.AppendUint64(nil, v.order))
	if len(h.orders) < mostOrders {
		h.orders[v.order] = struct{}{}
	}
	h.report.Seconds += int64(v.elapsed / time.Second)
	h.noteFailures(v)
	for _, signature := range v.known {
		h.found[signature].Runs++
		h.found[signature].Calm++
	}
	if len(v.unmocked) > 0 {
		h.report.UnmockedRuns++
		h.report.Unmocked = append(h.report.Unmocked, h.unmockedTexts(v.unmocked)...)
		slices.Sort(h.report.Unmocked)
		h.report.Unmocked = slices.Compact(h.report.Unmocked)
	}
	h.countTimeouts(v)
	h.countRepeats(v)
	h.countRetries(v)
	h.countKeys(v)
	h.countUndoings(v)
	h.countLeft(v)
	for ref, n := range v.turns {
		h.turns[ref] = max(h.turns[ref], n)
	}
}

// noteFailures adds the failures of a run to the report, each once.
func (h *searchState) noteFailures(v *verdict) {
	seen := map[string]bool{}
	for _, f := range v.failures {
		if !seen[v.scenario.signature(f)] {
			seen[v.scenario.signature(f)] = true
			h.fail(f, v.scenario, 1, v.calm())
		}
	}
}

// fail records a failure: the first of its signature becomes a finding.
func (h *searchState) fail(f failure, sc Scenario, runs int, calm bool) {
	known := h.found[sc.signature(f)]
	if known == nil {
		known = &Finding{Class: f.Class, Violation: f.Violation, Task: f.task, Companion: sc.Companion, Seen: sc, Small: sc, Tasks: map[string]int{}, signature: sc.signature(f)}
		h.found[sc.signature(f)] = known
		h.report.Findings = append(h.report.Findings, known)
	}
	if known.Runs += runs; calm {
		known.Calm += runs
	}
	known.Tasks[f.task] += runs
}

// finish shrinks and explains the findings, and completes the report.
func (h *searchState) finish(ctx context.Context, err error) (*Report, error) {
	if err != nil && ctx.Err() != nil {
		h.report.Stopped, err = Interrupted, nil
	}
	if r := h.report; r.Plain == r.PlainOf && r.Singles == r.SinglesOf && r.Seeds == r.SeedsOf {
		r.Stopped = "" // the search was complete
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
	rank := []Class{Engine, Expectation, SideEffect, Hang, Race, Late}
	place := func(f *Finding) int {
		if !h.Fails(f) {
			return len(rank)
		}
		return slices.Index(rank, f.Class)
	}
	slices.SortStableFunc(h.report.Findings, func(a, b *Finding) int { return place(a) - place(b) })
	h.report.Hints = h.hints(h.report.Stopped == "" || h.report.Seeds > 0)
	return h.report, nil
}
