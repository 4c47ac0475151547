package search

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/sim"
	"flunq.io/flunq/sim/invariant"
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

// cause returns the first cause of those that the comment of differing lists.
func (d *divergence) cause() *failure {
	for _, cause := range []func() *failure{
		d.endedBeforeCancel, d.ofChild, d.timedOut, d.gaveUp, d.lostResponse, d.otherEvent, d.readClock, d.unwantedAnswer, d.reordered, d.newOrder,
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

// lostResponse returns the failure of a task because the response to its call was lost.
func (d *divergence) lostResponse() *failure {
	for _, s := range d.trial.Injected {
		execution, task, _ := strings.Cut(s.Task, " ")
		if s.Kind == sim.CallLost && execution == d.end.ID && d.got.failed[task] {
			return d.fail(Late, RuleResponse, event.ParseRun(task).Ref, "the call of %s was carried out, but its response was lost", d.runName(task))
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
	return d.fail(Late, RuleResponse, event.ParseRun(task).Ref, "the call of %s was carried out, although the task no longer waited for its response", d.runName(task))
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

// timedOut returns the failure of an execution that ended differently because a timeout
// fired that fires in no run without faults, or did not fire although it does in those.
func (d *divergence) timedOut() *failure {
	if run, long, ok := d.newTimeout(); ok {
		task, name := event.ParseRun(run).Ref, d.runName(run)
		if long <= d.longestWithFaults(run) {
			return d.fail(Late, RuleTimeout, task, "the timeout of %s fired first", name)
		}
		// That an event reaches each task that listens for it the whole time is an invariant of its own.
		if d.disturbed() && d.otherEventsBelow() {
			return d.fail(Late, RuleEvent, task, "an event arrived while no task listened for it, so the timeout of %s fired", name)
		}
		return d.fail(Engine, "a timeout fires only if its task takes that long", task,
			"that of %s fired after %v, which the faults do not explain", name, long)
	}
	run, late, ok := d.cancelledTimeout()
	if !ok || !d.disturbed() {
		return nil
	}
	task, name := event.ParseRun(run).Ref, d.runName(run)
	if late <= longestDelay(d.trial) {
		return d.fail(Late, RuleTimeout, task, "the timeout of %s was due, but %s ended first", name, name)
	}
	return d.fail(Engine, "a timeout fires when it is due", task,
		"that of %s was cancelled %v after it was due, which the faults do not explain", name, late)
}

// newTimeout returns a timeout that fires in no run without faults, and its duration.
func (d *divergence) newTimeout() (task string, long time.Duration, ok bool) {
	for _, task := range slices.Sorted(maps.Keys(d.got.fired)) {
		if !anyRun(d.usual, func(f *historyFacts) bool { _, came := f.fired[task]; return came }) {
			return task, d.got.fired[task], true
		}
	}
	return "", 0, false
}

// cancelledTimeout returns a timeout that fires in a run without faults but was cancelled
// here, and how long after it was due. If Redis could not be asked for the time, the executor
// may have dated a result too early.
func (d *divergence) cancelledTimeout() (task string, late time.Duration, ok bool) {
	undated := slices.ContainsFunc(d.trial.Injected, func(s sim.InjectedFault) bool {
		return s.Kind == sim.Outage || (s.Kind == sim.DropRequest || s.Kind == sim.DropReply) && strings.HasPrefix(s.Service, "executor")
	})
	for _, task := range slices.Sorted(maps.Keys(d.got.cancelled)) {
		if d.got.cancelled[task] < 0 && !undated && !repeated(d.trial, task) {
			continue
		}
		if anyRun(d.usual, func(f *historyFacts) bool { _, came := f.fired[task]; return came }) {
			return task, d.got.cancelled[task], true
		}
	}
	return "", 0, false
}

// repeated reports whether the call of a task was repeated. If the first call was slow, the
// repeated one is answered immediately.
func repeated(t *sim.Trial, task string) bool {
	for call, n := range t.CallCounts {
		if n > 1 && call.Task == task {
			return true
		}
	}
	return false
}

// longestDelay returns how long the faults of a run can have delayed something.
func longestDelay(t *sim.Trial) (long time.Duration) {
	for _, s := range t.Injected {
		long += max(s.Cost(), sim.Recovery) // work in progress may have to start over
	}
	return long
}

// longestWithFaults returns how long a task can have taken because of the faults of a run.
func (d *divergence) longestWithFaults(task string) time.Duration {
	longest := time.Duration(0)
	for _, g := range d.usual {
		for _, f := range g.facts {
			longest = max(longest, f.lasted(task))
		}
	}
	return longest + longestDelay(d.trial)
}

// gaveUp returns the failure of an execution in which a try gave up because the next
// attempt would have come after limit.duration, as it does in no run without faults.
func (d *divergence) gaveUp() *failure {
	def := d.definitionOf(d.end)
	for _, run := range slices.Sorted(maps.Keys(d.got.givenUp)) {
		if anyRun(d.usual, func(f *historyFacts) bool { _, too := f.givenUp[run]; return too }) {
			continue
		}
		task := def.Task(event.ParseRun(run).Ref)
		if task == nil || task.Try == nil || task.Try.Catch.Retry == nil {
			continue
		}
		left := d.got.givenUp[run]
		_, next, known := invariant.RetryDelay(task.Try.Catch.Retry, d.got.retries[run]+1, d.got.ended[run])
		if known && next < left.remaining || left.after > d.longestWithFaults(run) {
			continue
		}
		return d.fail(Late, RuleTimeout, event.ParseRun(run).Ref,
			"%s was not retried %v after it began: its limit.duration was nearly over", d.runName(run), left.after)
	}
	return nil
}
