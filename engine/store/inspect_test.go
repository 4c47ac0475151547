package store_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/inspect"
)

// stream returns the state of the tenant's stream.
func (w *environment) stream(t *testing.T) inspect.Stream {
	t.Helper()
	found, err := inspect.New(w.Store).Streams(t.Context(), []string{tenant})
	must(t, err)
	return found[0]
}

// lags returns the numbers of unread entries of the executors, the timers and the workers.
func (w *environment) lags(t *testing.T) (out []int64) {
	t.Helper()
	for _, g := range w.stream(t).Groups {
		out = append(out, g.Lag)
	}
	return out
}

// stalled returns the executions without a next step.
func (w *environment) stalled(t *testing.T) inspect.Stuck {
	t.Helper()
	next, err := inspect.New(w.Store).TimerOwners(t.Context(), []string{tenant})
	must(t, err)
	out, err := inspect.New(w.Store).Stuck(t.Context(), tenant, inspect.StuckQuery{Limit: 10, Quiet: 5 * time.Minute, Next: next})
	must(t, err)
	return out
}

var inspections = []check{
	{"a stream shows how far its groups have read", func(t *testing.T, w *environment) {
		w.entries(t, numbered(10)...)
		ids := w.take(t, store.WorkerGroup, 6)
		w.done(t, store.WorkerGroup, ids[0], ids[1])
		must(t, w.rdb.XAdd(t.Context(), &redis.XAddArgs{Stream: deadKey, Values: []string{"reason", "x"}}).Err())
		found, err := inspect.New(w.Store).Streams(t.Context(), []string{"nobody", tenant})
		must(t, err)
		want := []inspect.Stream{{Tenant: "nobody", Key: "tenant:nobody:events"}, {
			Tenant: tenant, Key: streamKey, Length: 10, First: "1000-1", Dead: 1,
			Groups: []inspect.Group{
				{Name: store.ExecutorGroup, Delivered: "0-0", Lag: 10},
				{Name: store.TimerGroup, Delivered: "0-0", Lag: 10},
				{
					Name: store.WorkerGroup, Delivered: "1000-6", Pending: 4, Lag: 4,
					Consumers: []inspect.Consumer{{Name: "c", Pending: 4}},
					Oldest:    inspect.Delivery{ID: "1000-3", Consumer: "c", Count: 1},
				},
			},
		}}
		last := &found[1].Groups[2]
		if last.Oldest.Idle > time.Minute || last.Consumers[0].Idle > time.Minute {
			t.Errorf("idle for %v and %v", last.Oldest.Idle, last.Consumers[0].Idle)
		}
		last.Oldest.Idle, last.Consumers[0].Idle = 0, 0
		for i := range found[1].Groups {
			if found[1].Groups[i].Delivered == "0" { // as miniredis reports it
				found[1].Groups[i].Delivered = "0-0"
			}
		}
		for i := range want {
			want[i].Key = w.Keys().Stream(want[i].Tenant)
		}
		if diff := cmp.Diff(want, found); diff != "" {
			t.Error(diff)
		}
	}},
	{"lag counts unread entries, even after trims and deletes", func(t *testing.T, w *environment) {
		w.entries(t, numbered(30)...)
		w.readAll(t, store.TimerGroup, store.WorkerGroup)
		w.done(t, store.ExecutorGroup, w.take(t, store.ExecutorGroup, 21)...)
		if got := w.lags(t); !slices.Equal(got, []int64{9, 0, 0}) {
			t.Errorf("lags %v", got)
		}
		w.trim(t, 0, 0, 20)
		if got := w.lags(t); !slices.Equal(got, []int64{9, 0, 0}) {
			t.Errorf("after trimming: lags %v", got)
		}
		must(t, w.rdb.XDel(t.Context(), streamKey, "1000-25").Err())
		if got := w.lags(t); !slices.Equal(got, []int64{8, 0, 0}) {
			t.Errorf("after a deletion: lags %v", got)
		}
	}},
	{"a key that is no stream does not hide the others", func(t *testing.T, w *environment) {
		must(t, w.rdb.Set(t.Context(), "tenant:odd:events", "x", 0).Err())
		found, err := inspect.New(w.Store).Streams(t.Context(), []string{"odd", tenant})
		if len(found) != 1 || found[0].Tenant != tenant || err == nil || !strings.Contains(err.Error(), "odd") {
			t.Errorf("got %v, %v", found, err)
		}
	}},
	{"abandoned messages are found", func(t *testing.T, w *environment) {
		m := w.sent(t, historyEvent("in", "com.x"), store.WorkerGroup, "gone")
		got, err := inspect.New(w.Store).Unclaimed(t.Context(), tenant, store.WorkerGroup, time.Minute)
		must(t, err)
		if got != (inspect.Delivery{}) {
			t.Errorf("found %v at once", got)
		}
		w.letAge(t, time.Hour, m)
		got, err = inspect.New(w.Store).Unclaimed(t.Context(), tenant, store.WorkerGroup, time.Minute)
		must(t, err)
		if got.ID != m.ID || got.Consumer != "gone" || got.Idle < time.Hour {
			t.Errorf("found %v, want %s", got, m.ID)
		}
	}},
	{"late timers are counted", func(t *testing.T, w *environment) {
		now, err := w.Now(t.Context())
		must(t, err)
		for i, omitted := range []time.Duration{time.Hour, time.Minute, -time.Hour} {
			at := float64(now.Add(-omitted).UnixMicro()) / 1e6
			must(t, w.rdb.ZAdd(t.Context(), timersKey, redis.Z{Score: at, Member: strconv.Itoa(i)}).Err())
		}
		found, err := inspect.New(w.Store).Overdue(t.Context(), []string{tenant, "other"}, 5*time.Minute)
		must(t, err)
		if passed := found.Now.Sub(now); found.Count != 3 || found.Overdue != 1 || passed < 0 || passed > time.Minute {
			t.Errorf("found %+v at %v", found, now)
		}
	}},
	{"an execution without a next step is found", func(t *testing.T, w *environment) {
		m := w.sent(t, historyEvent("in", event.ExecutionStarted), store.WorkerGroup, "w1")
		c := step(0, &m)
		c.Publish = nil
		w.commit(t, c, store.Committed)
		w.readAll(t, store.ExecutorGroup, store.TimerGroup)
		if w.mini != nil {
			w.mini.SetTime(time.Date(2026, 1, 1, 1, 0, 0, 0, time.UTC))
		}
		want := inspect.Stuck{Examined: 1, Open: 1, Found: []string{execution}}
		if diff := cmp.Diff(want, w.stalled(t)); diff != "" {
			t.Error(diff)
		}
	}},
	{"an execution with an event in flight is not stalled", func(t *testing.T, w *environment) {
		m := w.sent(t, historyEvent("in", event.ExecutionStarted), store.WorkerGroup, "w1")
		w.commit(t, step(0, &m), store.Committed)
		w.readAll(t, store.WorkerGroup, store.TimerGroup)
		if w.mini != nil {
			w.mini.SetTime(time.Date(2026, 1, 1, 1, 0, 0, 0, time.UTC))
		}
		for name, change := range map[string]func(){
			"unread":  func() {},
			"pending": func() { w.take(t, store.ExecutorGroup, 10) },
		} {
			change()
			if got := w.stalled(t); len(got.Found) > 0 || got.Unsure != "" {
				t.Errorf("%s: %+v", name, got)
			}
		}
		w.done(t, store.ExecutorGroup, w.left(t)...)
		put := timer(0)
		must(t, w.rdb.ZAdd(t.Context(), timersKey, redis.Z{Score: 1, Member: string(event.Encode(put))}).Err())
		if got := w.stalled(t); len(got.Found) > 0 {
			t.Errorf("with a timer: %+v", got)
		}
		must(t, w.rdb.Del(t.Context(), timersKey).Err())
		if got := w.stalled(t); len(got.Found) != 1 {
			t.Errorf("with nothing: %+v", got)
		}
	}},
	{"an execution that waits or has just advanced is not stalled", func(t *testing.T, w *environment) {
		c := step(0, nil)
		c.Publish, c.Status = nil, "waiting"
		w.commit(t, c, store.Committed)
		c = step(0, nil)
		now, err := w.Now(t.Context())
		must(t, err)
		c.Publish, c.Execution, c.History[0].Time = nil, "x-2", now
		w.commit(t, c, store.Committed)
		if w.mini != nil {
			w.mini.SetTime(now.Add(4 * time.Minute))
		}
		if got := w.stalled(t); len(got.Found) > 0 || got.Open != 2 {
			t.Errorf("%+v", got)
		}
	}},
	{"executions that are in no index are found", func(t *testing.T, w *environment) {
		listed := step(0, nil)
		listed.Publish = nil
		w.commit(t, listed, store.Committed)
		for id, status := range map[string]string{"old-1": "running", "old-2": "completed"} {
			must(t, w.rdb.HSet(t.Context(), "tenant:acme:execution:"+id, "status", status, "version", "3").Err())
		}
		must(t, w.rdb.HSet(t.Context(), "tenant:other:execution:old-3", "status", "running", "version", "3").Err())
		for _, of := range []struct {
			tenants []string
			want    map[string][]string
		}{
			{[]string{tenant}, map[string][]string{tenant: {"old-1", "old-2"}}},
			{[]string{tenant, "other"}, map[string][]string{tenant: {"old-1", "old-2"}, "other": {"old-3"}}},
			{[]string{tenant, "third"}, map[string][]string{tenant: {"old-1", "old-2"}}},
			{nil, nil},
		} {
			got, complete, err := inspect.New(w.Store).Unlisted(t.Context(), of.tenants, 10)
			must(t, err)
			if diff := cmp.Diff(of.want, got); diff != "" || !complete {
				t.Errorf("of %v, %v: %s", of.tenants, complete, diff)
			}
		}
	}},
	{"too large a backlog is reported", func(t *testing.T, w *environment) {
		must(t, w.rdb.ZAdd(t.Context(), "tenant:acme:executions:open", redis.Z{Member: execution}).Err())
		w.entries(t, numbered(1001)...)
		if got := w.stalled(t); !strings.Contains(got.Unsure, "1001") && !strings.Contains(got.Unsure, "1000") {
			t.Errorf("%+v", got)
		}
	}},
	{"a server reports its state", func(t *testing.T, w *environment) {
		v, err := w.Server(t.Context())
		must(t, err)
		now, err := w.Now(t.Context())
		must(t, err)
		if d := now.Sub(v.Time); d < 0 || d > time.Minute {
			t.Errorf("its time is %v, want %v", v.Time, now)
		}
		must(t, w.CheckServer(t.Context()))
		if w.mini != nil {
			want := store.ReadServer("", nil)
			want.Time, want.Clients = v.Time, v.Clients
			if diff := cmp.Diff(want, v); diff != "" {
				t.Error(diff)
			}
			return
		}
		if v.Version == "" || v.Role != "master" || v.Policy == "" || v.AppendOnly == "" || v.Saves == "" || v.Used <= 0 || v.Uptime < 0 {
			t.Errorf("it says only %+v", v)
		}
	}},
}
