package search

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/sim"
)

// Class says whose failure a finding is.
type Class string

// The classes of findings.
const (
	Engine      Class = "engine"      // flunq violated an invariant
	Expectation Class = "expectation" // an expectation of the user was not met
	Race        Class = "race"        // the outcome of the workflow depends on which of its steps comes first
	Hang        Class = "hang"        // an execution waits for ever that ends in other runs
	SideEffect  Class = "effect"      // a call is carried out twice, or is never undone
	Late        Class = "late"        // a note: the outcome depends on delays, or on a lost answer
)

// The rules about outcomes: those of flunq, and those of workflows.
const (
	ruleSame = "the outcome is that of a run without faults"
	ruleEnds = "every execution ends"

	RuleOrder       = "the outcome depends on which step comes first"
	RuleHang        = "an execution waits for ever"
	RuleTwice       = "a call is carried out twice"
	RuleOverwritten = "an update is overwritten by one that does not know of it"
	RuleUndone      = "a call is carried out and never taken back"
	RuleTimeout     = "after a delay a timeout decides the outcome"
	RuleEvent       = "after a delay an event is missed"
	RuleAnswer      = "the answer of a call is lost after the call was carried out"
	RuleCancel      = "after a delay a child ends before it is cancelled"
	RuleFaster      = "after a delay another step comes first"
	RuleClock       = "the outcome depends on the clock"
)

// Finding is a kind of failure, with the smallest run found that shows it.
type Finding struct {
	Class Class
	sim.Violation
	Companion string // the simulator's own workflow that failed; "" for the document

	Task     string          // the task concerned, or two tasks separated by a space, or ""
	Document *dsl.Definition // the document that contains the tasks
	Runs     int             // number of runs with this failure
	Calm     int             // number of these runs without faults
	Tasks    map[string]int  // number of these runs by task
	Seen     Scenario
	Small    Scenario
	Tried    int  // number of runs needed to shrink it
	Again    bool // the smaller run was seen to fail in the same way
	Timeline []TimelineEntry
	Orders   *Orders   // of a race
	Differ   []Unequal // differences from the usual outcome, including mock state
	Calls    []Unlike  // calls whose number differs from the usual outcome
	Status   [2]string // usual and in this run

	signature string
}

// failure is what is wrong with one run.
type failure struct {
	Class Class
	sim.Violation
	task string
	in   string // the execution that contains the task; "" means Execution
}

// signature is equal for failures that belong to one finding.
func (f failure) signature() string {
	if f.Class == Late {
		return string(f.Class) + " " + f.Rule
	}
	return string(f.Class) + " " + f.Rule + " " + f.task
}

// differing finds the executions of a run whose outcome occurs in no run without faults,
// and attributes each to the workflow or to the engine.
//
// It compares histories. Each history follows from its definition, which is a separate
// invariant. So another outcome can only have one of these causes:
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
// An outcome that has none of these causes is the engine's failure.
func (h *searchState) differing(t *sim.Trial) []failure {
	var out []failure
	if h.together() && h.whole[h.runKey(t)] != nil {
		if f, ok := h.overwritten(t); ok {
			return []failure{f}
		}
		return nil
	}
	unusual := false // then other executions need not have started
	for _, end := range t.Ends {
		if end.Status != "" && !h.unusualOutcome(end) {
			continue
		}
		unusual = true
		if end.Status == "" {
			continue
		}
		if f, ok := h.attribute(t, end); ok {
			out = append(out, f)
		}
	}
	if unusual {
		return h.withEffects(t, out)
	}
	if h.together() {
		return h.sharedStateDiffers(t)
	}
	return h.missing(t)
}

// unusualOutcome reports whether an execution ended as none does in runs without faults.
func (h *searchState) unusualOutcome(end sim.End) bool {
	return end.Status != "" && h.known[sibling(end.ID)][h.suppressed.key(end)] == nil
}

// unusualResult is like odd but ignores external effects.
func (h *searchState) unusualResult(end sim.End) bool {
	result := h.suppressed.keysOf(end).result
	for _, c := range h.known[sibling(end.ID)] {
		if c.keys.result == result {
			return false
		}
	}
	return end.Status != ""
}

// missing finds executions that did not start although everything else went as usual.
func (h *searchState) missing(t *sim.Trial) []failure {
	there := map[string]bool{}
	for _, end := range t.Ends {
		there[sibling(end.ID)] = true
	}
	var out []failure
	for _, id := range slices.Sorted(maps.Keys(h.known)) {
		runs := 0
		for _, c := range h.known[id] {
			runs += c.outcome.Runs
		}
		if !there[id] && h.begins(t, id) && runs >= h.report.Plain*max(h.Config.Executions, 1) {
			out = append(out, failure{Class: Engine, Violation: sim.Violation{Rule: "no execution is lost", Execution: id, Detail: "nobody has started it"}})
		}
	}
	return out
}

