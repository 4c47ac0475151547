package search

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/sim"
)

// divergence is an execution of a trial that ended as none does in runs without faults, and those
// runs.
type divergence struct {
	*checker

	trial *sim.Trial
	end   sim.End
	got   *historyFacts   // of its history
	usual []*outcomeGroup // without faults, the most frequent first
}

func (chk *checker) divergence(t *sim.Trial, end sim.End) *divergence {
	return &divergence{chk, t, end, chk.outcomes.factsOf(t, end), chk.outcomes.groupsOf(end.ID)}
}

// attribute finds the cause of an unusual outcome. It returns nil if the cause is another
// execution, which has its own failure. An execution that waits forever because of the workflow is
// a Hang.
func (chk *checker) attribute(t *sim.Trial, end sim.End) *failure {
	d := chk.divergence(t, end)
	if len(d.usual) == 0 || d.causedByParent() { // without usual ends, its parent took another path
		return nil
	}
	f := d.cause()
	if f.Class == Engine || f.Class == Hang || end.Status.Ended() || !slices.ContainsFunc(d.usual, (*outcomeGroup).ended) {
		return f
	}
	if open := chk.openListen(end); open == nil && (f.Rule == RuleOrder || f.Rule == RuleFaster) {
		return d.unending()
	}
	return chk.hang(end, f.Detail)
}

// cause returns the first cause of those that differing lists.
func (d *divergence) cause() *failure {
	for _, cause := range []func() *failure{
		d.endedBeforeCancel, d.ofChild, d.timedOut, d.gaveUp, d.lostAnswer, d.otherEvent, d.readClock, d.unwantedAnswer, d.reordered, d.newOrder,
	} {
		if f := cause(); f != nil {
			return f
		}
	}
	if !d.end.Status.Ended() {
		return d.unending()
	}
	return d.fail(Engine, ruleSame, "", "it is %s, which nothing in this run explains", d.end.Status)
}

func (d *divergence) fail(class Class, rule, task, format string, args ...any) *failure {
	return failed(class, rule, d.end.ID, task, format, args...)
}

func (d *divergence) unending() *failure {
	return d.fail(Engine, ruleEnds, "", "it is %s, and nothing more will happen", d.end.Status)
}

// disturbed reports whether there were faults.
func (d *divergence) disturbed() bool { return len(d.trial.Injected) > 0 }

// causedByParent reports whether a child ended differently because of its parent, which gave
// it a different input or cancelled it.
func (d *divergence) causedByParent() bool {
	if !d.end.Child() {
		return false
	}
	if !anyRun(d.usual, func(f *historyFacts) bool { return f.input == d.got.input }) {
		return true
	}
	parent := d.trial.End(sim.Parent(d.end.ID))
	return (d.end.Status == decide.Cancelled || d.usuallyCancelled()) && parent != nil && d.outcomes.unusualOutcome(*parent)
}

// usuallyCancelled reports whether the execution is cancelled in all runs without faults.
func (d *divergence) usuallyCancelled() bool {
	return !slices.ContainsFunc(d.usual, func(g *outcomeGroup) bool { return g.end.Status != decide.Cancelled })
}

// endedBeforeCancel returns the failure of a child that ended by itself although it is
// cancelled in runs without faults.
func (d *divergence) endedBeforeCancel() *failure {
	if !d.disturbed() || !d.end.Status.Ended() || d.end.Status == decide.Cancelled || !d.usuallyCancelled() {
		return nil
	}
	parent := d.trial.End(sim.Parent(d.end.ID))
	if parent == nil || len(d.end.History) == 0 {
		return nil
	}
	over, ended := factsOf(parent.History).ended[d.got.above] // of the task that started it
	if !ended {
		return nil
	}
	late := d.end.History[len(d.end.History)-1].Time.Sub(over)
	if late <= longestDelay(d.trial) {
		return d.fail(Late, RuleCancel, "", "it ended before its cancellation arrived, and the task that started it no longer waited for it")
	}
	return d.fail(Engine, "a cancelled child ends when its cancellation arrives", "",
		"it ended %v after it was to be cancelled, which the faults do not explain", late)
}

// ofChild returns the failure of an execution that ended differently because one of its
// children did.
func (d *divergence) ofChild() *failure {
	for _, child := range d.trial.Ends {
		if sim.Parent(child.ID) != d.end.ID || !d.outcomes.unusualOutcome(child) {
			continue
		}
		if f := d.attribute(d.trial, child); f != nil {
			if f.Class != Engine {
				f.Execution, f.in = d.end.ID, cmp.Or(f.in, child.ID)
				f.Detail = "in its child " + child.ID + ": " + f.Detail
			}
			return f
		}
	}
	return nil
}

