package store_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/inspect"
	"flunq.io/flunq/engine/store/stream"
	"flunq.io/flunq/engine/store/timers"
)

const timerKeysKey = "flunq:timers:keys"

// reminder returns a producer's timer with a key, due in the year 2500.
func reminder(key string, after time.Duration) event.Timer {
	t := timer(0)
	t.Kind, t.Key = "reminder", key
	t.FireAt = time.Date(2500, 1, 1, 0, 0, 0, 0, time.UTC).Add(after)
	return t
}

// timerMessage returns the message that requests or cancels a timer.
func (w *environment) timerMessage(t *testing.T, typ event.Type, about event.Timer) store.Message {
	t.Helper()
	_, err := stream.New(w.Store).Read(t.Context(), reader(store.TimerGroup, "t0"), 100, 0) // earlier entries
	must(t, err)
	e := historyEvent("asked", typ)
	e.Data = event.Encode(about)
	return w.sent(t, e, store.TimerGroup, "t1")
}

// setTimes returns the times of all timers, relative to that of a reminder.
func (w *environment) setTimes(t *testing.T) []time.Duration {
	t.Helper()
	found, next, err := timers.New(w.Store).List(t.Context(), timers.Filter{}, "", 100)
	must(t, err)
	if next != "" {
		t.Errorf("there are more behind %s", next)
	}
	var out []time.Duration
	for _, p := range found {
		out = append(out, p.Moment().Sub(reminder("", 0).FireAt))
	}
	return out
}

// wantSet fails the test unless exactly these timers are set.
func (w *environment) wantSet(t *testing.T, want ...time.Duration) {
	t.Helper()
	if got := w.setTimes(t); !slices.Equal(got, want) {
		t.Errorf("timers after %v, want %v", got, want)
	}
}

// onlyTimer returns the only timer that is set.
func (w *environment) onlyTimer(t *testing.T) timers.Pending {
	t.Helper()
	found, _, err := timers.New(w.Store).List(t.Context(), timers.Filter{}, "", 10)
	must(t, err)
	if len(found) != 1 {
		t.Fatalf("timers %v, want one", found)
	}
	return found[0]
}