// attribute finds the cause of an unusual outcome. An execution that waits for ever
// because of the workflow is a Hang.
func (h *searchState) attribute(t *sim.Trial, end sim.End) (failure, bool) {
	usual := h.classes(sibling(end.ID))
	if len(usual) == 0 {
		return failure{}, false // a child of an execution that took another path
	}
	got := h.factsOf(t, end)
	f, ok := h.cause(t, end, usual, got)
	if !ok || f.Class == Engine || f.Class == Hang || end.Status.Ended() || !slices.ContainsFunc(usual, (*class).ended) {
		return f, ok
	}
	if open := h.openListen(end); open == nil && (f.Rule == RuleOrder || f.Rule == RuleFaster) {
		return failure{Class: Engine, Violation: sim.Violation{Rule: ruleEnds, Execution: end.ID, Detail: fmt.Sprintf("it is %s, and nothing happens any more", end.Status)}}, true
	}
	return h.hang(end, f.Detail), true
}

// cause is like attribute, but does not distinguish executions that have not ended.
func (h *searchState) cause(t *sim.Trial, end sim.End, usual []*class, got *facts) (failure, bool) {
	fail := func(class Class, rule, task, format string, args ...any) (failure, bool) {
		return failure{Class: class, Violation: sim.Violation{Rule: rule, Execution: end.ID, Detail: fmt.Sprintf(format, args...)}, task: task}, true
	}
	if h.causedByParent(t, end, usual, got) {
		return failure{}, false
	}
	if f, ok := h.endedBeforeCancel(t, end, usual, got); ok {
		return f, true
	}
	if f, ok := h.ofChild(t, end); ok {
		return f, true
	}
	if f, ok := h.timedOut(t, end, usual, got); ok {
		return f, true
	}
	if f, ok := h.gaveUp(t, end, usual, got); ok {
		return f, true
	}
	disturbed := len(t.Struck) > 0
	switch lost := lostAnswer(t, end.ID, got); {
	case lost != "":
		return fail(Late, RuleAnswer, event.ParseRun(lost).Ref, "the call of %s was carried out, and its answer lost", h.runName(lost))
	case (disturbed || !end.Status.Ended()) && otherEvents(usual, got):
		task, detail := h.missed(usual, got)
		return fail(Late, RuleEvent, task, "%s", detail)
	case disturbed && h.reads:
		return fail(Late, RuleClock, "", "the expressions of the document ask for the time")
	}
	if task := unheard(end, got); disturbed && task != "" && !h.unusualResult(end) {
		return fail(Late, RuleAnswer, event.ParseRun(task).Ref, "the call of %s was carried out, though the task did not wait for its answer any more", h.runName(task))
	}
	if first, second, ok := reordered(usual[0].facts, []*facts{got}); ok {
		class, rule := Race, RuleOrder
		if disturbed && !atOnce(usual[0].facts[0], got, first, second) {
			class, rule = Late, RuleFaster
		}
		return fail(class, rule, h.fork(end.ID, first, second), "%s came before %s", second.text(), first.text())
	}
	if first, second, ok := h.newOrder(usual, got); ok && (!disturbed || h.Config.Mocks.Stateful()) {
		class, rule := Race, RuleOrder
		if disturbed {
			class, rule = Late, RuleFaster
		}
		return fail(class, rule, h.fork(end.ID, first, second), "%s came instead of %s", second.text(), first.text())
	}
	if !end.Status.Ended() {
		return fail(Engine, ruleEnds, "", "it is %s, and nothing happens any more", end.Status)
	}
	return fail(Engine, ruleSame, "", "it is %s, which nothing that happened explains", end.Status)
}

// factsOf returns the facts of an execution, including its calls if their order matters.
func (h *searchState) factsOf(t *sim.Trial, end sim.End) *facts {
	f := factsOf(end.History)
	if h.Config.Mocks.Stateful() {
		f.calls = h.callsOf(t, end)
	}
	return f
}

// lostAnswer returns a task that failed because the answer to its call was lost; "" if
// there is none.
func lostAnswer(t *sim.Trial, id string, got *facts) string {
	for _, s := range t.Struck {
		execution, task, _ := strings.Cut(s.Task, " ")
		if s.Kind == sim.CallLost && execution == id && got.failed[task] {
			return task
		}
	}
	return ""
}

// otherEvents reports whether an execution received a set of events that it receives in
// no run without faults.
func otherEvents(usual []*class, got *facts) bool {
	for _, c := range usual {
		for _, f := range c.facts {
			if len(f.received) == len(got.received) && !slices.ContainsFunc(slices.Sorted(maps.Keys(got.received)), func(id string) bool { return !f.received[id] }) {
				return false
			}
		}
	}
	return true
}
