package decide

import (
	"bytes"
	"cmp"
	"fmt"
	"strings"

	"flunq.io/flunq/engine/event"
)

// Rebuild returns the state that a complete history leads to. It returns a Divergence if
// the history does not follow from the definition.
func Rebuild(env *Env, history []event.Event) (*State, error) {
	s := New()
	err := s.Replay(env, history)
	if err == nil {
		err = s.unconfirmed()
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}

// unconfirmed returns a Divergence if a replayed history lacks events of the last decision.
func (s *State) unconfirmed() error {
	if s.Settled() {
		return nil
	}
	return &Divergence{Version: s.Version - int64(len(s.expected)) + 1, Want: s.expected[0]}
}

// Replay applies the next part of a history. Events that were decided must equal those that are
// decided now; otherwise the error is a Divergence.
func (s *State) Replay(env *Env, history []event.Event) error {
	for _, e := range history {
		version := s.Version - int64(len(s.expected)) + 1
		if len(s.expected) > 0 {
			if want := s.expected[0]; want.Type != e.Type || want.Task != e.Task || !bytes.Equal(want.Data, e.Data) {
				return &Divergence{Version: version, Want: want, Got: e}
			}
			s.expected = s.expected[1:]
			continue
		}
		if s.abandoned(env, e) {
			continue
		}
		var d Decision
		applied, err := s.Apply(env, e, &d)
		if err != nil {
			return fmt.Errorf("event %d: %w", version, err)
		}
		if !applied {
			return &Divergence{Version: version, Got: e}
		}
		s.expected = d.History[1:]
	}
	return nil
}

// Settled reports whether a replay is between two transitions: the history has confirmed
// all events of the last decision.
func (s *State) Settled() bool { return len(s.expected) == 0 }

// abandoned applies a failure that Abort recorded so that a retry restarts the tasks that
// were active. It reports false for any other event.
func (s *State) abandoned(env *Env, e event.Event) bool {
	var ended event.Ended
	if e.Type != event.WorkflowFailed || s.Root == nil || DecodeData(e, &ended) != nil ||
		ended.Reason != aborted || ended.Error == nil {
		return false
	}
	version, size := s.Version+1, s.Bytes+len(e.Data)
	s.Now = e.Time
	m := newMachine(s, env, &Decision{})
	m.faultAt(m.activeChain(), ended.Error, "/")
	s.Version, s.Bytes = version, size // Abort recorded nothing else
	return true
}

// Divergence is the error of a history that does not follow from its definition.
type Divergence struct {
	Version   int64
	Want, Got event.Event // the zero Event if missing
}

func (d *Divergence) Error() string {
	want, got := typeAndTask(d.Want), typeAndTask(d.Got)
	if want == got {
		got = "it with different data"
	}
	return fmt.Sprintf("history diverges at event %d: decided %s, found %s", d.Version, want, got)
}

func typeAndTask(e event.Event) string {
	return cmp.Or(strings.TrimSpace(string(e.Type)+" "+e.Task), "nothing")
}

// StartOf returns the data of an ExecutionStarted.
func StartOf(e event.Event) (started event.Started, err error) {
	err = DecodeData(e, &started)
	return started, err
}

// RootOf returns the root of the tree of an execution at a nesting depth, or "" if the execution is
// itself the root.
func RootOf(id string, depth int) string {
	if depth == 0 {
		return ""
	}
	for range depth {
		i := strings.LastIndexByte(id, '.')
		if i <= 0 {
			return ""
		}
		id = id[:i]
	}
	return id
}
