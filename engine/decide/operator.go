package decide

import (
	"fmt"
	"slices"

	"flunq.io/flunq/engine/event"
)

// onTimerChange applies an operator's change of a timer: cancelled, moved, or set again.
// The timer was already changed when the event was written, so the change is applied in any
// state of the execution. An event that does not name an operator is an error.
func (m *machine) onTimerChange(e event.Event) (func(), error) {
	var change event.TimerChange
	if err := DecodeData(e, &change); err != nil {
		return nil, err
	}
	if change.By == "" {
		return nil, fmt.Errorf("event %s of type %s does not name an operator", e.ID, e.Type)
	}
	return func() {
		t := m.timer(change.Timer)
		if t == nil {
			return // its task has already ended
		}
		m.forgetCancelled(*t)
		if e.Type == event.TimerCancelled {
			m.CancelledTimers = append(m.CancelledTimers, change)
		} else {
			t.MovedTo = change.MovedTo
		}
	}, nil
}

// timer returns the execution's own record of a timer, or nil.
func (m *machine) timer(t event.Timer) *event.Timer {
	if m.Timeout != nil && m.Timeout.Same(t) {
		return m.Timeout
	}
	if n := m.open[t.TaskID]; n != nil {
		if i := slices.IndexFunc(n.Timers, t.Same); i >= 0 {
			return &n.Timers[i]
		}
	}
	return nil
}

// onSuspended keeps tasks from starting. Active ones may end.
func (m *machine) onSuspended() func() {
	if m.Paused {
		return nil
	}
	return func() { m.Paused = true }
}

// deferEvent returns the function that stores an event until the execution is resumed, or nil
// if the event is already stored.
func (m *machine) deferEvent(e event.Event) func() {
	if slices.ContainsFunc(m.Deferred, func(other event.Event) bool { return other.ID == e.ID && other.Source == e.Source }) {
		return nil
	}
	return func() { m.Deferred = append(m.Deferred, e) }
}

// onResumed applies the deferred events in order. An event that no longer has an effect is
// skipped.
func (m *machine) onResumed() func() {
	if !m.Paused {
		return nil
	}
	return func() {
		deferred := m.Deferred
		m.Paused, m.Deferred = false, nil
		for _, e := range deferred {
			// It was decoded when it was deferred, so there is no error now.
			if apply, err := m.progress(e); err == nil && apply != nil {
				apply()
				m.run()
			}
			if m.Status.Ended() {
				return
			}
		}
	}
}
