package store_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/store"
)

// requests are n messages of an executor, and the answers to them.
func (w *world) requests(t *testing.T, n int) (msgs []store.Message, out []store.Answer) {
	t.Helper()
	for i := range n {
		e := happened(fmt.Sprint("q", i), event.TaskRequested)
		must(t, w.Publish(t.Context(), e))
	}
	msgs, _, err := w.Read(t.Context(), reader(store.ExecutorGroup, "e1"), n, 0)
	must(t, err)
	for _, m := range msgs {
		out = append(out, answer(m))
	}
	return msgs, out
}

func answer(m store.Message) store.Answer {
	e := happened(m.Event.ID+"/done", event.TaskCompleted)
	return store.Answer{Message: &m, Event: &e}
}

// replies are the ids of the answers on the stream, in order.
func (w *world) replies(t *testing.T) (ids []string) {
	t.Helper()
	entries, err := w.rdb.XRange(t.Context(), streamKey, "-", "+").Result()
	must(t, err)
	for _, e := range entries {
		if id := fmt.Sprint(e.Values["id"]); strings.HasSuffix(id, "/done") {
			ids = append(ids, id)
		}
	}
	return ids
}

// given fails the test unless just these answers were given.
func given(t *testing.T, want ...bool) func([]bool, error) {
	return func(got []bool, err error) {
		t.Helper()
		must(t, err)
		if !slices.Equal(got, want) {
			t.Fatalf("given = %v, want %v", got, want)
		}
	}
}

func (w *world) wantReplies(t *testing.T, want ...string) {
	t.Helper()
	if got := w.replies(t); !slices.Equal(got, want) {
		t.Errorf("replies %v, want %v", got, want)
	}
}

var answers = []check{
	{"messages are answered together, in their order", func(t *testing.T, w *world) {
		_, all := w.requests(t, 3)
		given(t, true, true, true)(w.Replies(t.Context(), all))
		w.wantReplies(t, "q0/done", "q1/done", "q2/done")
		if n := w.pending(t, store.ExecutorGroup); n != 0 {
			t.Errorf("%d pending", n)
		}
	}},
	{"answers stand for themselves: what is not mine is left out", func(t *testing.T, w *world) {
		msgs, all := w.requests(t, 5)
		must(t, w.Settle(t.Context(), msgs[3]))
		w.age(t, 0, msgs[1])
		now, err := w.Now(t.Context())
		must(t, err)
		claimed, _, err := w.Orphans(t.Context(), reader(store.ExecutorGroup, "thief"), 0, 1, now) // the first
		must(t, err)
		if len(claimed) != 1 || claimed[0].ID != msgs[0].ID {
			t.Fatalf("the thief got %v", claimed)
		}
		given(t, false, true, true, false, true)(w.Replies(t.Context(), all))
		w.wantReplies(t, "q1/done", "q2/done", "q4/done")
		given(t, false, false, false, false, false)(w.Replies(t.Context(), all))
		given(t, true)(w.Replies(t.Context(), []store.Answer{answer(claimed[0])}))
		w.wantReplies(t, "q1/done", "q2/done", "q4/done", "q0/done")
	}},
	{"a message is answered once, whatever the order of the answers", func(t *testing.T, w *world) {
		_, all := w.requests(t, 2)
		given(t, true, true, false)(w.Replies(t.Context(), []store.Answer{all[1], all[0], all[1]}))
		w.wantReplies(t, "q1/done", "q0/done")
	}},
	{"answers to messages far apart", func(t *testing.T, w *world) {
		const n = 150 // so much is pending between them that it is not looked through
		_, all := w.requests(t, n)
		given(t, true, true, true)(w.Replies(t.Context(), []store.Answer{all[0], all[n/2], all[n-1]}))
		given(t, false, true, false)(w.Replies(t.Context(), []store.Answer{all[0], all[n-2], all[n-1]}))
		if got := w.pending(t, store.ExecutorGroup); got != n-4 {
			t.Errorf("%d pending, want %d", got, n-4)
		}
	}},
	{"more answers than one script takes", func(t *testing.T, w *world) {
		const n = 250
		_, all := w.requests(t, n)
		got, err := w.Replies(t.Context(), all)
		must(t, err)
		if slices.Contains(got, false) || len(w.replies(t)) != n || w.pending(t, store.ExecutorGroup) != 0 {
			t.Errorf("%v; %d replies", got, len(w.replies(t)))
		}
	}},
	{"a message of a group that is gone is not answered", func(t *testing.T, w *world) {
		_, all := w.requests(t, 2)
		must(t, w.rdb.XGroupDestroy(t.Context(), streamKey, store.ExecutorGroup).Err())
		given(t, false, false)(w.Replies(t.Context(), all))
		w.wantReplies(t)
	}},
	{"what cannot be written is told, and what was is acknowledged", func(t *testing.T, w *world) {
		if w.mini != nil {
			return // knows no XSETID
		}
		_, all := w.requests(t, 3)
		const last = "18446744073709551615-18446744073709551613" // two more, and the stream is full
		must(t, w.rdb.Do(t.Context(), "XSETID", streamKey, last).Err())
		got, err := w.Replies(t.Context(), all)
		if err == nil || !slices.Equal(got, []bool{true, true, false}) {
			t.Errorf("given %v, %v", got, err)
		}
		w.wantReplies(t, "q0/done", "q1/done")
		if n := w.pending(t, store.ExecutorGroup); n != 1 {
			t.Errorf("%d pending, want 1", n)
		}
	}},
	{"a stream that is none is told", func(t *testing.T, w *world) {
		_, all := w.requests(t, 1)
		must(t, w.rdb.Set(t.Context(), streamKey, "x", 0).Err())
		if got, err := w.Replies(t.Context(), all); err == nil || got[0] || store.Temporary(err) {
			t.Errorf("given %v, %v", got, err)
		}
	}},
	{"no answers are none", func(t *testing.T, w *world) { given(t)(w.Replies(t.Context(), nil)) }},
}
