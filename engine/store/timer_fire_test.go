package store_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/stream"
	"flunq.io/flunq/engine/store/timers"
)

// overdue sets timers of a tenant, one every second since 2020.
func (w *environment) overdue(t *testing.T, of string, from, n int) {
	t.Helper()
	for i := from; i < from+n; i++ {
		one := timer(time.Duration(i) * time.Second)
		one.Tenant = of
		z := redis.Z{Score: float64(one.FireAt.UnixMicro()+1) / 1e6, Member: string(event.Encode(one))}
		must(t, w.rdb.ZAdd(t.Context(), timersKey, z).Err())
	}
}

// poll returns the due timers.
func (w *environment) poll(t *testing.T, limit int) timers.Poll {
	t.Helper()
	l, err := timers.New(w.Store).Poll(t.Context(), tenant, limit)
	must(t, err)
	return l
}

// seconds returns the seconds of due timers.
func seconds(due []timers.Due) (out string) {
	for _, d := range due {
		out += fmt.Sprint(d.FireAt.Sub(timer(0).FireAt).Seconds(), " ")
	}
	return out
}

var dueReads = []check{
	{"a delivery is superseded once its key was set again, even if that one has fired", func(t *testing.T, w *environment) {
		again := timer(0)
		again.Execution, again.Kind, again.Key = "other", event.StartTimer, "k"
		var orders []string
		for range 2 {
			_, err := timers.New(w.Store).SetInput(t.Context(), again, time.Now())
			must(t, err)
			w.fireAll(t)
			last := w.rdb.XRevRangeN(t.Context(), w.Store.Keys().Stream(tenant), "+", "-", 1).Val()[0].ID
			orders = append(orders, store.Message{ID: last}.Order())
		}
		for i, order := range orders {
			if superseded, err := timers.New(w.Store).Superseded(t.Context(), again, order); superseded != (i == 0) || err != nil {
				t.Errorf("delivery %d is superseded: %t, %v", i, superseded, err)
			}
		}
	}},
	{"firing returns the timers due next", func(t *testing.T, w *environment) {
		w.overdue(t, tenant, 0, 5)
		seen := w.poll(t, 2)
		if !seen.More || seconds(seen.Due) != "0 1 " {
			t.Fatalf("due %s, more %t", seconds(seen.Due), seen.More)
		}
		n, next, err := timers.New(w.Store).Fire(t.Context(), tenant, seen, 10)
		must(t, err)
		if n != 2 || seconds(next.Due) != "2 3 4 " || next.More || !next.Next.IsZero() || next.Now.IsZero() {
			t.Errorf("fired %d; then %s, more %t, next %v", n, seconds(next.Due), next.More, next.Next)
		}
		if n, again, err := timers.New(w.Store).Fire(t.Context(), tenant, seen, 10); n != 0 || err != nil || len(again.Due) != 3 {
			t.Errorf("fired %d again, %v; then %s", n, err, seconds(again.Due))
		}
	}},
	{"many overdue timers do not delay one that has just come due", func(t *testing.T, w *environment) {
		w.overdue(t, tenant, 0, 20)
		seen := w.poll(t, 4)
		_, next, err := timers.New(w.Store).Fire(t.Context(), tenant, seen, 4)
		must(t, err)
		if got := seconds(next.Due); got != "4 5 18 19 " || !next.More || !next.Next.Equal(next.Now) {
			t.Errorf("then %s, more %t", got, next.More)
		}
		fired := 4
		for len(next.Due) > 0 {
			var n int
			n, next, err = timers.New(w.Store).Fire(t.Context(), tenant, next, 4)
			must(t, err)
			fired += n
		}
		if fired != 20 || w.timers(t) != 0 {
			t.Errorf("fired %d, %d are left", fired, w.timers(t))
		}
	}},
	{"a read of one timer is not split", func(t *testing.T, w *environment) {
		w.overdue(t, tenant, 0, 3)
		_, next, err := timers.New(w.Store).Fire(t.Context(), tenant, w.poll(t, 1), 1)
		must(t, err)
		if got := seconds(next.Due); got != "1 " || !next.More {
			t.Errorf("then %s, more %t", got, next.More)
		}
	}},
	{"firing many in one call fires each once", func(t *testing.T, w *environment) {
		const n = 1000
		w.overdue(t, tenant, 0, n)
		must(t, w.rdb.ScriptFlush(t.Context()).Err())
		fired, next, err := timers.New(w.Store).Fire(t.Context(), tenant, w.poll(t, n), n)
		must(t, err)
		if got := w.rdb.XLen(t.Context(), streamKey).Val(); fired != n || got != n || w.timers(t) != 0 || len(next.Due) != 0 {
			t.Errorf("fired %d, %d events, %d left, then %d", fired, got, w.timers(t), len(next.Due))
		}
	}},
	{"a group that has read everything skips the events of timers, and no others", func(t *testing.T, w *environment) {
		if w.mini != nil {
			t.Skip("miniredis has no XGROUP SETID")
		}
		fire := func(n int) {
			t.Helper()
			w.overdue(t, tenant, 0, n)
			seen := w.poll(t, 100)
			if fired, _, err := timers.New(w.Store).Fire(t.Context(), tenant, seen, 100); fired != n || err != nil {
				t.Fatalf("fired %d, %v", fired, err)
			}
		}
		read := func(group string) (n int) {
			t.Helper()
			got, err := stream.New(w.Store).Read(t.Context(), reader(group, "c"), 100, 0)
			msgs := got.Messages
			must(t, err)
			return len(msgs)
		}
		must(t, w.Publish(t.Context(), event.Event{ID: "a", Source: "/test", Type: event.TimerScheduled, Tenant: tenant}))
		fire(3)
		if n := read(store.TimerGroup); n != 4 {
			t.Errorf("behind what it has not read it reads %d, want all 4", n)
		}
		fire(5)
		if n := read(store.TimerGroup); n != 0 {
			t.Errorf("it reads %d of what it has fired", n)
		}
		if n := read(store.WorkerGroup); n != 9 {
			t.Errorf("others read %d, want all 9", n)
		}
		groups, err := w.rdb.XInfoGroups(t.Context(), streamKey).Result()
		must(t, err)
		for _, g := range groups {
			if g.Name == store.TimerGroup && (g.Lag != 0 || g.EntriesRead != 9) {
				t.Errorf("it lags by %d, and has read %d, want 0 and 9", g.Lag, g.EntriesRead)
			}
		}
		// A delivery timer is an exception: its event may be for the group itself.
		m := w.sent(t, event.Event{ID: "b", Source: "/test", Type: event.TimerScheduled}, store.TimerGroup, "c")
		mine(t, true)(stream.New(w.Store).Retry(t.Context(), m, -time.Second))
		read(store.TimerGroup)
		w.overdue(t, tenant, 0, 2)
		seen := w.poll(t, 100)
		if fired, _, err := timers.New(w.Store).Fire(t.Context(), tenant, seen, 100); fired != 3 || err != nil {
			t.Fatalf("fired %d, %v", fired, err)
		}
		if n := read(store.TimerGroup); n != 1 {
			t.Errorf("of two timers and a delivery it reads %d", n)
		}
	}},
	{"events of timers hold all that is known", func(t *testing.T, w *environment) {
		full, bare := timer(0), event.Timer{Tenant: tenant, FireAt: timer(1).FireAt, Execution: execution}
		for i, one := range []event.Timer{full, bare} {
			must(t, w.rdb.ZAdd(t.Context(), timersKey, redis.Z{Score: float64(i), Member: string(event.Encode(one))}).Err())
		}
		now := w.poll(t, 1).Now
		w.fireAll(t)
		entries := w.rdb.XRange(t.Context(), streamKey, "-", "+").Val()
		if len(entries) != 2 {
			t.Fatalf("%d events, want 2", len(entries))
		}
		want := map[string]any{
			"id": "x-1/do/0/wait/wait/1577836800123456789", "source": "/flunq/timer", "specversion": "1.0",
			"type": "io.flunq.timer.fired", "tenantid": tenant, "workflowid": "test.wf", "executionid": execution, "taskid": "/do/0/wait",
		}
		for name, value := range want {
			if got := entries[0].Values[name]; got != value {
				t.Errorf("%s is %v, want %v", name, got, value)
			}
		}
		at, err := time.Parse(time.RFC3339Nano, fmt.Sprint(entries[0].Values["time"]))
		if err != nil || at.Before(now) || len(entries[0].Values) != len(want)+2 {
			t.Errorf("event %v", entries[0].Values)
		}
		for _, name := range []string{"workflowid", "taskid"} {
			if value, there := entries[1].Values[name]; there {
				t.Errorf("a timer without a task or a workflow has %s %q", name, value)
			}
		}
	}},
	{"a timer that no event requested is announced if it is the first", func(t *testing.T, w *environment) {
		m := w.sent(t, historyEvent("a", "com.x"), store.WorkerGroup, "w1")
		mine(t, true)(stream.New(w.Store).Retry(t.Context(), m, time.Hour))
		if reported := w.reported(t); reported != 1 {
			t.Errorf("the first timer is announced %d times, want once", reported)
		}
		m = w.sent(t, historyEvent("b", "com.x"), store.WorkerGroup, "w1")
		mine(t, true)(stream.New(w.Store).Retry(t.Context(), m, 2*time.Hour))
		if reported := w.reported(t); reported != 1 {
			t.Errorf("a timer behind the first is announced")
		}
		found, _, err := timers.New(w.Store).List(t.Context(), timers.Filter{}, "", 10)
		must(t, err)
		_, done, err := timers.New(w.Store).Move(t.Context(), found[1], found[0].FireAt.Add(-time.Minute), "ada")
		mine(t, true)(done, err)
		if reported := w.reported(t); reported != 2 {
			t.Errorf("%d announcements, want another one for the timer that was moved before the others", reported)
		}
	}},
	{"services can be woken if there is a stream", func(t *testing.T, w *environment) {
		must(t, timers.New(w.Store).WakeService(t.Context(), tenant))
		must(t, timers.New(w.Store).WakeService(t.Context(), "nobody"))
		if reported, there := w.reported(t), w.rdb.Exists(t.Context(), "tenant:nobody:events").Val(); reported != 1 || there != 0 {
			t.Errorf("%d announcements, want one; streams of the unknown tenant: %d, want 0", reported, there)
		}
	}},
}

// reported counts the events that announce a timer.
func (w *environment) reported(t *testing.T) (n int) {
	t.Helper()
	for _, entry := range w.rdb.XRange(t.Context(), streamKey, "-", "+").Val() {
		if entry.Values["type"] == string(event.TimerSet) {
			n++
		}
	}
	return n
}
