package store_test

import (
	"encoding/json"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/stream"
	"flunq.io/flunq/engine/store/timers"
)

// timer is a timer of the execution, due at a given offset from a moment in the past.
func timer(after time.Duration) event.Timer {
	return event.Timer{
		Tenant: tenant, Workflow: "test.wf", Execution: execution, TaskID: "/do/0/wait", TaskName: "wait",
		FireAt: time.Date(2020, 1, 1, 0, 0, 0, 123456789, time.UTC).Add(after), Kind: event.WaitTimer,
	}
}

// scheduled is the message that requests a timer.
func (w *environment) scheduled(t *testing.T, asked event.Timer) store.Message {
	t.Helper()
	_, err := stream.New(w.Store).Read(t.Context(), reader(store.TimerGroup, "t0"), 100, 0) // earlier entries
	must(t, err)
	e := historyEvent("t/"+asked.FireAt.String(), event.TimerScheduled)
	e.Data = event.Encode(asked)
	return w.sent(t, e, store.TimerGroup, "t1")
}

// fireAll fires due timers and returns what Due returned.
func (w *environment) fireAll(t *testing.T) []timers.Due {
	t.Helper()
	poll, err := timers.New(w.Store).Poll(t.Context(), tenant, 100)
	must(t, err)
	n, _, err := timers.New(w.Store).Fire(t.Context(), tenant, poll, 1)
	must(t, err)
	if n != len(poll.Due) {
		t.Fatalf("fired %d of %d", n, len(poll.Due))
	}
	return poll.Due
}

func (w *environment) timers(t *testing.T) int64 {
	t.Helper()
	return w.rdb.ZCard(t.Context(), timersKey).Val()
}

var timerCommits = []check{
	{"a timer is set once, at its time", func(t *testing.T, w *environment) {
		want := timer(0)
		m := w.scheduled(t, want)
		mine(t, true)(schedule(t, w.Store, m, want))
		mine(t, false)(schedule(t, w.Store, m, want))
		mine(t, true)(schedule(t, w.Store, w.scheduled(t, want), want))
		all := w.rdb.ZRangeWithScores(t.Context(), timersKey, 0, -1).Val()
		if len(all) != 1 || w.pending(t, store.TimerGroup) != 0 {
			t.Fatalf("timers %v, %d messages pending", all, w.pending(t, store.TimerGroup))
		}
		const member = `{"tenant_id":"acme","workflow_id":"test.wf","execution_id":"x-1","task_id":"/do/0/wait",` +
			`"task_name":"wait","fire_at":"2020-01-01T00:00:00.123456789Z","kind":"wait"}`
		if all[0].Member != member {
			t.Errorf("member %v, want %s", all[0].Member, member)
		}
		if all[0].Score < 1577836800.123456 || all[0].Score > 1577836800.123458 {
			t.Errorf("score %v", all[0].Score)
		}
	}},
	{"a timer cancelled before it was set is never set", func(t *testing.T, w *environment) {
		c := step(0, nil)
		c.Cancel = []event.Timer{timer(0)}
		w.commit(t, c, store.Committed)
		mine(t, true)(schedule(t, w.Store, w.scheduled(t, timer(0)), timer(0)))
		mine(t, true)(schedule(t, w.Store, w.scheduled(t, timer(time.Second)), timer(time.Second)))
		if n := w.timers(t); n != 1 {
			t.Errorf("%d timers, want the other one alone", n)
		}
		for name := range w.rdb.HGetAll(t.Context(), executionKey).Val() {
			if strings.HasPrefix(name, "gone:") {
				t.Errorf("tombstone %s is left", name)
			}
		}
	}},
	{"a timer cancelled after it was set leaves nothing", func(t *testing.T, w *environment) {
		mine(t, true)(schedule(t, w.Store, w.scheduled(t, timer(0)), timer(0)))
		c := step(0, nil)
		c.Cancel = []event.Timer{timer(0)}
		w.commit(t, c, store.Committed)
		if n, fields := w.timers(t), w.rdb.HLen(t.Context(), executionKey).Val(); n != 0 || fields != 5 {
			t.Errorf("%d timers, %d fields of the execution, want 0 and 5", n, fields)
		}
	}},
	{"an execution that has ended sets no timer", func(t *testing.T, w *environment) {
		c := step(0, nil)
		c.Status, c.Ended = "faulted", true
		w.commit(t, c, store.Committed)
		mine(t, true)(schedule(t, w.Store, w.scheduled(t, timer(0)), timer(0)))
		if n := w.timers(t); n != 0 {
			t.Errorf("%d timers, want none", n)
		}
	}},
	{"only the owner of the message can cancel a timer", func(t *testing.T, w *environment) {
		mine(t, true)(schedule(t, w.Store, w.scheduled(t, timer(0)), timer(0)))
		m := w.sent(t, historyEvent("c", event.TimerCancelled), store.TimerGroup, "t1")
		stolen := w.claimByOther(t, m)
		mine(t, false)(unschedule(t, w.Store, m, timer(0)))
		if w.timers(t) != 1 {
			t.Error("a message that is another's took the timer out")
		}
		mine(t, true)(unschedule(t, w.Store, stolen, timer(0)))
		if w.timers(t) != 0 || w.pending(t, store.TimerGroup) != 0 {
			t.Error("the timer is still there")
		}
	}},
	{"a timer that cannot be set leaves the message pending", func(t *testing.T, w *environment) {
		m := w.scheduled(t, timer(0))
		must(t, w.rdb.Set(t.Context(), timersKey, "mine", 0).Err())
		err := w.unchanged(t, func() error { _, err := schedule(t, w.Store, m, timer(0)); return err })
		if err == nil || w.pending(t, store.TimerGroup) != 1 {
			t.Errorf("error %v, %d pending", err, w.pending(t, store.TimerGroup))
		}
	}},
}

