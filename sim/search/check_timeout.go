package search

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/sim"
	"flunq.io/flunq/sim/invariant"
)

// timedOut returns the failure of an execution that ended differently because a timeout
// fired that fires in no run without faults, or did not fire although it does in those.
func (chk *checker) timedOut(t *sim.Trial, end sim.End, usual []*class, got *historyFacts) (failure, bool) {
	fail := func(class Class, rule, task, format string, args ...any) (failure, bool) {
		return failure{Class: class, Violation: sim.Violation{Rule: rule, Execution: end.ID, Detail: fmt.Sprintf(format, args...)}, task: event.ParseRun(task).Ref}, true
	}
	if task, long, ok := newTimeout(usual, got); ok {
		if long <= chk.longestWithFaults(t, usual, task) {
			return fail(Late, RuleTimeout, task, "the timeout of %s fired first", chk.runName(task))
		}
		if len(t.Injected) > 0 && otherEvents(usual, got) && !chk.missedWhileListening(t, end, usual, got) {
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
func newTimeout(usual []*class, got *historyFacts) (task string, long time.Duration, ok bool) {
	for _, task := range slices.Sorted(maps.Keys(got.fired)) {
		if !slices.ContainsFunc(usual, func(c *class) bool {
			return slices.ContainsFunc(c.facts, func(f *historyFacts) bool { _, came := f.fired[task]; return came })
		}) {
			return task, got.fired[task], true
		}
	}
	return "", 0, false
}

// cancelledTimeout returns a timeout that fires in a run without faults but was cancelled
// here, and how long after it was due. If Redis could not be asked for the time, the executor
// may have dated a result too early.
func cancelledTimeout(t *sim.Trial, usual []*class, got *historyFacts) (task string, late time.Duration, ok bool) {
	undated := slices.ContainsFunc(t.Injected, func(s sim.InjectedFault) bool {
		return s.Kind == sim.Outage || (s.Kind == sim.DropRequest || s.Kind == sim.DropReply) && strings.HasPrefix(s.Service, "executor")
	})
	for _, task := range slices.Sorted(maps.Keys(got.cancelled)) {
		if got.cancelled[task] < 0 && !undated && !repeated(t, task) {
			continue
		}
		if slices.ContainsFunc(usual, func(c *class) bool {
			return slices.ContainsFunc(c.facts, func(f *historyFacts) bool { _, came := f.fired[task]; return came })
		}) {
			return task, got.cancelled[task], true
		}
	}
	return "", 0, false
}

// repeated reports whether the call of a task was repeated. If the first call was slow, the
// repeated one is answered at once.
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
func (chk *checker) longestWithFaults(t *sim.Trial, usual []*class, task string) time.Duration {
	longest := time.Duration(0)
	for _, c := range usual {
		for _, f := range c.facts {
			longest = max(longest, f.lasted(task))
		}
	}
	return longest + longestDelay(t)
}

// missedWhileListening reports whether an execution missed an event from outside that it
// usually receives, although a task listened during the whole time in which the event can
// have arrived despite faults.
func (chk *checker) missedWhileListening(t *sim.Trial, end sim.End, usual []*class, got *historyFacts) bool {
	margin := longestDelay(t)
	for _, c := range usual {
		for _, f := range c.facts {
			for _, s := range f.steps {
				if _, came := got.place[s.key]; !came && chk.outside(s.key) && chk.listened(end, got, s.at, margin) {
					return true
				}
			}
		}
	}
	return false
}

// outside reports whether a step is an event that the mocks send.
func (chk *checker) outside(key string) bool {
	if !strings.HasPrefix(key, stepEvent) || chk.Config.Mocks == nil {
		return false
	}
	for i, m := range chk.Config.Mocks.Events {
		if e := m.Event(i, chk.Config.Start); key == stepEvent+e.Source+" "+e.ID {
			return true
		}
	}
	return false
}

// listened reports whether a task listened from margin before at until margin after it.
func (chk *checker) listened(end sim.End, f *historyFacts, at time.Time, margin time.Duration) bool {
	def := chk.definitionOf(end)
	for run, begun := range f.begun {
		task := def.Task(event.ParseRun(run).Ref)
		ended, over := f.ended[run]
		if task != nil && task.Kind == dsl.Listen && begun.Add(margin).Before(at) && (!over || ended.Add(-margin).After(at)) {
			return true
		}
	}
	return false
}

// gaveUp returns the failure of an execution in which a try gave up because the next
// attempt would have come after limit.duration, as it does in no run without faults.
func (chk *checker) gaveUp(t *sim.Trial, end sim.End, usual []*class, got *historyFacts) (failure, bool) {
	def := chk.definitionOf(end)
	for _, run := range slices.Sorted(maps.Keys(got.givenUp)) {
		if slices.ContainsFunc(usual, func(c *class) bool {
			return slices.ContainsFunc(c.facts, func(f *historyFacts) bool { _, too := f.givenUp[run]; return too })
		}) {
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
		return failure{Class: Late, Violation: sim.Violation{Rule: RuleTimeout, Execution: end.ID, Detail: fmt.Sprintf(
			"%s was not retried %v after it began: its limit.duration was nearly over", chk.runName(run), left.after)}, task: event.ParseRun(run).Ref}, true
	}
	return failure{}, false
}
