package decide

import (
	"slices"

	"flunq.io/flunq/engine/event"
)

// onSuspended prevents tasks from starting. Active ones may end.
func (tr *transition) onSuspended() func() {
	if tr.Paused {
		return nil
	}
	return func() { tr.Paused = true }
}

// deferEvent returns the function that stores an event until the execution is resumed, nil
// if the event is already stored.
func (tr *transition) deferEvent(e event.Event) func() {
	if slices.ContainsFunc(tr.Deferred, func(other event.Event) bool { return other.ID == e.ID && other.Source == e.Source }) {
		return nil
	}
	return func() { tr.Deferred = append(tr.Deferred, e) }
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
