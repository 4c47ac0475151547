package decide

import (
	"fmt"
	"slices"

	"flunq.io/flunq/engine/event"
)

// onTimerChange applies what an operator did to a timer: cancel, move, or set it again.
// The change was made when the event was written, so it is applied whatever the execution
// waits for. An event without the name of an operator is an error.
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

// timer returns a timer that the execution, or a run of a task, waits for; nil if there is
// none.
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

// onRestored records that a lost subscription or request was restored. It changes only the
// history.
func (m *machine) onRestored(e event.Event) (func(), error) {
	var restored event.Restored
	return func() {}, DecodeData(e, &restored)
}
