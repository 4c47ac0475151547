package store_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/store"
)

// begunMessage returns a message for an execution that has begun.
func (w *environment) begunMessage(t *testing.T) store.Message {
	t.Helper()
	c := step(0, nil)
	c.Publish = nil
	w.commit(t, c, store.Committed)
	return w.sent(t, historyEvent("a", event.TaskCompleted), store.WorkerGroup, "w1")
}

// endCommit returns the commit that ends an execution because of a message, and dead-letters it.
func endCommit(m store.Message) store.Commit {
	c := step(1, &m)
	c.Ack = false
	c.DeadLetter = &event.Dead{Reason: "nobody can read it", Attempts: 3, Service: store.WorkerGroup}
	c.Publish = []event.Event{historyEvent("x-1/2", event.WorkflowFailed)}
	c.History = c.Publish
	c.Status, c.Ended, c.Error = "faulted", true, json.RawMessage(`{"status":500}`)
	return c
}

var giveUps = []check{
	{"a message whose execution ends is dead-lettered by the same commit", func(t *testing.T, w *environment) {
		m := w.begunMessage(t)
		outcome, err := w.Commit(t.Context(), endCommit(m))
		must(t, err)
		if n := w.pending(t, store.WorkerGroup); outcome != store.Committed || n != 0 {
			t.Errorf("outcome %d, %d entries pending, want it committed and none", outcome, n)
		}
		x, err := w.Execution(t.Context(), tenant, execution)
		must(t, err)
		if x.Status != "faulted" || x.Version != 2 || string(x.Error) != `{"status":500}` {
			t.Errorf("the execution is %+v", x)
		}
		deadLetters := w.deadLetters(t)
		if len(deadLetters) != 1 {
			t.Fatalf("dead letters %v, want one", deadLetters)
		}
		l := deadLetters[0]
		if diff := cmp.Diff(m.Event, l.Event); diff != "" {
			t.Error(diff)
		}
		if l.Reason != "nobody can read it" || l.Attempts != 3 || l.SourceID != m.ID || !l.LastFailure.Equal(m.Read) {
			t.Errorf("the dead letter says %+v", l)
		}
		err = w.unchanged(t, func() error {
			outcome, err := w.Commit(t.Context(), endCommit(m))
			if outcome != store.Fenced {
				t.Errorf("the second time the outcome is %d, want it fenced", outcome)
			}
			return err
		})
		must(t, err)
	}},
	{"an execution that does not end leaves no dead letter", func(t *testing.T, w *environment) {
		m := w.begunMessage(t)
		omitted := endCommit(m)
		omitted.Version = 0
		err := w.unchanged(t, func() error {
			outcome, err := w.Commit(t.Context(), omitted)
			if outcome != store.Conflict {
				t.Errorf("outcome %d, want a conflict", outcome)
			}
			return err
		})
		must(t, err)
		wrong := endCommit(m)
		wrong.Execution = ""
		err = w.unchanged(t, func() error {
			_, err := w.Commit(t.Context(), wrong)
			return err
		})
		if err == nil {
			t.Error("no error about an execution that cannot be")
		}
		w.claimByOther(t, m)
		err = w.unchanged(t, func() error {
			outcome, err := w.Commit(t.Context(), endCommit(m))
			if outcome != store.Fenced {
				t.Errorf("outcome %d, want it fenced", outcome)
			}
			return err
		})
		must(t, err)
	}},
	{"if the dead letter cannot be written the execution does not end", func(t *testing.T, w *environment) {
		m := w.begunMessage(t)
		must(t, w.rdb.Set(t.Context(), deadKey, "mine", 0).Err())
		err := w.unchanged(t, func() error {
			_, err := w.Commit(t.Context(), endCommit(m))
			return err
		})
		if err == nil || !strings.Contains(err.Error(), "WRONGTYPE") || store.Temporary(err) {
			t.Errorf("error %v, want one about the dead letters that does not go away", err)
		}
	}},
}