var firings = []check{
	{"due timers fire once, in order, with their times", func(t *testing.T, w *environment) {
		for _, after := range []time.Duration{2 * time.Second, 0, time.Second} {
			at := timer(after)
			mine(t, true)(schedule(t, w.Store, w.scheduled(t, at), at))
		}
		poll, err := timers.New(w.Store).Poll(t.Context(), tenant, 2)
		due, next, now := poll.Due, poll.Next, poll.Now
		must(t, err)
		if len(due) != 2 || next.After(now) || next.IsZero() {
			t.Fatalf("due %v, next %v at %v: want two, and more immediately", due, next, now)
		}
		for range 2 {
			_, _, err = timers.New(w.Store).Fire(t.Context(), tenant, poll, 1)
			must(t, err)
		}
		got, err := stream.New(w.Store).Read(t.Context(), reader(store.WorkerGroup, "w1"), 100, 0)
		msgs := got.Messages
		must(t, err)
		var fired []string
		for _, m := range msgs {
			if m.Event.Type != event.TimerFired {
				continue
			}
			var f event.Fired
			must(t, json.Unmarshal(m.Event.Data, &f))
			fired = append(fired, f.ScheduledFor.Format(time.RFC3339Nano))
			if f.FiredAt.Before(f.ScheduledFor) || !f.FireAt.Equal(f.ScheduledFor) || m.Event.Execution != execution ||
				m.Event.Task != "/do/0/wait" || !strings.HasPrefix(m.Event.ID, execution+"/do/0/wait/wait") {
				t.Errorf("event %+v, %+v", m.Event, f)
			}
		}
		if want := []string{"2020-01-01T00:00:00.123456789Z", "2020-01-01T00:00:01.123456789Z"}; !slices.Equal(fired, want) {
			t.Errorf("fired %v, want %v", fired, want)
		}
		if w.timers(t) != 1 {
			t.Errorf("%d timers left, want 1", w.timers(t))
		}
	}},
	{"a timer never fires early", func(t *testing.T, w *environment) {
		now, err := w.Now(t.Context())
		must(t, err)
		omitted := timer(0)
		omitted.FireAt = now.Add(time.Hour)
		mine(t, true)(schedule(t, w.Store, w.scheduled(t, omitted), omitted))
		poll, err := timers.New(w.Store).Poll(t.Context(), tenant, 10)
		due, next := poll.Due, poll.Next
		must(t, err)
		if len(due) != 0 || next.Before(omitted.FireAt) || next.Sub(omitted.FireAt) > time.Microsecond {
			t.Errorf("due %v, next %v, want %v", due, next, omitted.FireAt)
		}
		member := w.rdb.ZRange(t.Context(), timersKey, 0, 0).Val()[0]
		n, _, err := timers.New(w.Store).Fire(t.Context(), tenant, timers.Poll{Due: []timers.Due{{Timer: omitted, Member: member}}}, 1)
		if err != nil || n != 0 || w.timers(t) != 1 {
			t.Errorf("fired %d, %v, %d left", n, err, w.timers(t))
		}
	}},
	{"the last microsecond counts", func(t *testing.T, w *environment) {
		if w.mini == nil {
			t.Skip("the clock of a real Redis does not stand still")
		}
		at := timer(0) // …789 ns: due in the microsecond after the one it lies in
		mine(t, true)(schedule(t, w.Store, w.scheduled(t, at), at))
		for _, c := range []struct {
			now  time.Time
			want int
		}{
			{at.FireAt.Truncate(time.Microsecond), 0},
			{at.FireAt.Truncate(time.Microsecond).Add(time.Microsecond), 1},
		} {
			w.mini.SetTime(c.now)
			if poll, err := timers.New(w.Store).Poll(t.Context(), tenant, 10); err != nil || len(poll.Due) != c.want {
				t.Errorf("at %v %d are poll.Due, want %d", c.now, len(poll.Due), c.want)
			}
		}
	}},
	{"a score is never before its time, and keeps the order", func(t *testing.T, w *environment) {
		start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
		times := []time.Time{
			time.Date(2001, 9, 9, 1, 46, 39, 999999999, time.UTC),
			time.Date(2262, 4, 12, 0, 0, 0, 0, time.UTC), time.Date(2600, 1, 1, 0, 0, 0, 1, time.UTC),
			time.Date(9999, 12, 31, 23, 59, 59, 999999999, time.UTC),
		}
		for i := range 500 {
			times = append(times, start.Add(time.Duration(i)*97*time.Nanosecond))
		}
		for _, at := range times {
			must(t, w.rdb.Del(t.Context(), timersKey).Err())
			f := timer(0)
			f.FireAt = at
			m := w.sent(t, historyEvent("s", event.TimerScheduled), store.TimerGroup, "t1")
			mine(t, true)(schedule(t, w.Store, m, f))
			score := w.rdb.ZRangeWithScores(t.Context(), timersKey, 0, 0).Val()[0].Score
			if scoreBefore(score, at) {
				t.Errorf("score %.9f is before %v (%d.%09d)", score, at, at.Unix(), at.Nanosecond())
			}
		}
	}},
	{"timers in the far future do not precede due ones", func(t *testing.T, w *environment) {
		for i := range 5 {
			far := timer(0)
			far.FireAt = time.Date(2500, 1, 1, 0, 0, i, 0, time.UTC)
			mine(t, true)(schedule(t, w.Store, w.scheduled(t, far), far))
		}
		mine(t, true)(schedule(t, w.Store, w.scheduled(t, timer(0)), timer(0)))
		if poll, err := timers.New(w.Store).Poll(t.Context(), tenant, 2); err != nil || len(poll.Due) != 1 {
			t.Errorf("due %v, %v, want one", poll.Due, err)
		}
	}},
	{"an invalid timer is dead-lettered", func(t *testing.T, w *environment) {
		members := []string{`{"broken`, `{"tenant_id":"No Tenant","fire_at":"2020-01-01T00:00:00Z"}`, `{"fire_at":"2020-01-01T00:00:00Z"}`}
		for i, text := range members {
			must(t, w.rdb.ZAdd(t.Context(), timersKey, redis.Z{Score: float64(i), Member: text}).Err())
		}
		before := w.rdb.Keys(t.Context(), "*").Val()
		if due := w.fireAll(t); len(due) != len(members) {
			t.Fatalf("due %v", due)
		}
		deadLetters := w.rdb.XRange(t.Context(), deadKey, "-", "+").Val()
		if len(deadLetters) != len(members) || w.timers(t) != 0 {
			t.Fatalf("dead letters %v, %d timers left", deadLetters, w.timers(t))
		}
		for i, deadLetter := range deadLetters {
			if deadLetter.Values["timer"] != members[i] || deadLetter.Values["reason"] == "" {
				t.Errorf("dead letter %v, want that of %s", deadLetter, members[i])
			}
		}
		if after := w.rdb.Keys(t.Context(), "*").Val(); len(after) != len(before) {
			t.Errorf("keys %v, were %v", after, before) // the dead letters instead of the timers
		}
	}},
	{"a timer of another program fires", func(t *testing.T, w *environment) {
		const member = `{"execution_id":"x-1","fire_at":"2024-01-15T10:30:00.123456789+02:00","tenant_id":"acme","note":"hi"}`
		must(t, w.rdb.ZAdd(t.Context(), timersKey, redis.Z{Score: 1705307400.1234567, Member: member}).Err())
		w.fireAll(t)
		if e := w.read(t, store.WorkerGroup, "w1").Event; e.Type != event.TimerFired || e.Execution != execution || w.timers(t) != 0 {
			t.Errorf("event %+v", e)
		}
	}},
	{"a stream that cannot be written keeps its timer, and the others fire", func(t *testing.T, w *environment) {
		must(t, w.rdb.Set(t.Context(), "tenant:bad:events", "mine", 0).Err())
		bad := timer(0)
		bad.Tenant = "bad"
		for i, one := range []event.Timer{bad, timer(time.Second)} {
			must(t, w.rdb.ZAdd(t.Context(), timersKey, redis.Z{Score: float64(i), Member: string(event.Encode(one))}).Err())
		}
		poll, err := timers.New(w.Store).Poll(t.Context(), tenant, 10)
		must(t, err)
		n, _, err := timers.New(w.Store).Fire(t.Context(), tenant, poll, 1)
		if n != 1 || w.timers(t) != 1 {
			t.Errorf("fired %d, %v; %d timers left, want 1 and 1", n, err, w.timers(t))
		}
	}},
	{"in a cluster every key of a script is in one slot", func(t *testing.T, w *environment) {
		st := store.New(w.rdb, store.Options{Cluster: true})
		both := []string{"a", "b"}
		if own, all := timers.New(st).Indexes(both), timers.New(w.Store).Indexes(both); len(own) != 2 || len(all) != 1 {
			t.Errorf("indexes %v and %v", own, all)
		}
		must(t, stream.New(st).Groups(t.Context(), tenant))
		must(t, st.Start(t.Context(), historyEvent("s", event.ExecutionStarted)))
		must(t, st.Publish(t.Context(), historyEvent("t", event.TimerScheduled)))
		got, err := stream.New(st).Read(t.Context(), reader(store.TimerGroup, "t1"), 1, 0)
		msgs := got.Messages
		must(t, err)
		mine(t, true)(schedule(t, st, msgs[0], timer(0)))
		poll, err := timers.New(st).Poll(t.Context(), tenant, 10)
		must(t, err)
		if n, _, err := timers.New(st).Fire(t.Context(), tenant, poll, 1); n != 1 || err != nil {
			t.Errorf("fired %d, %v", n, err)
		}
		for _, key := range w.rdb.Keys(t.Context(), "*").Val() {
			if key == "flunq:tenants" { // no script writes it
				continue
			}
			if key != streamKey && !strings.Contains(key, "{acme}") {
				t.Errorf("key %s has no tag", key)
			}
		}
	}},
}

// scoreBefore compares exactly.
func scoreBefore(score float64, at time.Time) bool {
	exact := new(big.Rat).SetInt64(at.Unix())
	exact.Add(exact, big.NewRat(int64(at.Nanosecond()), 1e9))
	return new(big.Rat).SetFloat64(score).Cmp(exact) < 0
}
