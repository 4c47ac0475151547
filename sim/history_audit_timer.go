package sim

import (
	"math"
	"time"

	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/expr"
	"flunq.io/flunq/engine/store/timers"
)

// The keys of the timers for the attempts of a try.
const (
	keyAttempt = "attempt"
	keyOverall = "overall"
)

// TryLimit is the key of the timer that limits all attempts of a try together.
const TryLimit = keyOverall

// slot identifies a timer of a run, whenever it is due.
func slot(t event.Timer) string { return t.TaskID + " " + string(t.Kind) + " " + t.Key }

// timer records that a timer was set, cancelled or fired. Only a timer that is set can be
// cancelled or fire.
func (l *historyAudit) timer(e event.Event, t event.Timer) {
	key := slot(t) + " " + t.FireAt.String()
	_, known := l.timers[key]
	switch {
	case e.Type == event.TimerScheduled && e.Source == timers.OperatorSource: // it was moved, or restored
		l.timers[key] = t
		return
	case e.Type == event.TimerScheduled:
		l.limitless = l.limitless && t.TaskID != ""
		l.schedules(e, t)
		if t.Kind == event.RetryTimer {
			l.rules.waits(t.TaskID)
		}
		l.timers[key], l.set[slot(t)] = t, e
		return
	case e.Type == event.TimerFired && !known:
		l.broken("only a timer that is set fires", l.id, "the %s timer of %s for %v fired, and was not set", t.Kind, RunName(t.TaskID), t.FireAt)
	case e.Type == event.TimerFired:
		l.fired[slot(t)] = true
	case !known && !l.loose:
		l.broken("a timer is taken back once", l.id, "the %s timer of %s for %v was not set any more", t.Kind, RunName(t.TaskID), t.FireAt)
	}
	delete(l.timers, key)
}

// schedules checks a new timer against the duration in the document, if that is a
// literal.
func (l *historyAudit) schedules(e event.Event, t event.Timer) {
	for _, other := range l.timers {
		if slot(other) == slot(t) {
			l.broken("a task has one timer of a kind", l.id, "the %s timer of %s was set again", t.Kind, RunName(t.TaskID))
		}
	}
	ref := event.ParseRun(t.TaskID).Ref
	task := l.def.Task(ref)
	if t.Kind == event.RetryTimer && task != nil && task.Kind == dsl.Try {
		l.retries(e, t, task.Try.Catch.Retry)
		return
	}
	var stated *expr.Value
	switch {
	case t.TaskID == "":
		stated = l.def.Timeout
	case task != nil:
		stated = statedOf(task, t)
	}
	if want, ok := moment(stated, e.Time); ok && !want.Equal(t.FireAt) {
		l.broken("a timer is set for when the document says", l.id, "the %s timer of %s is set for %v, want %v", t.Kind, RunName(t.TaskID), t.FireAt, want)
	}
}

// statedOf returns the duration in the document that a timer of a task is set for.
func statedOf(task *dsl.Task, t event.Timer) *expr.Value {
	switch {
	case t.Kind == event.WaitTimer:
		return task.Wait
	case t.Kind != event.TimeoutTimer:
		return nil
	case t.Key == "":
		return task.Timeout
	case task.Kind != dsl.Try || task.Try.Catch.Retry == nil:
		return nil
	case t.Key == keyAttempt:
		return task.Try.Catch.Retry.AttemptDuration
	case t.Key == keyOverall:
		return task.Try.Catch.Retry.Duration
	default:
		return nil
	}
}

// moment returns when a duration of the document is over; false if it is not a literal.
func moment(stated *expr.Value, from time.Time) (time.Time, bool) {
	if stated == nil {
		return from, false
	}
	data, ok := stated.Constant()
	if !ok {
		return from, false
	}
	d, err := dsl.ParseDuration(data)
	return d.From(from), err == nil
}

// retries checks a retry against its policy: the number of retries, and the delay with
// its backoff and jitter.
func (l *historyAudit) retries(e event.Event, t event.Timer, r *dsl.RetryPolicy) {
	l.tries[t.TaskID]++
	n := l.tries[t.TaskID]
	if r == nil || r.AttemptCount > 0 && n > r.AttemptCount {
		l.broken("a task is tried again as often as the document says", l.id, "%s is tried again %d times", t.TaskID, n)
		return
	}
	from, to, ok := RetryDelay(r, n, e.Time)
	const longest = 365 * 24 * time.Hour
	if got := t.FireAt.Sub(e.Time); ok && from < longest && (got < from || got > to) {
		l.broken("a retry comes when the document says", l.id, "retry %d of %s comes after %v, want %v to %v", n, t.TaskID, got, from, to)
	}
}

// RetryDelay returns how long a policy delays the n-th retry after at, with the least and
// the most jitter; ok is false if the delay is not a literal.
func RetryDelay(r *dsl.RetryPolicy, n int, at time.Time) (from, to time.Duration, ok bool) {
	once := at
	if r.Delay != nil {
		if once, ok = moment(r.Delay, at); !ok {
			return 0, 0, false
		}
	}
	delay := once.Sub(at)
	switch r.Backoff {
	case "linear":
		delay *= time.Duration(n)
	case "exponential":
		delay = time.Duration(float64(delay) * math.Pow(2, float64(n-1))) //nolint:mnd // doubles each time
	}
	from, to = jitterOf(r)
	return delay + from, delay + to, true
}

// jitterOf returns the bounds of the jitter.
func jitterOf(r *dsl.RetryPolicy) (from, to time.Duration) {
	if r.JitterTo == nil {
		return 0, 0
	}
	from, _ = LiteralDuration(r.JitterFrom)
	to, ok := LiteralDuration(r.JitterTo)
	if !ok {
		return 0, math.MaxInt64 / 2 //nolint:mnd // no bound, and far from an overflow
	}
	return from, to
}

// timely checks the success of a task against its timers: a wait ends when its timer has
// fired, and a task with a time limit has a timer that has not fired.
func (l *historyAudit) timely(e event.Event, run event.Run) {
	task := l.def.Task(run.Ref)
	if task == nil {
		return
	}
	mine := func(kind event.TimerKind) string { return slot(event.Timer{TaskID: e.Task, Kind: kind}) }
	if task.Kind == dsl.Wait && !l.fired[mine(event.WaitTimer)] {
		l.broken("a wait ends when its time has come", l.id, "%s ended before", e.Task)
	}
	if _, limited := l.set[mine(event.TimeoutTimer)]; task.Timeout != nil && !limited {
		l.broken("a task with a time limit has a timer", l.id, "%s ended, and had none", e.Task)
	}
	if l.fired[mine(event.TimeoutTimer)] {
		l.broken("a task that has run out of time fails", l.id, "%s ended well", e.Task)
	}
}

// LiteralDuration returns a duration of the document; false if it is not a literal.
func LiteralDuration(v *expr.Value) (time.Duration, bool) {
	if v == nil {
		return 0, false
	}
	data, ok := v.Constant()
	if !ok {
		return 0, false
	}
	d, err := dsl.ParseDuration(data)
	if err != nil {
		return 0, false
	}
	return d.From(Epoch()).Sub(Epoch()), true
}
