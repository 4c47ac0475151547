package search

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/history"
	"flunq.io/flunq/sim"
	"flunq.io/flunq/sim/invariant"
)

// checker finds the failures of a run: it checks the expectations, compares the outcomes of the
// executions with the usual ones, and attributes a difference to the workflow or to the engine.
type checker struct {
	*Search

	outcomes *outcomes
	effects  *usualEffects
	reads    bool // the document reads the clock
	inOrder  bool // see inOrder
}

func newChecker(s *Search, o *outcomes, u *usualEffects) *checker {
	return &checker{Search: s, outcomes: o, effects: u, reads: readsClock(s.Config.Definition), inOrder: inOrder(s.Config)}
}

// violations returns the violated invariants and expectations of a run.
func (chk *checker) violations(t *sim.Trial, sc Scenario) []failure {
	var out []failure
	for _, b := range t.Broken {
		out = append(out, failure{Class: Engine, Violation: b})
	}
	if sc.Companion != "" || sc.intervened() { // expectations apply to the document alone
		return out
	}
	for _, check := range chk.Checks {
		for _, b := range check(t) {
			out = append(out, failure{Class: Expectation, Violation: b})
		}
	}
	return out
}

// failuresOf returns all failures of a run.
func (chk *checker) failuresOf(t *sim.Trial, sc Scenario) []failure {
	found := chk.violations(t, sc)
	if sc.Companion == "" {
		found = append(found, chk.anomalies(t, sc)...)
	}
	return found
}

// anomalies returns the failures revealed by the outcomes of a run's executions.
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
		if f := chk.unusualEnd(&suspended, end, sc); f != nil {
			out = append(out, *f)
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
//     arrived before a task listened. The timeout that fires then is the workflow's, however
//     long it is.
//   - A try gave up because faults or operators used up the time for its retries.
//   - A task failed because the response to its call was lost after the call was carried out.
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
	if chk.together() && chk.outcomes.known[wholeRun][chk.outcomes.runKey(t)] != nil {
		if f := chk.outcomes.overwritten(t); f != nil {
			return []failure{*f}
		}
		return nil
	}
	var out []failure
	unusual := false // if true, other executions need not have started
	for _, end := range t.Ends {
		if end.Status != "" && !chk.outcomes.unusualOutcome(end) {
			continue
		}
		unusual = true
		if end.Status == "" {
			continue
		}
		if f := chk.attribute(t, end); f != nil {
			out = append(out, *f)
		}
	}
	switch {
	case unusual:
		return chk.effects.withEffects(t, out)
	case !chk.together():
		return chk.missing(t)
	case len(chk.outcomes.known[wholeRun]) > 0 && len(t.Ends) > 0: // each ended as usual
		return []failure{*failed(Race, RuleOrder, "", "", "the state that the executions share differs")}
	default:
		return nil
	}
}

// missing finds executions that did not start although everything else was as usual.
func (chk *checker) missing(t *sim.Trial) []failure {
	there := map[string]bool{}
	for _, end := range t.Ends {
		there[canonicalID(end.ID)] = true
	}
	var out []failure
	for _, id := range slices.Sorted(maps.Keys(chk.outcomes.known)) {
		runs := 0
		for _, g := range chk.outcomes.known[id] {
			runs += g.runs
		}
		if !there[id] && chk.begins(t, id) && runs >= chk.outcomes.runs*max(chk.Config.Executions, 1) {
			out = append(out, *failed(Engine, "no execution is lost", id, "", "it was never started"))
		}
	}
	return out
}

// begins reports whether an execution should exist. It need not if its parent ended before starting
// it, which may be usual.
func (chk *checker) begins(t *sim.Trial, id string) bool {
	parent := sim.Parent(id)
	if parent == "" {
		return true
	}
	number, _ := strconv.Atoi(id[len(parent)+1:]) // the engine writes a number there
	return slices.ContainsFunc(t.Ends, func(end sim.End) bool {
		return canonicalID(end.ID) == parent && runsIn(end.History) >= number
	})
}

// runsIn returns how many tasks of a history run a child workflow.
func runsIn(past []event.Event) (n int) {
	for _, e := range past {
		if e.Type == event.TaskRequested && bytes.Contains(e.Data, []byte(`"task_type":"run"`)) {
			n++
		}
	}
	return n
}

// unusualEnd returns the failure of an execution in a run with operator actions; nil if there is none.
func (chk *checker) unusualEnd(t *sim.Trial, end sim.End, sc Scenario) *failure {
	fail := func(rule, format string, args ...any) *failure {
		return failed(Engine, rule, end.ID, "", format, args...)
	}
	at, cancelled := cancelledAt(sc, end)
	switch d := chk.divergence(t, end); {
	case end.Status == "" || end.Status == sim.Removed || len(d.usual) == 0 || len(end.History) == 0:
		return nil
	case end.Status == decide.Cancelled && cancelled:
		return nil
	case !end.Status.Ended() && !d.mayWait():
		return fail(ruleEnds, "it is %s, and nothing more will happen", end.Status)
	case cancelled && (!end.Status.Ended() || at.Add(longestDelay(t)+time.Second).Before(end.History[len(end.History)-1].Time)):
		return fail("a cancelled execution ends", "it was cancelled %v after its start, but is %s", at.Sub(end.History[0].Time), end.Status)
	case chk.altered(t, end, sc) || !chk.outcomes.unusualResult(end):
		return nil
	}
	if f := chk.attribute(t, end); f != nil && f.Class == Engine {
		return f
	}
	return nil
}

