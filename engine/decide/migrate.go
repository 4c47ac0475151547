package decide

import (
	"fmt"
	"slices"

	"flunq.io/flunq/engine/event"
)

// Migrate returns the state of an execution that continues with the document of env. s must
// be the result of a Replay of the history with env. If the history ends before events that
// env decides, Migrate returns a Divergence. The decision appends e, an ExecutionMigrated. s is
// not modified.
func (s *State) Migrate(env *Env, e event.Event, d *Decision) (*State, error) {
	if len(s.expected) > 0 {
		return nil, &Divergence{Version: s.Version - int64(len(s.expected)) + 1, Want: s.expected[0]}
	}
	snapshot, err := s.Snapshot()
	if err != nil {
		return nil, err
	}
	next, err := Restore(env, snapshot)
	if err != nil {
		return nil, err
	}
	applied, err := next.Apply(env, e, d)
	if err == nil && !applied {
		err = fmt.Errorf("execution %s is %s", s.Execution, s.Status)
	}
	return next, err
}

// Listening returns the event types that the execution is subscribed to, sorted; "*" means any
// type.
func (s *State) Listening(env *Env) []string {
	m := newMachine(s, env, nil)
	var types []string
	for _, n := range s.open {
		if n.Listen == nil || n.Listen.Stopped {
			continue
		}
		// A task whose types cannot be computed never subscribed.
		if own, err := m.listenTypes(n); err == nil {
			types = append(types, own...)
		}
	}
	slices.Sort(types)
	return slices.Compact(types)
}
