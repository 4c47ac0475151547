package decide

import (
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/expr"
)

// ScopeOf is what the expressions of an active task see, nil if no such task is active.
func (s *State) ScopeOf(env *Env, taskID string) *expr.Scope {
	n := s.open[taskID]
	if n == nil {
		return nil
	}
	m := &machine{State: s, env: env}
	return m.scope(n, n.Input.V)
}

// Expects reports whether an event can mean something to the execution as it stands:
// one about a task that is not active means nothing, or else the state is an old one.
func (s *State) Expects(e event.Event) bool {
	if e.Type != event.TaskCompleted && e.Type != event.TimerFired || e.Task == "" {
		return true
	}
	return s.open[e.Task] != nil
}