// cancelledAt returns when an operator cancelled an execution.
func cancelledAt(sc Scenario, end sim.End) (at time.Time, ok bool) {
	if len(end.History) == 0 {
		return at, false
	}
	for _, a := range sc.Acts {
		if a.What == sim.Cancel && a.Execution == end.ID {
			return end.History[0].Time.Add(a.After), true
		}
	}
	return at, false
}

// altered reports whether an execution may end differently because of operator actions or
// poison messages that concern it or its children.
func (chk *checker) altered(t *sim.Trial, end sim.End, sc Scenario) bool {
	touched := func(id string) bool { return id == end.ID || strings.HasPrefix(id, end.ID+".") }
	if chk.together() {
		return true // the executions see each other's effects
	}
	o := &t.Operated
	if o.AlsoDeadLettered || o.Poisoned == "" && sc.Poison > 0 || touched(o.Poisoned) || o.Retried[end.ID] > 0 {
		return true
	}
	return slices.ContainsFunc(sc.Acts, func(a sim.Act) bool {
		return touched(a.Execution) && (a.Execution != end.ID || a.What != sim.Suspend && a.What != sim.Resume && a.What != sim.Migrate)
	})
}

// runName describes a task run.
func (chk *checker) runName(task string) string {
	run := event.ParseRun(task)
	if run.Ref == "" {
		return "the workflow"
	}
	return history.Run(chk.taskName(run.Ref), run.Iteration, run.Attempt)
}

// hang returns the failure of an execution that waits forever, although it ends in other runs
// or should end.
func (chk *checker) hang(end sim.End, why string) *failure {
	task, detail := "", fmt.Sprintf("it is %s, and nothing more will happen", end.Status)
	if open := chk.openListen(end); open != nil {
		task, detail = open.Ref, open.Name+" listens forever"
		if types := invariant.EventTypes(open.Listen.To.Filters...); len(types) > 0 {
			detail = open.Name + " listens for " + strings.Join(types, ", ") + " forever"
		}
	}
	if why != "" {
		detail += ": " + why
	}
	return failed(Hang, RuleHang, end.ID, task, "%s", detail)
}

// hangs returns the failure of the runs without faults that wait forever while others
// end.
func (chk *checker) hangs(id string, usual, g *outcomeGroup) *failure {
	end := g.end
	end.ID = id
	why := ""
	if otherEvents([]*outcomeGroup{usual}, g.facts[0]) {
		_, why = chk.missed([]*outcomeGroup{usual}, g.facts[0])
	}
	return chk.hang(end, why)
}

// openListen returns the last open listen task of an execution; nil if there is none.
func (chk *checker) openListen(end sim.End) *dsl.Task {
	def := chk.definitionOf(end)
	var open []string
	for _, e := range end.History {
		switch e.Type { //nolint:exhaustive // the others neither begin nor end a task
		case event.TaskRequested:
			open = append(open, e.Task)
		case event.TaskCompleted:
			open = slices.DeleteFunc(open, func(run string) bool { return run == e.Task })
		}
	}
	for _, run := range slices.Backward(open) {
		if t := def.Task(event.ParseRun(run).Ref); t != nil && t.Kind == dsl.Listen {
			return t
		}
	}
	return nil
}

// missed returns the event that an execution missed although it receives it in other
// runs, and the task that listens for it. If there is none, it says that other events
// were received.
func (chk *checker) missed(usual []*outcomeGroup, got *historyFacts) (task, detail string) {
	usually := map[string]bool{}
	for _, g := range usual {
		for _, f := range g.facts {
			maps.Copy(usually, f.received)
		}
	}
	if chk.Config.Mocks != nil {
		for i, m := range chk.Config.Mocks.Events {
			e := m.Event(i, got.start)
			if id := e.Source + " " + e.ID; !usually[id] || got.received[id] {
				continue
			}
			listen := chk.listenFor(string(e.Type))
			if listen == nil {
				return "", fmt.Sprintf("%s arrived %s after the start, and no task listened for it", e.Type, history.Duration(m.After))
			}
			return listen.Ref, missedBy(listen, string(e.Type), m.After, got)
		}
	}
	return "", "it received other events than in runs without faults"
}

// missedBy describes how a task missed an event.
func missedBy(listen *dsl.Task, typ string, after time.Duration, got *historyFacts) string {
	came := fmt.Sprintf("%s arrived %s after the start", typ, history.Duration(after))
	for run, begun := range got.begun {
		if event.ParseRun(run).Ref != listen.Ref {
			continue
		}
		if late := begun.Sub(got.start) - after; late > 0 {
			return fmt.Sprintf("%s, %s before %s began to listen", came, history.Duration(late), listen.Name)
		}
		if ended, ok := got.ended[run]; ok && ended.Sub(got.start) <= after {
			return fmt.Sprintf("%s, when %s no longer listened", came, listen.Name)
		}
		// In the history a task begins at the time of its cause, not when a worker committed
		// it.
		return fmt.Sprintf("%s, before %s listened: a fault delayed its start", came, listen.Name)
	}
	return fmt.Sprintf("%s, and %s had not begun to listen by then", came, listen.Name)
}
