package search

import (
	"maps"
	"slices"
	"strings"
	"time"

	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/sim"
	"flunq.io/flunq/sim/invariant"
)

// timedOut returns the failure of an execution that ended differently because a timeout
// fired that fires in no run without faults, or did not fire although it does in those.
func (chk *checker) timedOut(t *sim.Trial, end sim.End, usual []*outcomeGroup, got *historyFacts) (failure, bool) {
	fail := func(class Class, rule, task, format string, args ...any) (failure, bool) {
		return failed(class, rule, end.ID, event.ParseRun(task).Ref, format, args...), true
	}
	if task, long, ok := newTimeout(usual, got); ok {
		if long <= chk.longestWithFaults(t, usual, task) {
			return fail(Late, RuleTimeout, task, "the timeout of %s fired first", chk.runName(task))
		}
		// That an event reaches each task that listens for it the whole time is an invariant of its own.
		if len(t.Injected) > 0 && chk.otherEventsBelow(t, end, usual, got) {
			return fail(Late, RuleEvent, task, "an event came while no task listened for it, so the timeout of %s fired", chk.runName(task))
		}
		return fail(Engine, "a timeout fires only if its task takes that long", task,
			"that of %s fired after %v, which the faults do not explain", chk.runName(task), long)
	}
	task, late, ok := cancelledTimeout(t, usual, got)
	switch {
	case !ok || len(t.Injected) == 0:
		return failure{}, false
	case late <= longestDelay(t):
		return fail(Late, RuleTimeout, task, "the timeout of %s was due, but %s ended first", chk.runName(task), chk.runName(task))
	default:
		return fail(Engine, "a timeout fires when it is due", task,
			"that of %s was cancelled %v after it was due, which the faults do not explain", chk.runName(task), late)
	}
}

// newTimeout returns a timeout that fires in no run without faults, and its duration.
func newTimeout(usual []*outcomeGroup, got *historyFacts) (task string, long time.Duration, ok bool) {
	for _, task := range slices.Sorted(maps.Keys(got.fired)) {
		if !anyRun(usual, func(f *historyFacts) bool { _, came := f.fired[task]; return came }) {
			return task, got.fired[task], true
		}
	}
	return "", 0, false
}

// cancelledTimeout returns a timeout that fires in a run without faults but was cancelled
// here, and how long after it was due. If Redis could not be asked for the time, the executor
// may have dated a result too early.
func cancelledTimeout(t *sim.Trial, usual []*outcomeGroup, got *historyFacts) (task string, late time.Duration, ok bool) {
	undated := slices.ContainsFunc(t.Injected, func(s sim.InjectedFault) bool {
		return s.Kind == sim.Outage || (s.Kind == sim.DropRequest || s.Kind == sim.DropReply) && strings.HasPrefix(s.Service, "executor")
	})
	for _, task := range slices.Sorted(maps.Keys(got.cancelled)) {
		if got.cancelled[task] < 0 && !undated && !repeated(t, task) {
			continue
		}
		if anyRun(usual, func(f *historyFacts) bool { _, came := f.fired[task]; return came }) {
			return task, got.cancelled[task], true
		}
	}
	return "", 0, false
}

// repeated reports whether the call of a task was repeated. If the first call was slow, the
// repeated one is answered immediately.
func repeated(t *sim.Trial, task string) bool {
	for d, n := range t.Actions {
		if n > 1 && d.Task == task {
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
func (chk *checker) longestWithFaults(t *sim.Trial, usual []*outcomeGroup, task string) time.Duration {
	longest := time.Duration(0)
	for _, g := range usual {
		for _, f := range g.facts {
			longest = max(longest, f.lasted(task))
		}
	}
	return longest + longestDelay(t)
}

// otherEventsBelow reports whether an execution, or one below it, received other events than in
// runs without faults.
func (chk *checker) otherEventsBelow(t *sim.Trial, end sim.End, usual []*outcomeGroup, got *historyFacts) bool {
	return otherEvents(usual, got) || slices.ContainsFunc(t.Ends, func(child sim.End) bool {
		usual := chk.outcomes.groupsOf(canonicalID(child.ID))
		return sim.Parent(child.ID) == end.ID && len(usual) > 0 && chk.otherEventsBelow(t, child, usual, factsOf(child.History))
	})
}

// gaveUp returns the failure of an execution in which a try gave up because the next
// attempt would have come after limit.duration, as it does in no run without faults.
func (chk *checker) gaveUp(t *sim.Trial, end sim.End, usual []*outcomeGroup, got *historyFacts) (failure, bool) {
	def := chk.definitionOf(end)
	for _, run := range slices.Sorted(maps.Keys(got.givenUp)) {
		if anyRun(usual, func(f *historyFacts) bool { _, too := f.givenUp[run]; return too }) {
			continue
		}
		task := def.Task(event.ParseRun(run).Ref)
		if task == nil || task.Try == nil || task.Try.Catch.Retry == nil {
			continue
		}
		left := got.givenUp[run]
		_, next, known := invariant.RetryDelay(task.Try.Catch.Retry, got.retries[run]+1, got.ended[run])
		if known && next < left.remaining || left.after > chk.longestWithFaults(t, usual, run) {
			continue
		}
		return failed(Late, RuleTimeout, end.ID, event.ParseRun(run).Ref,
			"%s was not retried %v after it began: its limit.duration was nearly over", chk.runName(run), left.after), true
	}
	return failure{}, false
}
