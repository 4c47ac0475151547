package decide

import (
	"fmt"

	"flunq.io/flunq/engine/event"
)

// Migrate returns the state of an execution that continues with the document of env. s must
// be the result of a Replay of the history with env. If the history ends before events that
// env decides, Migrate returns a Divergence. The decision appends e, an ExecutionMigrated. s is
// not modified.
func (s *State) Migrate(env *Env, e event.Event, d *Decision) (*State, error) {
	if err := s.unconfirmed(); err != nil {
		return nil, err
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
