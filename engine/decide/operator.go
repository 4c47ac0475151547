package decide

import (
	"fmt"
	"slices"

	"flunq.io/flunq/engine/event"
)

// onTimerChange takes in what an operator did to a timer: it was cancelled, moved, or
// set again. That was done when the event was written, and is taken in whatever the
// execution waits for. Without the name of an operator the event is none of these.
func (m *machine) onTimerChange(e event.Event) (func(), error) {
	var change event.TimerChange
	if err := DecodeData(e, &change); err != nil {
		return nil, err
	}
	if change.By == "" {
		return nil, fmt.Errorf("event %s of type %s is none that an execution takes", e.ID, e.Type)
	}
	same := func(t event.Timer) bool { return sameTimer(t, change.Timer) }
	return func() {
		t := m.timer(change.TaskID, same)
		if t == nil {
			return // what it was set for has ended meanwhile
		}
		m.forgetCancelled(*t)
		if e.Type == event.TimerCancelled {
			m.CancelledTimers = append(m.CancelledTimers, change)
		} else {
			t.MovedTo = change.MovedTo
		}
	}, nil
}

// timer is one of those that the execution, or a run of a task, has set; nil if there is none such.
func (m *machine) timer(id string, same func(event.Timer) bool) *event.Timer {
	if m.Timeout != nil && same(*m.Timeout) {
		return m.Timeout
	}
	if n := m.open[id]; n != nil {
		if i := slices.IndexFunc(n.Timers, same); i >= 0 {
			return &n.Timers[i]
		}
	}
	return nil
}

// onRestored takes in that the execution is listed as a listener again, or that a lost
// request was sent again. It changes nothing but the history.
func (m *machine) onRestored(e event.Event) (func(), error) {
	var restored event.Restored
	return func() {}, DecodeData(e, &restored)
}
