package store_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/redistest"
	"flunq.io/flunq/engine/store/stream"
)

// requests returns n messages of an executor, and the answers to them.
func (w *environment) requests(t testing.TB, n int) (msgs []store.Message, out []stream.Reply) {
	t.Helper()
	for i := range n {
		e := historyEvent(fmt.Sprint("q", i), event.TaskRequested)
		must(t, w.Publish(t.Context(), e))
	}
	got, err := stream.New(w.Store).Read(t.Context(), reader(store.ExecutorGroup, "e1"), n, 0)
	msgs = got.Messages
	must(t, err)
	for _, m := range msgs {
		out = append(out, answer(m))
	}
	return msgs, out
}

func answer(m store.Message) stream.Reply {
	e := historyEvent(m.Event.ID+"/done", event.TaskCompleted)
	e.Task = "/do/0/t"
	return stream.Reply{Message: &m, Event: &e}
}

// replies returns the ids of the answers in the stream, in order.
func (w *environment) replies(t *testing.T) (ids []string) {
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

// wantAnswered fails the test unless exactly these answers were given.
func wantAnswered(t *testing.T, want ...bool) func([]bool, error) {
	return func(got []bool, err error) {
		t.Helper()
		must(t, err)
		if !slices.Equal(got, want) {
			t.Fatalf("given = %v, want %v", got, want)
		}
	}
}

func (w *environment) wantReplies(t *testing.T, want ...string) {
	t.Helper()
	if got := w.replies(t); !slices.Equal(got, want) {
		t.Errorf("replies %v, want %v", got, want)
	}
}

var answers = []check{
	{"each event is read by the one service that handles it", func(t *testing.T, w *environment) {
		if w.mini != nil {
			t.Skip("miniredis has no XGROUP SETID")
		}
		handled := func(by string) (m store.Message) { // the last entry
			t.Helper()
			m = w.read(t, by, "c")
			for _, g := range w.stream(t).Groups {
				if want := map[bool]int64{true: 1}[g.Name == by]; g.Pending != want || g.Lag != 0 {
					t.Errorf("after %s the group %s has %d pending entries and lags by %d, want %d and 0", m.Event.Type, g.Name, g.Pending, g.Lag, want)
				}
			}
			return m
		}
		must(t, w.Start(t.Context(), historyEvent("s", event.ExecutionStarted)))
		m := handled(store.WorkerGroup)
		w.commit(t, step(0, &m), store.Committed)
		m = handled(store.ExecutorGroup)
		wantAnswered(t, true)(stream.New(w.Store).Replies(t.Context(), []stream.Reply{answer(m)}))
		m = handled(store.WorkerGroup)
		c := step(1, &m)
		c.Publish[0].Type = event.TimerScheduled
		w.commit(t, c, store.Committed)
		m = handled(store.TimerGroup)
		mine(t, true)(schedule(t, w.Store, m, timer(0)))
		w.fireAll(t)
		m = handled(store.WorkerGroup)

		// Beyond an event that a service handles, or may handle, its group skips nothing.
		c = step(2, &m)
		for _, typ := range []event.Type{event.TimerScheduled, event.LifecyclePrefix + "task.started", "com.example.paid", event.WorkflowCompleted} {
			e := c.Publish[0]
			e.ID, e.Type = string(typ), typ
			c.Publish = append(c.Publish, e)
		}
		w.commit(t, c, store.Committed) // a request, a timer, a start of a task, another event, an end
		for _, g := range w.stream(t).Groups {
			if want := map[string]int64{store.WorkerGroup: 2, store.ExecutorGroup: 5, store.TimerGroup: 4}[g.Name]; g.Lag != want {
				t.Errorf("the group %s lags by %d, want %d", g.Name, g.Lag, want)
			}
		}
	}},
	{"messages are answered together, in order", func(t *testing.T, w *environment) {
		_, all := w.requests(t, 3)
		wantAnswered(t, true, true, true)(stream.New(w.Store).Replies(t.Context(), all))
		w.wantReplies(t, "q0/done", "q1/done", "q2/done")
		if n := w.pending(t, store.ExecutorGroup); n != 0 {
			t.Errorf("%d pending", n)
		}
	}},
	{"each answer stands alone: a message of another consumer is skipped", func(t *testing.T, w *environment) {
		msgs, all := w.requests(t, 5)
		must(t, stream.New(w.Store).AcknowledgeOwned(t.Context(), msgs[3]))
		w.letAge(t, 0, msgs[1])
		now, err := w.Now(t.Context())
		must(t, err)
		claimed, _, err := stream.New(w.Store).ClaimAbandoned(t.Context(), reader(store.ExecutorGroup, "other"), 0, 1, now) // the first
		must(t, err)
		if len(claimed) != 1 || claimed[0].ID != msgs[0].ID {
			t.Fatalf("the other consumer got %v", claimed)
		}
		wantAnswered(t, false, true, true, false, true)(stream.New(w.Store).Replies(t.Context(), all))
		w.wantReplies(t, "q1/done", "q2/done", "q4/done")
		wantAnswered(t, false, false, false, false, false)(stream.New(w.Store).Replies(t.Context(), all))
		wantAnswered(t, true)(stream.New(w.Store).Replies(t.Context(), []stream.Reply{answer(claimed[0])}))
		w.wantReplies(t, "q1/done", "q2/done", "q4/done", "q0/done")
	}},
	{"an answer equals the same event published", func(t *testing.T, w *environment) {
		_, all := w.requests(t, 7)
		all[1].Event.Source = "/other"
		all[2].Event.Type = "com.other"
		all[3].Event.Task = ""
		all[4].Event.Ext = map[string]string{"more": "1"}
		all[5].Event.Data = nil
		all[6].Event.Time = all[6].Event.Time.Add(time.Second).In(time.FixedZone("there", 3600))
		wantAnswered(t, true, true, true, true, true, true, true)(stream.New(w.Store).Replies(t.Context(), all))
		got, err := w.rdb.XRevRangeN(t.Context(), streamKey, "+", "-", 7).Result()
		must(t, err)
		slices.Reverse(got)
		for _, a := range all {
			must(t, w.Publish(t.Context(), *a.Event))
		}
		want, err := w.rdb.XRevRangeN(t.Context(), streamKey, "+", "-", 7).Result()
		must(t, err)
		slices.Reverse(want)
		for i := range want {
			if diff := cmp.Diff(want[i].Values, got[i].Values); diff != "" {
				t.Errorf("%d: %s", i, diff)
			}
		}
	}},
	{"a message is answered once, whatever the order of the answers", func(t *testing.T, w *environment) {
		_, all := w.requests(t, 2)
		wantAnswered(t, true, true, false)(stream.New(w.Store).Replies(t.Context(), []stream.Reply{all[1], all[0], all[1]}))
		w.wantReplies(t, "q1/done", "q0/done")
	}},
	{"answers to messages that are far apart", func(t *testing.T, w *environment) {
		const n = 150 // too many are pending between them to be searched
		_, all := w.requests(t, n)
		wantAnswered(t, true, true, true)(stream.New(w.Store).Replies(t.Context(), []stream.Reply{all[0], all[n/2], all[n-1]}))
		wantAnswered(t, false, true, false)(stream.New(w.Store).Replies(t.Context(), []stream.Reply{all[0], all[n-2], all[n-1]}))
		if got := w.pending(t, store.ExecutorGroup); got != n-4 {
			t.Errorf("%d pending, want %d", got, n-4)
		}
	}},
	{"more answers than one script takes", func(t *testing.T, w *environment) {
		const n = 250
		_, all := w.requests(t, n)
		got, err := stream.New(w.Store).Replies(t.Context(), all)
		must(t, err)
		if slices.Contains(got, false) || len(w.replies(t)) != n || w.pending(t, store.ExecutorGroup) != 0 {
			t.Errorf("%v; %d replies", got, len(w.replies(t)))
		}
	}},
	{"a message of a removed group is not answered", func(t *testing.T, w *environment) {
		_, all := w.requests(t, 2)
		must(t, w.rdb.XGroupDestroy(t.Context(), streamKey, store.ExecutorGroup).Err())
		wantAnswered(t, false, false)(stream.New(w.Store).Replies(t.Context(), all))
		w.wantReplies(t)
	}},
	{"a failed answer is reported, a written one acknowledged", func(t *testing.T, w *environment) {
		if w.mini != nil {
			return // has no XSETID
		}
		_, all := w.requests(t, 3)
		const last = "18446744073709551615-18446744073709551613" // two more, and the stream is full
		must(t, w.rdb.Do(t.Context(), "XSETID", streamKey, last).Err())
		got, err := stream.New(w.Store).Replies(t.Context(), all)
		if err == nil || !slices.Equal(got, []bool{true, true, false}) {
			t.Errorf("given %v, %v", got, err)
		}
		w.wantReplies(t, "q0/done", "q1/done")
		if n := w.pending(t, store.ExecutorGroup); n != 1 {
			t.Errorf("%d pending, want 1", n)
		}
	}},
	{"a key that is no stream is reported", func(t *testing.T, w *environment) {
		_, all := w.requests(t, 1)
		must(t, w.rdb.Set(t.Context(), streamKey, "x", 0).Err())
		if got, err := stream.New(w.Store).Replies(t.Context(), all); err == nil || got[0] || store.Temporary(err) {
			t.Errorf("given %v, %v", got, err)
		}
	}},
	{"no answers need no command", func(t *testing.T, w *environment) { wantAnswered(t)(stream.New(w.Store).Replies(t.Context(), nil)) }},
}

// The cost of many answers, for Redis and for the executor.
func BenchmarkReplies(b *testing.B) {
	const batch = 100
	rdb := redistest.Start(b)
	w := &environment{Store: store.New(rdb, store.Options{}), rdb: rdb}
	must(b, stream.New(w.Store).Groups(b.Context(), tenant))
	must(b, rdb.ConfigResetStat(b.Context()).Err())
	n := 0
	for b.Loop() {
		b.StopTimer()
		_, all := w.requests(b, batch)
		b.StartTimer()
		if _, err := stream.New(w.Store).Replies(b.Context(), all); err != nil {
			b.Fatal(err)
		}
		n += batch
	}
	text := rdb.Info(b.Context(), "commandstats").Val()
	var handled float64
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, "cmdstat_evalsha:"); ok {
			var calls int
			_, _ = fmt.Sscanf(rest, "calls=%d,usec=%f", &calls, &handled)
		}
	}
	b.ReportMetric(handled/float64(n), "redis-µs/answer")
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(n), "µs/answer")
}