var keyedTimers = []check{
	{"a keyed timer replaces the previous one, and no other", func(t *testing.T, w *environment) {
		for _, one := range []event.Timer{
			reminder("a", time.Hour), reminder("b", time.Hour), reminder("a", time.Minute), reminder("", 0), reminder("", time.Second),
		} {
			mine(t, true)(schedule(t, w.Store, w.timerMessage(t, event.TimerScheduled, one), one))
		}
		w.wantSet(t, 0, time.Second, time.Minute, time.Hour)
	}},
	{"a late request does not replace a newer one", func(t *testing.T, w *environment) {
		old, newer := reminder("a", time.Hour), reminder("a", time.Minute)
		omitted := w.timerMessage(t, event.TimerScheduled, old)
		mine(t, true)(schedule(t, w.Store, w.timerMessage(t, event.TimerScheduled, newer), newer))
		mine(t, true)(schedule(t, w.Store, omitted, old))
		w.wantSet(t, time.Minute)
	}},
	{"a postponed request does not replace a newer one", func(t *testing.T, w *environment) {
		old, newer := reminder("a", time.Hour), reminder("a", time.Minute)
		omitted := w.timerMessage(t, event.TimerScheduled, old)
		mine(t, true)(stream.New(w.Store).Retry(t.Context(), omitted, -time.Hour))
		mine(t, true)(schedule(t, w.Store, w.timerMessage(t, event.TimerScheduled, newer), newer))
		if n := len(w.fireAll(t)); n != 1 {
			t.Fatalf("%d deliveries, want 1", n)
		}
		again := w.read(t, store.TimerGroup, "t1")
		if again.ID == omitted.ID || again.Attempt != 1 || len(again.Event.Ext) != 0 {
			t.Fatalf("delivered again as %+v", again)
		}
		mine(t, true)(schedule(t, w.Store, again, old))
		w.wantSet(t, time.Minute)
	}},
	{"a key cancels its timer", func(t *testing.T, w *environment) {
		one := reminder("a", time.Hour)
		mine(t, true)(schedule(t, w.Store, w.timerMessage(t, event.TimerScheduled, one), one))
		omitted := w.timerMessage(t, event.TimerScheduled, one)
		bare := event.Timer{Tenant: tenant, Execution: one.Execution, TaskID: one.TaskID, Kind: event.WaitTimer, Key: "a"}
		cancelled := w.timerMessage(t, event.TimerCancelled, bare)
		mine(t, true)(unschedule(t, w.Store, cancelled, bare))
		w.wantSet(t)
		mine(t, true)(schedule(t, w.Store, omitted, one))
		w.wantSet(t)
		mine(t, true)(schedule(t, w.Store, w.timerMessage(t, event.TimerScheduled, one), one))
		w.wantSet(t, time.Hour)
	}},
	{"a late cancellation leaves newer timers", func(t *testing.T, w *environment) {
		one := reminder("a", time.Hour)
		omitted := w.timerMessage(t, event.TimerCancelled, one)
		mine(t, true)(schedule(t, w.Store, w.timerMessage(t, event.TimerScheduled, one), one))
		mine(t, true)(unschedule(t, w.Store, omitted, one))
		w.wantSet(t, time.Hour)
	}},
	{"an older request is not applied after the newer timer has fired", func(t *testing.T, w *environment) {
		old, newer := reminder("a", time.Hour), reminder("a", 0)
		newer.FireAt = timer(0).FireAt
		omitted := w.timerMessage(t, event.TimerScheduled, old)
		mine(t, true)(schedule(t, w.Store, w.timerMessage(t, event.TimerScheduled, newer), newer))
		w.fireAll(t)
		mine(t, true)(schedule(t, w.Store, omitted, old))
		w.wantSet(t)
		if n := w.rdb.HLen(t.Context(), timerKeysKey).Val(); n != 1 {
			t.Errorf("%d keys are kept, want 1", n)
		}
	}},
	{"data about keys without a timer is removed after an hour", func(t *testing.T, w *environment) {
		for i := range 30 {
			one := reminder(fmt.Sprint("k", i), time.Hour)
			mine(t, true)(schedule(t, w.Store, w.timerMessage(t, event.TimerScheduled, one), one))
			done, err := timers.New(w.Store).Cancel(t.Context(), w.onlyTimer(t), "ada")
			if err != nil || !done {
				t.Fatalf("dropped %v, %v", done, err)
			}
			for _, entry := range w.rdb.ZRangeWithScores(t.Context(), timerKeysKey+":forgotten", 0, -1).Val() {
				must(t, w.rdb.ZAdd(t.Context(), timerKeysKey+":forgotten", redis.Z{Score: entry.Score - 1000, Member: entry.Member}).Err())
			}
		}
		if n := w.rdb.HLen(t.Context(), timerKeysKey).Val(); n > 5 {
			t.Errorf("%d keys are kept, want those of the last hour", n)
		}
	}},
	{"the engine's own timers have no keys", func(t *testing.T, w *environment) {
		for _, kind := range []event.TimerKind{event.TimeoutTimer, event.RetryTimer} {
			for i := range 2 {
				one := reminder("attempt", time.Duration(i)*time.Second)
				one.Kind = kind
				mine(t, true)(schedule(t, w.Store, w.timerMessage(t, event.TimerScheduled, one), one))
			}
		}
		if n, keys := w.timers(t), w.rdb.Exists(t.Context(), timerKeysKey).Val(); n != 4 || keys != 0 {
			t.Errorf("%d timers, keys %d, want 4 and none", n, keys)
		}
	}},
}

// move moves the only timer.
func (w *environment) move(t *testing.T, to time.Time) timers.Pending {
	t.Helper()
	moved, done, err := timers.New(w.Store).Move(t.Context(), w.onlyTimer(t), to, "ada")
	must(t, err)
	if !done || !moved.Moment().Equal(to) {
		t.Fatalf("moved %v to %v, want %v", done, moved.Moment(), to)
	}
	return moved
}

