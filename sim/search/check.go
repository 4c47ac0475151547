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

// Class says whose failure something is.
type Class string

// The classes of findings.
const (
	Engine      Class = "engine"      // flunq broke a promise
	Expectation Class = "expectation" // what the user expects did not come
	Race        Class = "race"        // the workflow's outcome depends on which of its steps comes first
	Hang        Class = "hang"        // an execution waits for ever that ends in other runs
	SideEffect  Class = "effect"      // a call is carried out twice, or is never taken back
	Tardy       Class = "late"        // a note: the outcome depends on delays, or on an answer that was lost
)

// The rules about outcomes: what flunq promises, and what workflows come to.
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

// Finding is a way in which runs fail, and the smallest run that was found to do so.
type Finding struct {
	Class Class
	sim.Violation
	Companion string // the workflow of the simulator's own that it is about; "" for the document

	Task     string          // that it is about, if there is one, or two tasks with a space between them
	Document *dsl.Definition // in which they stand
	Runs     int             // that failed so
	Calm     int             // of these, the ones in which no fault struck
	Tasks    map[string]int  // likewise, by task
	Seen     Scenario
	Small    Scenario
	Tried    int  // runs that it took to make it smaller
	Again    bool // the smaller run was seen to fail in the same way
	Story    []Scene
	Orders   *Orders   // of a race
	Differ   []Unequal // of the usual outcome and this one, and of what mocks keep
	Calls    []Unlike  // that were carried out usually and in this run
	Status   [2]string // likewise

	signature string
}

// failure is what is wrong with one run.
type failure struct {
	Class Class
	sim.Violation
	task string
	in   string // the execution whose task it is; "" is Execution
}

// signature is the same for failures that are one finding.
func (f failure) signature() string {
	if f.Class == Tardy {
		return string(f.Class) + " " + f.Rule
	}
	return string(f.Class) + " " + f.Rule + " " + f.task
}

// differing finds the executions of a run that ended as none does in which
// nothing goes wrong, and says whose doing it is.
//
// It is judged by the histories. Each of them follows from its definition (that is
// a promise of its own), so that another outcome can only come of other things
// that happened to the execution, or of another order of them:
//
//   - a timeout came that comes in no run without faults. It is the workflow's if
//     the faults can have held up what it watches for that long, and the engine's
//     if they cannot;
//   - or one did not come that comes in the others: by the time that it was due, what
//     it watches had ended. Faults can have held it up likewise, or put the clock
//     ahead so far that both were due;
//   - an event from outside did not reach it, or another one did: it came before
//     anybody listened. The timeout that comes then is the workflow's, however long;
//   - a try was given up because its retries have run out of their time, which faults,
//     or operators, have taken from it;
//   - a task failed whose call was carried out, but whose answer was lost;
//   - its expressions ask for the time;
//   - the same is true of a child that it waits for; a child for its part was given
//     another input, or cancelled, by one that has gone another way, or has ended
//     before the word reached it that it was to be cancelled;
//   - things that run side by side ended in an order in which they end in no run
//     with the usual outcome: a race of the workflow, if it took no longer than
//     usual, else a matter of which of the two was held up. So it is with calls to
//     mocks that answer by what they were asked before.
//
// What none of these explains is the engine's failure.
func (h *hunt) differing(t *sim.Trial) []failure {
	var out []failure
	if h.together() && h.whole[h.runKey(t)] != nil {
		if f, ok := h.overwritten(t); ok {
			return []failure{f}
		}
		return nil
	}
	unusual := false // whoever ended in another way need not have started others
	for _, end := range t.Ends {
		if end.Status != "" && !h.odd(end) {
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
		return h.weighed(t, out)
	}
	if h.together() {
		return h.apart(t)
	}
	return h.missing(t)
}

// odd reports whether an execution has ended as none does in which nothing goes wrong.
func (h *hunt) odd(end sim.End) bool {
	return end.Status != "" && h.known[sibling(end.ID)][h.suppressed.key(end)] == nil
}

// unusualResult is odd, but for what the execution did to the world.
func (h *hunt) unusualResult(end sim.End) bool {
	result := h.suppressed.keysOf(end).result
	for _, c := range h.known[sibling(end.ID)] {
		if c.keys.result == result {
			return false
		}
	}
	return end.Status != ""
}

// missing finds executions that nobody has started although all else went as usual.
func (h *hunt) missing(t *sim.Trial) []failure {
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

// attribute says why an execution ended in another way. One that waits for ever for a
// reason that lies in the workflow hangs.
func (h *hunt) attribute(t *sim.Trial, end sim.End) (failure, bool) {
	usual := h.classes(sibling(end.ID))
	if len(usual) == 0 {
		return failure{}, false // a child of an execution that has gone another way
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

// cause is what attribute says, whether or not the execution ended.
func (h *hunt) cause(t *sim.Trial, end sim.End, usual []*class, got *facts) (failure, bool) {
	fail := func(class Class, rule, task, format string, args ...any) (failure, bool) {
		return failure{Class: class, Violation: sim.Violation{Rule: rule, Execution: end.ID, Detail: fmt.Sprintf(format, args...)}, task: task}, true
	}
	if h.led(t, end, usual, got) {
		return failure{}, false
	}
	if f, ok := h.outlived(t, end, usual, got); ok {
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
		return fail(Tardy, RuleAnswer, event.ParseRun(lost).Ref, "the call of %s was carried out, and its answer lost", h.runName(lost))
	case (disturbed || !end.Status.Ended()) && otherEvents(usual, got):
		task, detail := h.missed(usual, got)
		return fail(Tardy, RuleEvent, task, "%s", detail)
	case disturbed && h.reads:
		return fail(Tardy, RuleClock, "", "the expressions of the document ask for the time")
	}
	if task := unheard(end, got); disturbed && task != "" && !h.unusualResult(end) {
		return fail(Tardy, RuleAnswer, event.ParseRun(task).Ref, "the call of %s was carried out, though the task did not wait for its answer any more", h.runName(task))
	}
	if first, second, ok := reordered(usual[0].facts, []*facts{got}); ok {
		class, rule := Race, RuleOrder
		if disturbed && !atOnce(usual[0].facts[0], got, first, second) {
			class, rule = Tardy, RuleFaster
		}
		return fail(class, rule, h.fork(end.ID, first, second), "%s came before %s", second.words(), first.words())
	}
	if first, second, ok := h.newOrder(usual, got); ok && (!disturbed || h.Config.Mocks.Stateful()) {
		class, rule := Race, RuleOrder
		if disturbed {
			class, rule = Tardy, RuleFaster
		}
		return fail(class, rule, h.fork(end.ID, first, second), "%s came instead of %s", second.words(), first.words())
	}
	if !end.Status.Ended() {
		return fail(Engine, ruleEnds, "", "it is %s, and nothing happens any more", end.Status)
	}
	return fail(Engine, ruleSame, "", "it is %s, which nothing that happened explains", end.Status)
}

// factsOf are those of the end of an execution, with its calls if their order matters.
func (h *hunt) factsOf(t *sim.Trial, end sim.End) *facts {
	f := factsOf(end.History)
	if h.Config.Mocks.Stateful() {
		f.calls = h.callsOf(t, end)
	}
	return f
}

// lostAnswer is a task that failed because the answer to its call was lost; "" if
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

// otherEvents reports whether the events that reached an execution are those of
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
