package search

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/history"
	"flunq.io/flunq/sim"
)

// checker finds what is wrong with a run: it checks the expectations, compares the ends of
// the executions with the usual outcomes, and attributes a difference to the workflow or
// to the engine.
type checker struct {
	*Search

	outcomes *outcomes
	effects  *usualEffects
	reads    bool        // the document reads the clock
	inOrder  bool        // see inOrder
	handling []*dsl.Task // see handling
}

func newChecker(s *Search, o *outcomes, u *usualEffects) *checker {
	def := s.Config.Definition
	return &checker{Search: s, outcomes: o, effects: u, reads: readsClock(def), inOrder: inOrder(s.Config), handling: handling(def)}
}

// evaluate checks the invariants and the user's expectations, and extracts what the report
// needs.
func (chk *checker) evaluate(t *sim.Trial, sc Scenario) *verdict {
	v := &verdict{scenario: sc.explicit(t.Injected), elapsed: t.Lasted(), trial: t, order: shorten(t.Order)}
	for _, s := range t.Injected {
		v.injected = append(v.injected, s.Kind)
	}
	for _, b := range t.Broken {
		v.failures = append(v.failures, failure{Class: Engine, Violation: b})
	}
	if sc.Companion != "" || sc.intervened() { // expectations apply to the document alone
		return v
	}
	for _, check := range chk.Checks {
		for _, b := range check(t) {
			v.failures = append(v.failures, failure{Class: Expectation, Violation: b})
		}
	}
	v.set, v.fired = timeoutsIn(t.Ends)
	v.repeated, v.retried, v.turns = repetitions(t), retriesIn(t), turnsIn(t.Ends)
	v.rekeyed, v.undo, v.left = t.Rekeyed, wrongUndosIn(t, chk.handling), leftIn(t)
	return v
}

// shorten returns the first eight bytes of a hex-encoded hash, which suffice for counting.
func shorten(order string) uint64 {
	n, _ := strconv.ParseUint(order[:16], 16, 64) // it is hex-encoded
	return n
}

// failuresOf returns all failures of a run.
func (chk *checker) failuresOf(t *sim.Trial, sc Scenario) []failure {
	if sc.Companion != "" {
		return chk.evaluate(t, sc).failures
	}
	return append(chk.evaluate(t, sc).failures, chk.anomalies(t, sc)...)
}

// anomalies returns the failures that the ends of a run's executions reveal.
func (chk *checker) anomalies(t *sim.Trial, sc Scenario) []failure {
	if !sc.intervened() {
		return chk.differing(t)
	}
	// A suspension delays like a fault.
	suspended := *t
	suspended.Injected = slices.Clone(t.Injected)
	if long := t.Operated.Delay; long > 0 {
		suspended.Injected = append(suspended.Injected, sim.InjectedFault{Fault: sim.Fault{Kind: sim.Delay, Amount: long}})
	}
	var out []failure
	for _, end := range t.Ends {
		if end.Child() { // its parent's end is checked
			continue
		}
		if f, ok := chk.unusualEnd(&suspended, end, sc); ok {
			out = append(out, f)
		}
	}
	return out
}

// differing finds the executions of a run whose outcome occurs in no run without faults,
// and attributes each to the workflow or to the engine.
//
// It compares histories. That each history follows from its definition is a separate
// invariant, so a different outcome can only have one of these causes:
//
//   - A timeout fired that fires in no run without faults. This is the workflow's doing if
//     the faults can have delayed the task for that long, and the engine's otherwise.
//   - A timeout did not fire that usually fires, because the task ended before the timeout
//     was processed. Faults can have delayed the timeout too, or moved the clock so far
//     that both were due.
//   - An event from outside did not reach the execution, or another one did, because it
//     came before a task listened. The timeout that fires then is the workflow's, however
//     long it is.
//   - A try gave up because faults or operators used up the time for its retries.
//   - A task failed because the answer to its call was lost after the call was carried out.
//   - The expressions of the document read the clock.
//   - A child of the execution has one of these causes. A child itself may have got another
//     input from its parent, may have been cancelled by it, or may have ended before the
//     cancellation reached it.
//   - Parallel steps ended in an order that occurs in no run with the usual outcome. This is
//     a race of the workflow if the run took no longer than usual; otherwise a fault
//     delayed one of them. The same holds for calls to mocks with state.
//
// Any other different outcome is the engine's failure.
func (chk *checker) differing(t *sim.Trial) []failure {
	var out []failure
	if chk.together() && chk.outcomes.whole[chk.outcomes.runKey(t)] != nil {
		if f, ok := chk.outcomes.overwritten(t); ok {
			return []failure{f}
		}
		return nil
	}
	unusual := false // if true, other executions need not have started
	for _, end := range t.Ends {
		if end.Status != "" && !chk.outcomes.unusualOutcome(end) {
			continue
		}
		unusual = true
		if end.Status == "" {
			continue
		}
		if f, ok := chk.attribute(t, end); ok {
			out = append(out, f)
		}
	}
	if unusual {
		return chk.effects.withEffects(t, out)
	}
	if chk.together() {
		return chk.sharedStateDiffers(t)
	}
	return chk.missing(t)
}

