package store_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/timers"
)

// startedUntil starts an execution, with a parent unless it is "", and gives it a status.
func (w *environment) startedUntil(t *testing.T, id, parent, status string, at time.Time) {
	t.Helper()
	w.started(t, id, "test.wf", at)
	if status == "" {
		return
	}
	c := step(0, nil)
	c.Execution, c.Status, c.Workflow, c.Started, c.Parent, c.Now = id, status, "", at, parent, at.Add(time.Second)
	c.Ended = status == "completed" || status == "faulted" || status == "cancelled"
	w.commit(t, c, store.Committed)
}

// forget removes executions until none is left to remove, and returns their number.
func (w *environment) forget(t *testing.T, keep store.Keep) (gone int) {
	t.Helper()
	var at store.ForgetProgress
	for range 1000 {
		n, next, done, err := w.Forget(t.Context(), tenant, keep, at)
		must(t, err)
		gone, at = gone+n, next
		if done {
			return gone
		}
	}
	t.Fatal("it does not end")
	return gone
}

// remaining returns the ids of executions that have any key left.
func (w *environment) remaining(t *testing.T) []string {
	t.Helper()
	keys, err := w.rdb.Keys(t.Context(), "tenant:acme:execution:*").Result()
	must(t, err)
	var ids []string
	for _, key := range keys {
		ids = append(ids, strings.TrimSuffix(strings.TrimPrefix(plainName(key), "tenant:acme:execution:"), ":history"))
	}
	for _, index := range []string{"open", "completed", "faulted", "cancelled"} {
		members, err := w.rdb.ZRange(t.Context(), "tenant:acme:executions:"+index, 0, -1).Result()
		must(t, err)
		ids = append(ids, members...)
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// longAgo returns a time that is long past on both clocks.
func longAgo(ms int) time.Time { return time.Date(2020, 1, 1, 0, 0, 0, ms*1e6, time.UTC) }

var removals = []check{
	{"the weight of a few large executions and of many small ones", func(t *testing.T, w *environment) {
		if w.mini != nil || w.memory != nil {
			t.Skip("only redis-server knows how much memory a key takes")
		}
		at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		for i := range 12 {
			w.started(t, fmt.Sprint("large", i), "test.wf", at)
			c := step(0, nil)
			c.Execution, c.Status, c.Ended, c.Started, c.Now = fmt.Sprint("large", i), "completed", true, at, at
			size := 5_000
			if i == 3 { // neither among the first four by id nor among the last four
				size *= 20
			}
			c.Output = json.RawMessage(strconv.Quote(strings.Repeat("x", size)))
			w.commit(t, c, store.Committed)
		}
		for i := range 50 {
			w.startedUntil(t, fmt.Sprint("small", i), "", "faulted", at)
		}
		exact := int64(0)
		all, _, err := w.Executions(t.Context(), tenant, store.ExecutionQuery{Limit: 100})
		must(t, err)
		for _, x := range all {
			exact += w.rdb.MemoryUsage(t.Context(), w.Keys().Execution(tenant, x.ID)).Val() + w.rdb.MemoryUsage(t.Context(), w.Keys().History(tenant, x.ID)).Val()
		}
		got, err := w.Weight(t.Context(), tenant)
		must(t, err)
		if got < exact || got > exact*5/4 {
			t.Errorf("the weight is %d bytes, want at least the %d of the keys and at most a quarter more", got, exact)
		}
	}},
	{"nothing of a removed tenant is left", func(t *testing.T, w *environment) {
		waiting(t, w)
		own := w.Keys()
		must(t, w.Redis().ZAdd(t.Context(), own.AskedTimers(tenant), redis.Z{Member: "x"}).Err())
		must(t, timers.New(w.Store).RemoveTenant(t.Context(), tenant))
		must(t, w.RemoveTenant(t.Context(), tenant))
		if some, n, err := store.RemainingKeys(t.Context(), w.Store, tenant); n != 0 || err != nil {
			t.Errorf("left are %v, %v", some, err)
		}
		if n := w.timers(t); n != 0 {
			t.Errorf("%d timers are left", n)
		}
		for _, key := range []string{own.TimerKeys(tenant), own.ForgottenKeys(tenant), own.AskedTimers(tenant)} {
			if n := w.Redis().Exists(t.Context(), key).Val(); n != 0 && w.Keys().Clustered() {
				t.Errorf("%s is left", key)
			}
		}
	}},
	{"an execution that ended long ago is removed completely", func(t *testing.T, w *environment) {
		for i, status := range []string{"completed", "faulted", "cancelled", "running", "waiting", "suspended", ""} {
			w.startedUntil(t, fmt.Sprint("x-", i), "", status, longAgo(i))
		}
		if n := w.forget(t, store.Keep{}); n != 0 {
			t.Errorf("%d gone, though all are kept", n)
		}
		if n := w.forget(t, store.Keep{Age: 100 * 365 * 24 * time.Hour, Count: 3}); n != 0 {
			t.Errorf("%d gone, though they are young and few", n)
		}
		if n := w.forget(t, store.Keep{Age: time.Hour}); n != 3 {
			t.Errorf("%d gone, want 3", n)
		}
		if diff := cmp.Diff([]string{"x-3", "x-4", "x-5", "x-6"}, w.remaining(t)); diff != "" {
			t.Error(diff)
		}
		w.started(t, "x-0", "test.wf", longAgo(0)) // its id is free again
	}},
	{"the age counts from the end", func(t *testing.T, w *environment) {
		now, err := w.Now(t.Context())
		must(t, err)
		for id, ended := range map[string]time.Time{"old": now.Add(-61 * time.Minute), "young": now.Add(-59 * time.Minute)} {
			w.started(t, id, "test.wf", longAgo(0))
			c := step(0, nil)
			c.Execution, c.Status, c.Workflow, c.Started, c.Now, c.Ended = id, "completed", "", longAgo(0), ended, true
			w.commit(t, c, store.Committed)
		}
		if n := w.forget(t, store.Keep{Age: time.Hour}); n != 1 {
			t.Errorf("%d gone, want 1", n)
		}
		if diff := cmp.Diff([]string{"young"}, w.remaining(t)); diff != "" {
			t.Error(diff)
		}
	}},
	{"the newest executions of a tenant are kept, whatever their index, and all for a minimum time", func(t *testing.T, w *environment) {
		var want []string
		for i := range 350 {
			id := fmt.Sprintf("x-%03d", i)
			w.startedUntil(t, id, "", []string{"completed", "faulted", "cancelled", "waiting"}[i%4], longAgo(i))
			if i%4 == 3 || i >= 350-90 {
				want = append(want, id)
			}
		}
		keep := store.Keep{Count: 68, Least: 100 * 365 * 24 * time.Hour} // 90 less the 22 that wait
		if n := w.forget(t, keep); n != 0 {
			t.Errorf("%d gone, though they are young", n)
		}
		keep.Least = time.Minute
		if n := w.forget(t, keep); n != 350-len(want) {
			t.Errorf("%d gone, want %d", n, 350-len(want))
		}
		if diff := cmp.Diff(want, w.remaining(t)); diff != "" {
			t.Error(diff)
		}
	}},
	{"a child stays while its parent runs, and does not keep others", func(t *testing.T, w *environment) {
		w.startedUntil(t, "p-0", "", "waiting", longAgo(0))
		w.startedUntil(t, "p-1", "", "faulted", longAgo(1))
		for i := range 450 {
			w.startedUntil(t, fmt.Sprintf("c-%03d", i), fmt.Sprint("p-", i/150), "completed", longAgo(i+2)) // p-2 does not exist
		}
		if n := w.forget(t, store.Keep{Age: time.Hour}); n != 301 {
			t.Errorf("%d gone, want 300 children and a parent", n)
		}
		if left := w.remaining(t); len(left) != 151 || left[0] != "c-000" || left[149] != "c-149" || left[150] != "p-0" {
			t.Errorf("left are %v", left)
		}
		w.reaches(t, "p-0", "completed", 1)
		if n := w.forget(t, store.Keep{Age: time.Hour}); n != 150 && n != 151 { // on miniredis it has ended just now
			t.Errorf("%d gone, want the children", n)
		}
	}},
	{"a retried execution stays, and one that another program removed leaves the index", func(t *testing.T, w *environment) {
		w.startedUntil(t, "again", "", "faulted", longAgo(0))
		w.startedUntil(t, "gone", "", "completed", longAgo(1))
		w.reaches(t, "again", "running", 1)
		must(t, w.rdb.Del(t.Context(), "tenant:acme:execution:gone").Err())
		// As if the index had not been updated.
		must(t, w.rdb.ZAdd(t.Context(), "tenant:acme:executions:faulted", redis.Z{Score: 0, Member: "again"}).Err())
		if n := w.forget(t, store.Keep{Age: time.Hour}); n != 1 {
			t.Errorf("%d gone, want 1", n)
		}
		if diff := cmp.Diff([]string{"again"}, w.remaining(t)); diff != "" {
			t.Error(diff)
		}
	}},
	{"the retention that was applied is recorded", func(t *testing.T, w *environment) {
		want := store.Keep{Age: 36 * time.Hour, Count: 7}
		for _, want := range []store.Keep{{}, want} {
			w.forget(t, want)
			if got, err := w.Kept(t.Context(), tenant); err != nil || got != want {
				t.Errorf("%+v, %v, want %+v", got, err, want)
			}
		}
		must(t, w.rdb.Set(t.Context(), "tenant:acme:executions:kept", "\x1b", 0).Err())
		if _, err := w.Kept(t.Context(), tenant); err == nil {
			t.Error("an invalid record is no error")
		}
	}},
	{"several processes remove executions while others end, are retried and begin", func(t *testing.T, w *environment) {
		var wg sync.WaitGroup
		done := make(chan struct{})
		gone := make([]int, 3)
		for i := range gone {
			wg.Go(func() {
				var at store.ForgetProgress
				for last := false; ; {
					n, next, end, err := w.Forget(t.Context(), tenant, store.Keep{Age: time.Hour}, at)
					if err != nil {
						t.Error(err)
						return
					}
					gone[i] += n
					if at = next; end {
						at = store.ForgetProgress{}
						if last {
							return
						}
						select {
						case <-done:
							last = true
						default:
						}
					}
				}
			})
		}
		born, retried := w.changeAtRandom(t, rand.New(rand.NewPCG(7, 7)), 600)
		close(done)
		wg.Wait()
		if left := w.remaining(t); gone[0]+gone[1]+gone[2]+len(left) != born || len(left) != retried {
			t.Errorf("%v gone and %d left of %d, of which %d go on", gone, len(left), born, retried)
		}
		for _, id := range w.remaining(t) {
			x, err := w.Execution(t.Context(), tenant, id)
			must(t, err)
			history, err := w.History(t.Context(), tenant, id, 0, 10)
			must(t, err)
			if x.Status != "running" || x.Version != 2 || len(history) != 2 {
				t.Errorf("%s is %s at version %d with a history of %d", id, x.Status, x.Version, len(history))
			}
		}
	}},
}

// changeAtRandom ends executions and retries some of those that still exist.
func (w *environment) changeAtRandom(t *testing.T, chance *rand.Rand, n int) (begun, retried int) {
	t.Helper()
	for i := range n {
		id := fmt.Sprint("x-", i)
		w.startedUntil(t, id, "", "faulted", longAgo(i))
		if begun++; chance.IntN(2) == 0 {
			continue
		}
		if before := fmt.Sprint("x-", i-chance.IntN(min(i+1, 3))); w.retry(t, before) {
			retried++
		}
	}
	return begun, retried
}

// retry reopens a faulted execution, and reports whether it existed.
func (w *environment) retry(t *testing.T, id string) bool {
	t.Helper()
	c := step(1, nil)
	c.Execution, c.Status, c.Workflow = id, "running", ""
	c.History = []event.Event{historyEvent(id+"/again", event.ExecutionRetried)}
	outcome, err := w.Commit(t.Context(), c)
	must(t, err)
	return outcome == store.Committed
}
