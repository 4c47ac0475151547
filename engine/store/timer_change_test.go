package store_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/stream"
	"flunq.io/flunq/engine/store/timers"
)

// waiting starts an execution that waits for a timer at version 1, and sets the timer.
func waiting(t *testing.T, w *environment) event.Timer {
	t.Helper()
	w.commit(t, step(0, nil), store.Committed)
	at := reminder("", 0)
	at.Kind = event.WaitTimer
	mine(t, true)(schedule(t, w.Store, w.timerMessage(t, event.TimerScheduled, at), at))
	return at
}

// wantNoted fails the test unless the history ends with an entry, at a version, about a
// timer, by ada.
func (w *environment) wantNoted(t *testing.T, version int64, typ event.Type, about event.Timer) {
	t.Helper()
	x, err := w.Execution(t.Context(), tenant, execution)
	must(t, err)
	history, err := w.History(t.Context(), tenant, execution, 0, 100)
	must(t, err)
	if x.Version != version || int64(len(history)) != version {
		t.Fatalf("version %d and %d entries, want %d", x.Version, len(history), version)
	}
	var change event.TimerChange
	e := history[version-1]
	must(t, json.Unmarshal(e.Data, &change))
	if e.Type != typ || e.Task != about.TaskID || e.Execution != execution || e.Source != timers.OperatorSource || e.Time.IsZero() {
		t.Errorf("the entry is %+v", e)
	}
	if change.By != "ada" || !change.FireAt.Equal(about.FireAt) || !change.MovedTo.Equal(about.MovedTo) || change.Kind != about.Kind {
		t.Errorf("its data is %s, want %+v", e.Data, about)
	}
}