// lostAnswer returns the failure of a task because the answer to its call was lost.
func (d *divergence) lostAnswer() *failure {
	for _, s := range d.trial.Injected {
		execution, task, _ := strings.Cut(s.Task, " ")
		if s.Kind == sim.CallLost && execution == d.end.ID && d.got.failed[task] {
			return d.fail(Late, RuleAnswer, event.ParseRun(task).Ref, "the call of %s was carried out, but its answer was lost", d.runName(task))
		}
	}
	return nil
}

// otherEvent returns the failure of an execution that received other events.
func (d *divergence) otherEvent() *failure {
	if !d.disturbed() && d.end.Status.Ended() || !otherEvents(d.usual, d.got) {
		return nil
	}
	task, detail := d.missed(d.usual, d.got)
	return d.fail(Late, RuleEvent, task, "%s", detail)
}

// otherEvents reports whether an execution received a set of events that it receives in
// no run without faults.
func otherEvents(usual []*outcomeGroup, got *historyFacts) bool {
	return !anyRun(usual, func(f *historyFacts) bool { return maps.Equal(f.received, got.received) })
}

// otherEventsBelow reports whether the execution, or one below it, received other events than in
// runs without faults.
func (d *divergence) otherEventsBelow() bool {
	return otherEvents(d.usual, d.got) || d.anyChild(func(child *divergence) bool { return len(child.usual) > 0 && child.otherEventsBelow() })
}

func (d *divergence) anyChild(is func(*divergence) bool) bool {
	return slices.ContainsFunc(d.trial.Ends, func(end sim.End) bool {
		return sim.Parent(end.ID) == d.end.ID && is(d.divergence(d.trial, end))
	})
}

// mayWait reports whether the execution may wait forever: it does so without faults, it received
// other events, it has an open listen task, or one of its children may.
func (d *divergence) mayWait() bool {
	return len(d.usual) > 0 && otherEvents(d.usual, d.got) || d.openListen(d.end) != nil ||
		slices.ContainsFunc(d.usual, func(g *outcomeGroup) bool { return !g.ended() }) ||
		d.anyChild(func(child *divergence) bool {
			return !child.end.Status.Ended() && len(child.end.History) > 0 && child.mayWait()
		})
}

func (d *divergence) readClock() *failure {
	if !d.disturbed() || !d.reads {
		return nil
	}
	return d.fail(Late, RuleClock, "", "the expressions of the document read the clock")
}

// unwantedAnswer returns the failure of an execution that differs only in a call that was carried
// out although its task did not succeed.
func (d *divergence) unwantedAnswer() *failure {
	task := unanswered(d.end, d.got)
	if !d.disturbed() || task == "" || d.outcomes.unusualResult(d.end) {
		return nil
	}
	return d.fail(Late, RuleAnswer, event.ParseRun(task).Ref, "the call of %s was carried out, although the task no longer waited for its answer", d.runName(task))
}

// reordered returns the failure of an execution whose steps or calls came in another order than in
// all runs with the usual outcome.
func (d *divergence) reordered() *failure {
	s := reordered(d.usual[0].facts, []*historyFacts{d.got})
	if s == nil {
		return nil
	}
	class, rule := Race, RuleOrder
	if d.disturbed() && !atOnce(d.usual[0].facts[0], d.got, s) {
		class, rule = Late, RuleFaster
	}
	return d.fail(class, rule, d.fork(d.end.ID, s), "%s came before %s", s.second.text(), s.first.text())
}

// newOrder returns the failure of an execution whose order of steps occurs in no run without
// faults. Calls are compared first, if their order matters.
func (d *divergence) newOrder() *failure {
	if d.inOrder || d.disturbed() && !d.Config.Mocks.Stateful() || anyRun(d.usual, func(f *historyFacts) bool { return f.sameOrder(d.got) }) {
		return nil
	}
	var s *swap
	usual := d.usual[0].facts[0]
	if usual.calls != nil && d.got.calls != nil {
		s = diverged(usual.calls, d.got.calls)
	}
	if s == nil {
		s = diverged(usual, d.got)
	}
	if s == nil {
		return nil
	}
	class, rule := Race, RuleOrder
	if d.disturbed() {
		class, rule = Late, RuleFaster
	}
	return d.fail(class, rule, d.fork(d.end.ID, s), "%s came instead of %s", s.second.text(), s.first.text())
}
