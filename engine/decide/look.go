package decide

import "flunq.io/flunq/engine/expr"

// ScopeOf is what the expressions of an active task see, nil if no such task is active.
func (s *State) ScopeOf(env *Env, taskID string) *expr.Scope {
	n := s.open[taskID]
	if n == nil {
		return nil
	}
	m := &machine{State: s, env: env}
	return m.scope(n, n.Input.V)
}
