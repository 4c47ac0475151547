package store_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/inspect"
	"flunq.io/flunq/engine/store/stream"
	"flunq.io/flunq/engine/store/timers"
)

// overview returns the overview of the tenant, with the entries after one.
func (w *environment) overview(t *testing.T, since string) inspect.Overview {
	t.Helper()
	g, err := inspect.New(w.Store).Overview(t.Context(), tenant, since)
	must(t, err)
	return g
}

// pages returns all matching timers of the tenant, page by page, which must be the same in
// both directions.
func (w *environment) pages(t *testing.T, q timers.Query) []timers.Pending {
	t.Helper()
	q.Tenant = tenant
	there := w.pagesOneWay(t, q)
	q.Back = true
	same := func(a, b timers.Pending) bool { return a.Member == b.Member }
	if back := w.pagesOneWay(t, q); q.After == "" && !slices.EqualFunc(there, back, same) {
		t.Errorf("from the end: %v, want %v", back, there)
	}
	return there
}

func (w *environment) pagesOneWay(t *testing.T, q timers.Query) (out []timers.Pending) {
	t.Helper()
	for range 1000 {
		page, err := timers.New(w.Store).Page(t.Context(), q)
		must(t, err)
		if len(page.Timers) > q.Limit {
			t.Fatalf("a page of %d, want at most %d", len(page.Timers), q.Limit)
		}
		if q.Back {
			out = append(page.Timers, out...)
		} else {
			out = append(out, page.Timers...)
		}
		if page.Next == "" {
			return out
		}
		q.After = page.Next
	}
	t.Fatal("the pages have no end")
	return nil
}

