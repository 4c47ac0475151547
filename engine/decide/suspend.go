package decide

import (
	"slices"

	"flunq.io/flunq/engine/event"
)

// onSuspended keeps tasks from beginning. Those under way may end.
func (m *machine) onSuspended() func() {
	if m.Paused {
		return nil
	}
	return func() { m.Paused = true }
}

// deferEvent puts an event off that means something now, until the execution goes on;
// nil if it is held already.
func (m *machine) deferEvent(e event.Event) func() {
	if slices.ContainsFunc(m.Deferred, func(other event.Event) bool { return other.ID == e.ID && other.Source == e.Source }) {
		return nil
	}
	return func() { m.Deferred = append(m.Deferred, e) }
}

// onResumed goes on with what was held, in its order. What has lost its meaning
// by its turn does nothing.
func (m *machine) onResumed() func() {
	if !m.Paused {
		return nil
	}
	return func() {
		deferred := m.Deferred
		m.Paused, m.Deferred = false, nil
		for _, e := range deferred {
			// It could be read when it was held, so there is no error now.
			if take, err := m.progress(e); err == nil && take != nil {
				take()
				m.run()
			}
			if m.Status.Ended() {
				return
			}
		}
	}
}
