package decide

import (
	"fmt"
	"slices"

	"flunq.io/flunq/engine/event"
)

// onTimerChange applies what an operator did to a timer: cancel, move, or set it again.
// The change was made when the event was written, so it is applied whatever the execution
// waits for. An event without the name of an operator is an error.
func (tr *transition) onTimerChange(e event.Event) (func(), error) {
	var change event.TimerChange
	if err := DecodeData(e, &change); err != nil {
		return nil, err
	}
	if change.By == "" {
		return nil, fmt.Errorf("event %s of type %s is none that an execution takes", e.ID, e.Type)
	}
	same := func(t event.Timer) bool { return sameTimer(t, change.Timer) }
	return func() {
		t := tr.timer(change.TaskID, same)
		if t == nil {
			return // its task has already ended
		}
		tr.forgetCancelled(*t)
		if e.Type == event.TimerCancelled {
			tr.CancelledTimers = append(tr.CancelledTimers, change)
		} else {
			t.MovedTo = change.MovedTo
		}
	}, nil
}

// timer returns a timer that the execution, or a run of a task, waits for; nil if there is
// none.
func (tr *transition) timer(id string, same func(event.Timer) bool) *event.Timer {
	if tr.Timeout != nil && same(*tr.Timeout) {
		return tr.Timeout
	}
	if n := tr.open[id]; n != nil {
		if i := slices.IndexFunc(n.Timers, same); i >= 0 {
			return &n.Timers[i]
		}
	}
	return nil
}

// onRestored records that a lost subscription or request was restored. It changes only the
// history.
func (tr *transition) onRestored(e event.Event) (func(), error) {
	var restored event.Restored
	return func() {}, DecodeData(e, &restored)
}