var overviews = []check{
	{"an overview counts, and samples new entries", func(t *testing.T, w *environment) {
		if g := w.overview(t, ""); g.Now.IsZero() || g.Last != "" || g.Sample != 0 || g.More || g.Open+g.Timers+g.Dead != 0 {
			t.Errorf("of nothing: %+v", g)
		}
		for i := range 3 {
			w.started(t, fmt.Sprintf("x-%d", i), "shop.order", createdAt(i))
		}
		w.reaches(t, "x-0", "completed", 0)
		w.reaches(t, "x-1", "faulted", 0)
		must(t, w.rdb.ZAdd(t.Context(), timersKey, redis.Z{Score: 1, Member: "{}"}, redis.Z{Score: 9e9, Member: "{ }"}).Err())
		must(t, w.rdb.XAdd(t.Context(), &redis.XAddArgs{Stream: deadKey, Values: []string{"reason", "x"}}).Err())
		g := w.overview(t, "")
		if g.Open != 1 || g.Completed != 1 || g.Faulted != 1 || g.Cancelled != 0 || g.Dead != 1 || g.Timers != 2 || g.Overdue != 1 {
			t.Errorf("counts: %+v", g)
		}
		if g.Sample != 5 || g.More || g.Last == "" || g.Oldest.IsZero() || w.mini == nil && g.Added != 5 {
			t.Errorf("sample: %+v", g)
		}
		last := g.Last
		for _, typ := range []event.Type{event.TimerFired, event.WorkflowFailed, "other"} {
			e := historyEvent("e", typ)
			e.Tenant, e.Execution = tenant, "x-1"
			must(t, w.Publish(t.Context(), e))
		}
		g = w.overview(t, last)
		if g.Sample != 3 || g.Fired != 1 || !slices.Equal(g.Failed, []string{"x-1"}) || g.More {
			t.Errorf("since %s: %+v", last, g)
		}
		if again := w.overview(t, g.Last); again.Sample != 0 || again.Last != "" {
			t.Errorf("since the last: %+v", again)
		}
	}},
	{"an overview reads few entries, and fewer that are large", func(t *testing.T, w *environment) {
		w.entries(t, numbered(300)...)
		if g := w.overview(t, ""); g.Sample != 128 || !g.More || g.Last != "1000-300" {
			t.Errorf("of 300 entries: %+v", g)
		}
		for range 40 {
			e := historyEvent("e", "large")
			e.Tenant, e.Data = tenant, []byte(`"`+strings.Repeat("x", 50_000)+`"`)
			must(t, w.Publish(t.Context(), e))
		}
		if g := w.overview(t, "1000-300"); g.Sample != 16 || !g.More {
			t.Errorf("of large entries: %+v", g)
		}
	}},
	{"pending entries are listed with their events", func(t *testing.T, w *environment) {
		held, err := inspect.New(w.Store).PendingEntries(t.Context(), "nobody", store.ExecutorGroup, 5)
		must(t, err)
		if len(held) != 0 {
			t.Errorf("nobody holds %v", held)
		}
		e := historyEvent("e", event.TaskRequested)
		e.Data = event.Encode(event.Requested{TaskType: "call"})
		m := w.sent(t, e, store.ExecutorGroup, "c1")
		held, err = inspect.New(w.Store).PendingEntries(t.Context(), tenant, store.ExecutorGroup, 5)
		must(t, err)
		if len(held) != 1 || held[0].ID != m.ID || held[0].Consumer != "c1" || held[0].Event.Type != event.TaskRequested ||
			held[0].Event.Execution != e.Execution || string(held[0].Event.Data) != string(e.Data) || held[0].Since.IsZero() {
			t.Errorf("held: %+v", held)
		}
		unread := historyEvent("f", event.TaskRequested)
		unread.Task = "/do/1/later"
		must(t, w.Publish(t.Context(), unread))
		got, err := inspect.New(w.Store).Requests(t.Context(), tenant, store.ExecutorGroup, e.Execution)
		must(t, err)
		if len(got.Taken) != 1 || got.Taken[e.Task].Consumer != "c1" || len(got.Unread) != 1 || !got.Unread["/do/1/later"] || got.Lag != 1 || got.Delivered.IsZero() {
			t.Errorf("requests: %+v", got)
		}
		if got, err = inspect.New(w.Store).Requests(t.Context(), tenant, "nobody", e.Execution); err != nil || len(got.Taken) != 0 || len(got.Unread) != 2 {
			t.Errorf("requests of a group that has read nothing: %+v, %v", got, err)
		}
	}},
	{"the last events of histories are read together, without long data", func(t *testing.T, w *environment) {
		w.started(t, "x-1", "shop.order", createdAt(0))
		w.started(t, "x-2", "shop.order", createdAt(0))
		long := historyEvent("long", event.TaskCompleted)
		long.Data = event.Encode(event.Completed{Output: event.Encode(strings.Repeat("x", 5000))})
		c := step(0, nil)
		c.History = []event.Event{historyEvent("a", event.TaskRequested), long, historyEvent("c", event.TimerFired)}
		w.commit(t, c, store.Committed)
		got, err := inspect.New(w.Store).Latest(t.Context(), tenant, 2, "x-1", "nobody", c.Execution)
		must(t, err)
		if len(got) != 3 || len(got[1]) != 0 || len(got[2]) != 2 || len(got[2][0].Data) != 0 ||
			got[2][0].Type != event.TaskCompleted || got[2][1].Type != event.TimerFired {
			t.Errorf("latest: %+v", got)
		}
	}},
	{"errors of executions are described in one line", func(t *testing.T, w *environment) {
		w.started(t, "x-1", "shop.order", createdAt(0))
		c := step(0, nil)
		c.Status, c.Ended, c.Error = "faulted", true, event.Encode(event.Problem{Title: "no tea", Detail: "at all"})
		w.commit(t, c, store.Committed)
		got, err := inspect.New(w.Store).Problems(t.Context(), tenant, "x-1", "nobody")
		must(t, err)
		if diff := cmp.Diff([]string{"no tea: at all", ""}, got); diff != "" {
			t.Error(diff)
		}
	}},
	{"events are read page by page, without long data", func(t *testing.T, w *environment) {
		long := `"` + strings.Repeat("x", 5000) + `"`
		for i := range 7 {
			e := historyEvent(fmt.Sprint("e", i), "note")
			e.Tenant, e.Data = tenant, []byte(`"short"`)
			if i == 3 {
				e.Data = []byte(long)
			}
			must(t, w.Publish(t.Context(), e))
		}
		var got []string
		var longID string
		for next := ""; ; {
			found, more, err := inspect.New(w.Store).Events(t.Context(), tenant, store.Range{To: next, Count: 3})
			must(t, err)
			for _, p := range found {
				got = append(got, p.Event.ID+" "+string(p.Event.Data))
				if p.Event.ID == "e3" {
					longID = p.ID
				}
			}
			if next = more; next == "" {
				break
			}
		}
		oldest, more, err := inspect.New(w.Store).Events(t.Context(), tenant, store.Range{Count: 2, Oldest: true})
		must(t, err)
		if len(oldest) != 2 || oldest[0].Event.ID != "e0" || more == "" {
			t.Errorf("the oldest: %v, %q", oldest, more)
		}
		want := []string{`e6 "short"`, `e5 "short"`, `e4 "short"`, `e3 `, `e2 "short"`, `e1 "short"`, `e0 "short"`}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		p, err := inspect.New(w.Store).Event(t.Context(), tenant, longID)
		must(t, err)
		if string(p.Event.Data) != long {
			t.Errorf("%d bytes of data", len(p.Event.Data))
		}
		if _, err := inspect.New(w.Store).Event(t.Context(), tenant, "1-1"); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("an event that is gone: %v", err)
		}
		if _, err := inspect.New(w.Store).Event(t.Context(), tenant, "what"); !errors.Is(err, store.ErrName) {
			t.Errorf("no id: %v", err)
		}
	}},
	{"dead letters can be read without long data", func(t *testing.T, w *environment) {
		e := historyEvent("e", "note")
		e.Data = []byte(`"` + strings.Repeat("x", 5000) + `"`)
		w.dead(t, w.sent(t, e, store.WorkerGroup, "c"), "no")
		for brief, want := range map[bool]int{true: 0, false: 5002} {
			deadLetters, _, err := stream.New(w.Store).DeadLetters(t.Context(), stream.DeadLetterQuery{Tenant: tenant, Range: store.Range{Brief: brief, Count: 1}})
			must(t, err)
			if len(deadLetters) != 1 || deadLetters[0].Reason != "no" || len(deadLetters[0].Event.Data) != want {
				t.Errorf("brief %v: %+v", brief, deadLetters)
			}
		}
	}},
	{"a limited number of executions is read, by id first", func(t *testing.T, w *environment) {
		w.fill(t, 2500)
		looked, passed := 0, 0
		q := store.ExecutionQuery{
			Limit: 10, MaxScanned: 1000,
			PassID: func(id string) bool { looked++; return strings.HasSuffix(id, "7") },
			Pass:   func(store.Execution) bool { passed++; return false },
		}
		found, next, err := w.Executions(t.Context(), tenant, q)
		must(t, err)
		if len(found) != 0 || next == "" || looked < 1000 || looked > 2100 || passed == 0 || passed > looked/9 {
			t.Errorf("%d found, next %q, %d looked at, %d passed", len(found), next, looked, passed)
		}
	}},
}

