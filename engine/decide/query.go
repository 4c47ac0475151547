package decide

import (
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/expr"
)

// ScopeOf returns the scope of the expressions of an active task, nil if no such task is
// active.
func (s *State) ScopeOf(env *Env, taskID string) *expr.Scope {
	n := s.open[taskID]
	if n == nil {
		return nil
	}
	m := newMachine(s, env, nil)
	return m.scope(n, n.Input.V)
}

// Expects reports whether an event can affect the execution in its current state. An event
// about a task that is not active cannot, unless the state is out of date.
func (s *State) Expects(e event.Event) bool {
	if e.Type != event.TaskCompleted && e.Type != event.TimerFired || e.Task == "" {
		return true
	}
	return s.open[e.Task] != nil
}