var timerChanges = []check{
	{"an operator's change of a timer is in the history", func(t *testing.T, w *environment) {
		at := waiting(t, w)
		at.MovedTo = at.FireAt.Add(time.Hour)
		w.move(t, at.MovedTo)
		w.wantNoted(t, 2, event.TimerScheduled, at)
		if done, err := timers.New(w.Store).Cancel(t.Context(), w.onlyTimer(t), "ada"); !done || err != nil {
			t.Fatal(done, err)
		}
		w.wantNoted(t, 3, event.TimerCancelled, at)
		w.commit(t, step(2, nil), store.Conflict)
		w.commit(t, step(3, nil), store.Committed)
		for name := range w.rdb.HGetAll(t.Context(), executionKey).Val() {
			if strings.HasPrefix(name, "moved:") {
				t.Errorf("field %s is left", name)
			}
		}
	}},
	{"a removed timer leaves no entry", func(t *testing.T, w *environment) {
		waiting(t, w)
		p := w.onlyTimer(t)
		must(t, w.rdb.Del(t.Context(), timersKey).Err())
		if done, err := timers.New(w.Store).Cancel(t.Context(), p, "ada"); done || err != nil {
			t.Error(done, err)
		}
		if _, done, err := timers.New(w.Store).Move(t.Context(), p, p.Moment(), "ada"); done || err != nil {
			t.Error(done, err)
		}
		if n := w.rdb.XLen(t.Context(), historyKey).Val(); n != 1 {
			t.Errorf("the history has %d entries, want 1", n)
		}
	}},
	{"an execution that has ended gets no entry", func(t *testing.T, w *environment) {
		waiting(t, w)
		p := w.onlyTimer(t)
		c := step(1, nil)
		c.Status, c.Ended = "faulted", true
		w.commit(t, c, store.Committed)
		if done, err := timers.New(w.Store).Cancel(t.Context(), p, "ada"); !done || err != nil {
			t.Error(done, err)
		}
		if n := w.rdb.XLen(t.Context(), historyKey).Val(); n != 2 {
			t.Errorf("the history has %d entries, want 2", n)
		}
	}},
	{"an invalid history prevents changes of timers", func(t *testing.T, w *environment) {
		at := waiting(t, w)
		p := w.onlyTimer(t)
		must(t, w.rdb.Del(t.Context(), historyKey).Err())
		must(t, w.rdb.Set(t.Context(), historyKey, "mine", 0).Err())
		if err := w.unchanged(t, func() error { _, err := timers.New(w.Store).Cancel(t.Context(), p, "ada"); return err }); err == nil {
			t.Error("it was cancelled")
		}
		if err := w.unchanged(t, func() error {
			_, _, err := timers.New(w.Store).Move(t.Context(), p, at.FireAt, "ada")
			return err
		}); err == nil {
			t.Error("it was moved")
		}
	}},
	{"an event names the operator who fired its timer", func(t *testing.T, w *environment) {
		waiting(t, w)
		if done, err := timers.New(w.Store).FireNow(t.Context(), w.onlyTimer(t), "ada"); !done || err != nil {
			t.Fatal(done, err)
		}
		got, err := stream.New(w.Store).Read(t.Context(), reader(store.WorkerGroup, "w1"), 10, 0)
		msgs := got.Messages
		must(t, err)
		var f event.Fired
		must(t, json.Unmarshal(msgs[len(msgs)-1].Event.Data, &f))
		if f.By != "ada" || f.FiredAt.IsZero() || f.ScheduledFor.IsZero() {
			t.Errorf("fired %+v", f)
		}
	}},
	{"a cancelled timer is restored at its position", func(t *testing.T, w *environment) {
		for _, moved := range []bool{false, true} {
			must(t, w.rdb.FlushDB(t.Context()).Err())
			at, version := waiting(t, w), int64(1)
			if moved {
				at.MovedTo = at.FireAt.Add(time.Hour)
				w.move(t, at.MovedTo)
				version++
			}
			before := w.onlyTimer(t)
			if done, err := timers.New(w.Store).Cancel(t.Context(), before, "ada"); !done || err != nil {
				t.Fatal(done, err)
			}
			found, err := timers.New(w.Store).Armed(t.Context(), []event.Timer{at})
			must(t, err)
			if found[0].ID != "" {
				t.Errorf("moved %v: it is found as %s", moved, found[0].ID)
			}
			x := store.Execution{Tenant: tenant, ID: execution, Version: version}
			again := timers.Restoration{Timers: []event.Timer{at}, Listen: []string{"com.paid"}}
			if got, err := timers.New(w.Store).Restore(t.Context(), x, again, "ada"); got != store.Conflict || err != nil || w.timers(t) != 0 {
				t.Fatalf("moved %v: of an old version it is %v, %v", moved, got, err)
			}
			x.Version++
			if got, err := timers.New(w.Store).Restore(t.Context(), x, again, "ada"); got != store.Committed || err != nil {
				t.Fatalf("moved %v: %v, %v", moved, got, err)
			}
			w.wantNoted(t, x.Version+2, event.TimerScheduled, at)
			after := w.onlyTimer(t)
			if after.ID != before.ID || after.Member != before.Member {
				t.Errorf("moved %v: it is %+v, was %+v", moved, after, before)
			}
			if listed := w.rdb.SIsMember(t.Context(), "tenant:acme:listen:com.paid", execution).Val(); !listed {
				t.Error("it is not listed as a listener")
			}
			x.Version += 2
			if got, err := timers.New(w.Store).Restore(t.Context(), x, timers.Restoration{Timers: again.Timers}, "ada"); got != store.Committed || err != nil || w.timers(t) != 1 {
				t.Errorf("moved %v: once more it is %v, %v", moved, got, err)
			}
			w.wantNoted(t, x.Version, event.TimerScheduled, at)
			plain := at
			plain.MovedTo = time.Time{}
			c := step(x.Version, nil)
			c.Cancel = []event.Timer{plain}
			w.commit(t, c, store.Committed)
			w.wantSet(t)
		}
	}},
	{"a timer that cannot be looked up is not taken for one that is not set", func(t *testing.T, w *environment) {
		at := waiting(t, w)
		for _, key := range []string{"tenant:acme:execution:" + execution, timersKey} {
			must(t, w.rdb.Del(t.Context(), key).Err())
			must(t, w.rdb.Set(t.Context(), key, "x", 0).Err())
			if found, err := timers.New(w.Store).Armed(t.Context(), []event.Timer{at}); err == nil {
				t.Errorf("although %s is a string, it finds %+v", key, found)
			}
			must(t, w.rdb.Del(t.Context(), key).Err())
		}
	}},
	{"listeners are found in their sets", func(t *testing.T, w *environment) {
		c := step(0, nil)
		c.Listen = []string{"com.b", "*"}
		w.commit(t, c, store.Committed)
		must(t, w.rdb.SAdd(t.Context(), "tenant:acme:listen:com.a", "other").Err())
		must(t, w.rdb.ZAdd(t.Context(), "tenant:acme:listen:none", redis.Z{Member: execution}).Err())
		got, err := w.ListedFor(t.Context(), tenant, execution)
		if err != nil || len(got) != 2 || got[0] != "*" || got[1] != "com.b" {
			t.Errorf("listed for %v, %v", got, err)
		}
	}},
}