var movedTimers = []check{
	{"a moved timer fires at its new time, with its original data", func(t *testing.T, w *environment) {
		w.commit(t, step(0, nil), store.Committed)
		at := reminder("", 0)
		at.Kind = event.WaitTimer
		mine(t, true)(schedule(t, w.Store, w.timerMessage(t, event.TimerScheduled, at), at))
		w.move(t, at.FireAt.Add(time.Hour))
		to := time.Date(2021, 6, 1, 0, 0, 0, 0, time.UTC)
		moved := w.move(t, to)
		if again, err := timers.New(w.Store).Find(t.Context(), tenant, moved.ID); err != nil || again.Member != moved.Member {
			t.Errorf("found %v, %v, want %v", again.Member, err, moved.Member)
		}
		w.fireAll(t)
		got, err := stream.New(w.Store).Read(t.Context(), reader(store.WorkerGroup, "w1"), 10, 0)
		msgs := got.Messages
		must(t, err)
		for _, m := range msgs {
			if m.Event.Type != event.TimerFired {
				continue
			}
			var f event.Fired
			must(t, json.Unmarshal(m.Event.Data, &f))
			if !f.FireAt.Equal(at.FireAt) || !f.ScheduledFor.Equal(to) || f.Kind != at.Kind || f.FiredAt.Before(to) {
				t.Errorf("fired %+v", f)
			}
			return
		}
		t.Error("it did not fire")
	}},
	{"a moved timer is cancelled by a commit that knows its original time", func(t *testing.T, w *environment) {
		w.commit(t, step(0, nil), store.Committed)
		at := reminder("", 0)
		at.Kind = event.WaitTimer
		mine(t, true)(schedule(t, w.Store, w.timerMessage(t, event.TimerScheduled, at), at))
		w.move(t, at.FireAt.Add(time.Hour))
		w.move(t, at.FireAt.Add(time.Minute))
		c := step(3, nil)
		c.Cancel = []event.Timer{at}
		w.commit(t, c, store.Committed)
		w.wantSet(t)
		for name := range w.rdb.HGetAll(t.Context(), executionKey).Val() {
			if strings.HasPrefix(name, "gone:") || strings.HasPrefix(name, "moved:") {
				t.Errorf("field %s is left", name)
			}
		}
	}},
	{"data about moved timers is removed with the execution", func(t *testing.T, w *environment) {
		w.commit(t, step(0, nil), store.Committed)
		at := reminder("", 0)
		mine(t, true)(schedule(t, w.Store, w.timerMessage(t, event.TimerScheduled, at), at))
		w.move(t, at.FireAt.Add(time.Hour))
		c := step(2, nil)
		c.Status, c.Ended = "completed", true
		w.commit(t, c, store.Committed)
		for name := range w.rdb.HGetAll(t.Context(), executionKey).Val() {
			if strings.HasPrefix(name, "moved:") {
				t.Errorf("field %s is left", name)
			}
		}
	}},
	{"a moved timer is cancelled by its owner, with a key or without", func(t *testing.T, w *environment) {
		for _, key := range []string{"", "a"} {
			at := reminder(key, 0)
			mine(t, true)(schedule(t, w.Store, w.timerMessage(t, event.TimerScheduled, at), at))
			w.move(t, at.FireAt.Add(time.Hour))
			mine(t, true)(unschedule(t, w.Store, w.timerMessage(t, event.TimerCancelled, at), at))
			w.wantSet(t)
		}
		if n := w.rdb.Exists(t.Context(), executionKey).Val(); n != 0 {
			t.Error("moving created an execution")
		}
	}},
	{"a moved keyed timer is replaced by a newer request", func(t *testing.T, w *environment) {
		at := reminder("a", 0)
		mine(t, true)(schedule(t, w.Store, w.timerMessage(t, event.TimerScheduled, at), at))
		w.move(t, at.FireAt.Add(time.Hour))
		at.FireAt = at.FireAt.Add(time.Second)
		mine(t, true)(schedule(t, w.Store, w.timerMessage(t, event.TimerScheduled, at), at))
		w.wantSet(t, time.Second)
	}},
	{"a removed timer is not moved", func(t *testing.T, w *environment) {
		at := reminder("", 0)
		mine(t, true)(schedule(t, w.Store, w.timerMessage(t, event.TimerScheduled, at), at))
		p := w.onlyTimer(t)
		for _, want := range []bool{true, false} {
			if done, err := timers.New(w.Store).Cancel(t.Context(), p, "ada"); done != want || err != nil {
				t.Errorf("dropped %v, %v, want %v", done, err, want)
			}
		}
		if _, done, err := timers.New(w.Store).Move(t.Context(), p, at.FireAt, "ada"); done || err != nil || w.timers(t) != 0 {
			t.Errorf("moved %v, %v", done, err)
		}
	}},
	{"fields of other programs stay when a timer is moved", func(t *testing.T, w *environment) {
		const member = `{"execution_id":"x-9","note":{"a":[1]},"fire_at":"2400-01-15T10:30:00.123456789+02:00","tenant_id":"acme"}`
		must(t, w.rdb.ZAdd(t.Context(), timersKey, redis.Z{Score: 13569813000.1234567, Member: member}).Err())
		for i := range 2 {
			to := reminder("", time.Duration(i)*time.Hour).FireAt
			moved := w.move(t, to)
			if want := strings.TrimSuffix(member, "}") + `,"moved_to":"` + to.Format(time.RFC3339Nano) + `"}`; moved.Member != want {
				t.Errorf("member %s, want %s", moved.Member, want)
			}
		}
	}},
	{"a timer can be fired early, once", func(t *testing.T, w *environment) {
		at := reminder("", 0)
		at.Kind = event.WaitTimer
		mine(t, true)(schedule(t, w.Store, w.timerMessage(t, event.TimerScheduled, at), at))
		p := w.onlyTimer(t)
		for _, want := range []bool{true, false} {
			if done, err := timers.New(w.Store).FireNow(t.Context(), p, "ada"); done != want || err != nil {
				t.Errorf("fired %v, %v, want %v", done, err, want)
			}
		}
		var types []event.Type
		got, err := stream.New(w.Store).Read(t.Context(), reader(store.WorkerGroup, "w1"), 10, 0)
		msgs := got.Messages
		must(t, err)
		for _, m := range msgs {
			types = append(types, m.Event.Type)
		}
		if want := []event.Type{event.TimerScheduled, event.TimerFired}; !slices.Equal(types, want) || w.timers(t) != 0 {
			t.Errorf("events %v, want %v", types, want)
		}
	}},
}

