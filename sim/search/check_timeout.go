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
func (d *divergence) timedOut() *failure {
	if run, long, ok := d.newTimeout(); ok {
		task, name := event.ParseRun(run).Ref, d.runName(run)
		if long <= d.longestWithFaults(run) {
			return d.fail(Late, RuleTimeout, task, "the timeout of %s fired first", name)
		}
		// That an event reaches each task that listens for it the whole time is an invariant of its own.
		if d.disturbed() && d.otherEventsBelow() {
			return d.fail(Late, RuleEvent, task, "an event came while no task listened for it, so the timeout of %s fired", name)
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
