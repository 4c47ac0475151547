package decide

import (
	"fmt"
	"hash/fnv"
	"slices"
	"time"

	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/expr"
)

// Keys of timers that a task may have in addition to the first of the same kind.
const (
	attemptKey = "attempt" // timeout of one attempt of a try
	overallKey = "overall" // timeout of all attempts together
)

// schedule sets a timer for a task, after the duration that after yields.
func (m *machine) schedule(n *Node, kind event.TimerKind, key string, after *expr.Value) error {
	d, err := duration(m.scope(n, n.Input.V), after)
	if err != nil {
		return err
	}
	m.scheduleAt(n, kind, key, d.From(m.Now))
	return nil
}

// duration evaluates a duration.
func duration(s *expr.Scope, value *expr.Value) (dsl.Duration, error) {
	v, err := value.Eval(s)
	if err != nil {
		return dsl.Duration{}, err
	}
	d, err := dsl.ParseDuration(v)
	if err != nil {
		return dsl.Duration{}, event.NewProblem(event.Expression, err.Error())
	}
	return d, nil
}

func (m *machine) scheduleAt(n *Node, kind event.TimerKind, key string, at time.Time) {
	t := m.newTimer(kind, at)
	t.TaskID, t.TaskName, t.Key = n.id, n.task.Name, key
	n.Timers = append(n.Timers, t)
	m.announce(event.TimerScheduled, t)
}

// newTimer returns a timer of the whole execution.
func (m *machine) newTimer(kind event.TimerKind, at time.Time) event.Timer {
	return event.Timer{
		Tenant: m.Tenant, Workflow: m.Workflow, Execution: m.Execution,
		FireAt: at, DurationMS: at.Sub(m.Now).Milliseconds(), Kind: kind,
	}
}

// announce records a timer event and publishes it for the timer service.
func (m *machine) announce(typ event.Type, t event.Timer) {
	m.d.Publish = append(m.d.Publish, m.record(typ, t.TaskID, event.Encode(&t)))
}

// cancelTimer cancels a timer, unless an operator has already done so.
func (m *machine) cancelTimer(t event.Timer) {
	if i := slices.IndexFunc(m.CancelledTimers, func(gone event.TimerChange) bool { return gone.Same(t) }); i >= 0 {
		m.CancelledTimers = slices.Delete(m.CancelledTimers, i, i+1)
		return
	}
	t.MovedTo = time.Time{} // it is identified by its original time
	m.d.Cancel = append(m.d.Cancel, t)
	m.announce(event.TimerCancelled, t)
}

// cancelKind cancels the timer of a task with this kind and key, if it exists.
func (m *machine) cancelKind(n *Node, kind event.TimerKind, key string) {
	n.Timers = slices.DeleteFunc(n.Timers, func(t event.Timer) bool {
		if t.Kind != kind || t.Key != key {
			return false
		}
		m.cancelTimer(t)
		return true
	})
}

// onFired applies a timer that has fired. A timer that was cancelled or set again for another
// time has no effect.
func (m *machine) onFired(e event.Event) (func(), error) {
	var fired event.Fired
	if err := DecodeData(e, &fired); err != nil {
		return nil, err
	}
	if t := m.Timeout; t != nil && t.Same(fired.Timer) {
		return func() {
			m.Timeout = nil
			m.forgetCancelled(fired.Timer)
			m.faultAt(m.activeChain(), event.NewProblem(event.Timeout, "the workflow did not end in time"), "/timeout")
		}, nil
	}
	n := m.open[fired.TaskID]
	if n == nil {
		return nil, nil
	}
	i := slices.IndexFunc(n.Timers, fired.Same)
	if i < 0 {
		return nil, nil
	}
	t := n.Timers[i]
	return func() {
		n.Timers = slices.Delete(n.Timers, i, i+1)
		m.forgetCancelled(t)
		m.elapse(n, t, fired)
	}, nil
}

// forgetCancelled removes a timer from the list of timers cancelled by operators: it was set
// again or has fired.
func (m *machine) forgetCancelled(t event.Timer) {
	m.CancelledTimers = slices.DeleteFunc(m.CancelledTimers, func(gone event.TimerChange) bool { return gone.Same(t) })
}

// elapse does what a fired timer was set for.
func (m *machine) elapse(n *Node, t event.Timer, fired event.Fired) {
	switch {
	case t.Kind == event.WaitTimer:
		m.complete(n, n.Input.V, "")
	case t.Kind == event.RetryTimer:
		m.attempt(n)
	case t.Key == attemptKey || t.Key == overallKey:
		m.attemptTimedOut(n, t.Key)
	default:
		m.fail(n, event.NewProblem(event.Timeout, timedOut(t, fired)))
	}
}

// timedOut describes the timeout of a task, including whether an operator fired or moved the
// timer. The texts are in histories, which Rebuild compares with what it decides: they must not change.
func timedOut(t event.Timer, fired event.Fired) string {
	limit := time.Duration(t.DurationMS) * time.Millisecond
	switch {
	case fired.By != "":
		return fmt.Sprintf("%s fired the timeout of %v", fired.By, limit)
	case !fired.MovedTo.IsZero():
		return fmt.Sprintf("the task did not end by %s, to which its timeout of %v was moved", fired.MovedTo.UTC().Format(time.RFC3339), limit)
	default:
		return fmt.Sprintf("the task did not end within %v", limit)
	}
}

// jitter returns a duration between from and to that spreads retries out. It is deterministic.
func jitter(seed string, from, to time.Duration) time.Duration {
	if to <= from {
		return from
	}
	h := fnv.New64a()
	h.Write([]byte(seed))
	return from + time.Duration(mix(h.Sum64())%uint64(to-from+1))
}

// mix spreads the bits of a hash of similar strings (the finalizer of MurmurHash3).
func mix(h uint64) uint64 {
	h ^= h >> 33
	h *= 0xff51afd7ed558ccd
	h ^= h >> 33
	h *= 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}