// sharedStateDiffers returns the failure of a run whose executions each ended as usual but
// whose shared state is unusual.
func (chk *checker) sharedStateDiffers(t *sim.Trial) []failure {
	if len(chk.outcomes.whole) == 0 || len(t.Ends) == 0 {
		return nil
	}
	return []failure{failed(Race, RuleOrder, "", "", "the state that the executions share differs")}
}

// missing finds executions that did not start although everything else went as usual.
func (chk *checker) missing(t *sim.Trial) []failure {
	there := map[string]bool{}
	for _, end := range t.Ends {
		there[canonicalID(end.ID)] = true
	}
	var out []failure
	for _, id := range slices.Sorted(maps.Keys(chk.outcomes.known)) {
		runs := 0
		for _, g := range chk.outcomes.known[id] {
			runs += g.outcome.Runs
		}
		if !there[id] && chk.begins(t, id) && runs >= chk.outcomes.runs*max(chk.Config.Executions, 1) {
			out = append(out, failed(Engine, "no execution is lost", id, "", "it was never started"))
		}
	}
	return out
}

// attribute finds the cause of an unusual outcome. An execution that waits forever
// because of the workflow is a Hang.
func (chk *checker) attribute(t *sim.Trial, end sim.End) (failure, bool) {
	usual := chk.outcomes.groupsOf(canonicalID(end.ID))
	if len(usual) == 0 {
		return failure{}, false // a child of an execution that took another path
	}
	got := chk.outcomes.factsOf(t, end)
	f, ok := chk.cause(t, end, usual, got)
	if !ok || f.Class == Engine || f.Class == Hang || end.Status.Ended() || !slices.ContainsFunc(usual, (*outcomeGroup).ended) {
		return f, ok
	}
	if open := chk.openListen(end); open == nil && (f.Rule == RuleOrder || f.Rule == RuleFaster) {
		return failed(Engine, ruleEnds, end.ID, "", "it is %s, and nothing more will happen", end.Status), true
	}
	return chk.hang(end, f.Detail), true
}

// cause is attribute without the distinction of executions that have not ended.
func (chk *checker) cause(t *sim.Trial, end sim.End, usual []*outcomeGroup, got *historyFacts) (failure, bool) {
	fail := func(class Class, rule, task, format string, args ...any) (failure, bool) {
		return failed(class, rule, end.ID, task, format, args...), true
	}
	if chk.causedByParent(t, end, usual, got) {
		return failure{}, false
	}
	if f, ok := chk.endedBeforeCancel(t, end, usual, got); ok {
		return f, true
	}
	if f, ok := chk.ofChild(t, end); ok {
		return f, true
	}
	if f, ok := chk.timedOut(t, end, usual, got); ok {
		return f, true
	}
	if f, ok := chk.gaveUp(t, end, usual, got); ok {
		return f, true
	}
	disturbed := len(t.Injected) > 0
	switch lost := lostAnswer(t, end.ID, got); {
	case lost != "":
		return fail(Late, RuleAnswer, event.ParseRun(lost).Ref, "the call of %s was carried out, but its answer was lost", chk.runName(lost))
	case (disturbed || !end.Status.Ended()) && otherEvents(usual, got):
		task, detail := chk.missed(usual, got)
		return fail(Late, RuleEvent, task, "%s", detail)
	case disturbed && chk.reads:
		return fail(Late, RuleClock, "", "the expressions of the document read the clock")
	}
	if task := unanswered(end, got); disturbed && task != "" && !chk.outcomes.unusualResult(end) {
		return fail(Late, RuleAnswer, event.ParseRun(task).Ref, "the call of %s was carried out, although the task no longer waited for its answer", chk.runName(task))
	}
	if first, second, ok := reordered(usual[0].facts, []*historyFacts{got}); ok {
		class, rule := Race, RuleOrder
		if disturbed && !atOnce(usual[0].facts[0], got, first, second) {
			class, rule = Late, RuleFaster
		}
		return fail(class, rule, chk.fork(end.ID, first, second), "%s came before %s", second.text(), first.text())
	}
	if first, second, ok := chk.newOrder(usual, got); ok && (!disturbed || chk.Config.Mocks.Stateful()) {
		class, rule := Race, RuleOrder
		if disturbed {
			class, rule = Late, RuleFaster
		}
		return fail(class, rule, chk.fork(end.ID, first, second), "%s came instead of %s", second.text(), first.text())
	}
	if !end.Status.Ended() {
		return fail(Engine, ruleEnds, "", "it is %s, and nothing more will happen", end.Status)
	}
	return fail(Engine, ruleSame, "", "it is %s, which nothing in this run explains", end.Status)
}

// lostAnswer returns a task that failed because the answer to its call was lost; "" if
// there is none.
func lostAnswer(t *sim.Trial, id string, got *historyFacts) string {
	for _, s := range t.Injected {
		execution, task, _ := strings.Cut(s.Task, " ")
		if s.Kind == sim.CallLost && execution == id && got.failed[task] {
			return task
		}
	}
	return ""
}

// otherEvents reports whether an execution received a set of events that it receives in
// no run without faults.
func otherEvents(usual []*outcomeGroup, got *historyFacts) bool {
	return !anyRun(usual, func(f *historyFacts) bool { return maps.Equal(f.received, got.received) })
}

// runName returns a task run in words.
func (chk *checker) runName(task string) string {
	run := event.ParseRun(task)
	if run.Ref == "" {
		return "the workflow"
	}
	return history.Run(chk.taskName(run.Ref), run.Iteration, run.Attempt)
}