var listings = []check{
	{"timers are listed in order, page by page", func(t *testing.T, w *environment) {
		var members []redis.Z
		for i := range 57 { // many at the same time, too
			at := reminder("", time.Duration(i/20)*time.Second)
			at.TaskID = fmt.Sprint("/do/", (i*31)%57)
			members = append(members, redis.Z{Score: float64(at.FireAt.Unix()), Member: string(event.Encode(at))})
		}
		must(t, w.rdb.ZAdd(t.Context(), timersKey, members...).Err())
		all, next, err := timers.New(w.Store).List(t.Context(), timers.Filter{}, "", 1000)
		must(t, err)
		if len(all) != 57 || next != "" {
			t.Fatalf("%d timers, then %q", len(all), next)
		}
		for _, size := range []int{1, 7, 56, 57} {
			var ids []string
			for after := ""; ; {
				page, next, err := timers.New(w.Store).List(t.Context(), timers.Filter{Execution: execution}, after, size)
				must(t, err)
				for _, p := range page {
					ids = append(ids, p.ID)
				}
				if after = next; after == "" {
					break
				}
			}
			if len(ids) != 57 || len(slices.Compact(slices.Sorted(slices.Values(ids)))) != 57 || ids[40] != all[40].ID {
				t.Errorf("in pages of %d: %d ids", size, len(ids))
			}
		}
		done, err := timers.New(w.Store).Cancel(t.Context(), all[30], "ada")
		if err != nil || !done {
			t.Fatal(done, err)
		}
		rest, _, err := timers.New(w.Store).List(t.Context(), timers.Filter{}, all[30].ID, 100)
		if err != nil || len(rest) < 26 {
			t.Errorf("behind one that is gone there are %d, %v", len(rest), err)
		}
	}},
	{"timers are listed by workflow, execution and kind", func(t *testing.T, w *environment) {
		for i, one := range []event.Timer{
			{Tenant: "acme", Execution: "x-1", Workflow: "a.b", Kind: event.WaitTimer},
			{Tenant: "acme", Execution: "x-11", Workflow: "a.c", Kind: event.RetryTimer},
			{Tenant: "beta", Execution: "x-1", Workflow: "a.b"},
			{Tenant: "beta", Execution: `x "1"`, Workflow: "a.b", Kind: "odd"},
		} {
			one.FireAt = timer(time.Duration(i) * time.Hour).FireAt
			must(t, w.rdb.ZAdd(t.Context(), timersKey, redis.Z{Score: float64(one.FireAt.Unix()) + 1, Member: string(event.Encode(one))}).Err())
		}
		must(t, w.rdb.ZAdd(t.Context(), timersKey, redis.Z{Score: 1, Member: "junk"}).Err())
		for _, c := range []struct {
			filter timers.Filter
			want   int
		}{
			{timers.Filter{}, 5},
			{timers.Filter{Tenant: "acme"}, 2},
			{timers.Filter{Tenant: "beta", Workflow: "a.b"}, 2},
			{timers.Filter{Execution: "x-1"}, 2},
			{timers.Filter{Execution: `x "1"`}, 1},
			{timers.Filter{Kind: event.WaitTimer}, 2},
			{timers.Filter{Until: timer(90 * time.Minute).FireAt}, 3},
		} {
			if found, _, err := timers.New(w.Store).List(t.Context(), c.filter, "", 100); err != nil || len(found) != c.want {
				t.Errorf("%+v: %d timers, %v, want %d", c.filter, len(found), err, c.want)
			}
		}
	}},
	{"a timer is found by its id or a prefix", func(t *testing.T, w *environment) {
		times := []time.Time{
			time.Unix(0, 1).UTC(), timer(0).FireAt, timer(time.Microsecond).FireAt, reminder("", 0).FireAt,
			time.Date(9999, 12, 31, 23, 59, 59, 999999999, time.UTC), time.Date(1950, 1, 1, 0, 0, 0, 5, time.UTC),
		}
		for i, at := range times {
			one := timer(0)
			one.FireAt, one.TaskID = at, fmt.Sprint("/do/", i)
			mine(t, true)(schedule(t, w.Store, w.timerMessage(t, event.TimerScheduled, one), one))
		}
		all, _, err := timers.New(w.Store).List(t.Context(), timers.Filter{}, "", 100)
		must(t, err)
		for _, p := range all {
			for _, id := range []string{p.ID, strings.ToUpper(p.ID), p.ID[:len(p.ID)-4]} {
				if found, err := timers.New(w.Store).Find(t.Context(), tenant, id); err != nil || found.Member != p.Member {
					t.Errorf("%s is %v, %v, want %v", id, found.Member, err, p.Member)
				}
			}
		}
	}},
	{"an unknown or ambiguous id is reported", func(t *testing.T, w *environment) {
		for i := range 40 {
			one := reminder("", 0)
			one.TaskID = fmt.Sprint("/do/", i)
			mine(t, true)(schedule(t, w.Store, w.timerMessage(t, event.TimerScheduled, one), one))
		}
		all, _, err := timers.New(w.Store).List(t.Context(), timers.Filter{}, "", 100)
		must(t, err)
		first, hash, _ := strings.Cut(all[0].ID, "-")
		for id, want := range map[string]error{
			"junk": store.ErrNotFound, "no/id": store.ErrName, "": store.ErrName, first + "-": store.ErrName, "!-0": store.ErrName,
			first + "-zz": store.ErrNotFound, "0-" + hash: store.ErrNotFound,
		} {
			if _, err := timers.New(w.Store).Find(t.Context(), tenant, id); !errors.Is(err, want) {
				t.Errorf("%q: %v, want %v", id, err, want)
			}
		}
		ambiguous := false
		for _, digit := range "0123456789abcdef" {
			_, err := timers.New(w.Store).Find(t.Context(), tenant, first+"-"+string(digit))
			ambiguous = ambiguous || errors.Is(err, timers.ErrAmbiguous)
		}
		if !ambiguous {
			t.Error("none of 16 beginnings of 40 ids is ambiguous")
		}
	}},
	{"unregistered timers of other key schemes are found", func(t *testing.T, w *environment) {
		const key = "tenant:acme:workflow:orders:events"
		future := reminder("", 0)
		past, set, fired := timer(0), reminder("", time.Hour), reminder("", time.Minute)
		must(t, w.rdb.ZAdd(t.Context(), timersKey, redis.Z{
			Score:  float64(set.FireAt.Unix()),
			Member: `{"tenant_id":"acme","execution_id":"x-1","task_id":"/do/0/wait","fire_at":"2500-01-01T01:00:00Z","old":1}`,
		}).Err())
		for _, one := range []struct {
			typ   event.Type
			timer event.Timer
		}{
			{event.TimerScheduled, past},
			{event.TimerScheduled, set},
			{event.TimerScheduled, future},
			{event.TimerScheduled, fired},
			{event.TimerFired, fired},
			{event.TaskCompleted, future},
		} {
			e := historyEvent("e", one.typ)
			e.Data = event.Encode(one.timer)
			must(t, w.rdb.XAdd(t.Context(), &redis.XAddArgs{Stream: key, Values: e.Fields()}).Err())
		}
		must(t, w.rdb.Set(t.Context(), "tenant:acme:workflow:text:events", "no stream", 0).Err())
		must(t, w.rdb.XAdd(t.Context(), &redis.XAddArgs{Stream: "tenant:beta:workflow:b:events", Values: []string{"event", "{}"}}).Err())
		streams, complete, err := inspect.New(w.Store).OtherStreams(t.Context(), "*", 10)
		must(t, err)
		if len(streams) != 2 || !complete || streams[0] != (inspect.OtherStream{Key: key, Tenant: "acme"}) {
			t.Fatalf("streams %+v, %v", streams, complete)
		}
		found, err := inspect.New(w.Store).Unregistered(t.Context(), streams[0], 1000)
		must(t, err)
		if len(found) != 1 || !found[0].FireAt.Equal(future.FireAt) || found[0].Stream != key || found[0].Entry == "" {
			t.Errorf("found %+v", found)
		}
		if found, err := inspect.New(w.Store).Unregistered(t.Context(), streams[1], 1000); err != nil || len(found) != 0 {
			t.Errorf("found %+v, %v in a stream without any", found, err)
		}
	}},
}