var timerPages = []check{
	{"timers are listed page by page, even if many are due at the same moment", func(t *testing.T, w *environment) {
		if got := w.pages(t, timers.Query{Limit: 3, MaxScanned: 100}); len(got) != 0 {
			t.Errorf("of nothing: %v", got)
		}
		for i := range 20 {
			one := timer(time.Duration(i%3) * time.Hour)
			one.Key, one.Kind = fmt.Sprintf("k%02d", i), "reminder"
			other := one
			other.Tenant = "other"
			for _, set := range []event.Timer{one, other} {
				_, score := timers.ID(set)
				must(t, w.rdb.ZAdd(t.Context(), timersKey, redis.Z{Score: score, Member: string(event.Encode(set))}).Err())
			}
		}
		listed, _, err := timers.New(w.Store).List(t.Context(), timers.Filter{Tenant: tenant}, "", 100)
		must(t, err)
		var want []string
		for _, p := range listed {
			want = append(want, p.ID)
		}
		for _, limit := range []int{1, 3, 7, 19, 20, 21, 100} {
			var got []string
			for _, p := range w.pages(t, timers.Query{Limit: limit, MaxScanned: 4}) {
				got = append(got, p.ID)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("pages of %d: %s", limit, diff)
			}
		}
		pass := func(p timers.Pending) bool { return p.Key == "k07" }
		if got := w.pages(t, timers.Query{Limit: 5, MaxScanned: 3, Match: pass}); len(got) != 1 {
			t.Errorf("of a filter: %v", got)
		}
	}},
	{"the position of a removed timer is found", func(t *testing.T, w *environment) {
		var all []timers.Pending
		for i := range 30 {
			one := timer(time.Duration(i/10) * time.Hour)
			one.Key, one.Kind = fmt.Sprintf("ké%02d", i), "reminder"
			_, score := timers.ID(one)
			must(t, w.rdb.ZAdd(t.Context(), timersKey, redis.Z{Score: score, Member: string(event.Encode(one))}).Err())
		}
		all = w.pages(t, timers.Query{Limit: 100, MaxScanned: 100})
		for i, p := range all {
			must(t, w.rdb.ZRem(t.Context(), timersKey, p.Member).Err())
			rest := w.pages(t, timers.Query{Limit: 100, MaxScanned: 100, After: p.Cursor()})
			if len(rest) != len(all)-i-1 || len(rest) > 0 && rest[0].ID != all[i+1].ID {
				t.Fatalf("behind timer %d: %d, want %d", i, len(rest), len(all)-i-1)
			}
			before := w.pages(t, timers.Query{Limit: 7, MaxScanned: 100, After: p.Cursor(), Back: true})
			if len(before) != i || i > 0 && before[i-1].ID != all[i-1].ID {
				t.Fatalf("before timer %d: %d", i, len(before))
			}
			_, score := timers.ID(p.Timer)
			must(t, w.rdb.ZAdd(t.Context(), timersKey, redis.Z{Score: score, Member: p.Member}).Err())
		}
	}},
}
