package store_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/stream"
	"flunq.io/flunq/engine/store/timers"
)

// renew renews the leases of messages, and expects that some are lost.
func (w *environment) renew(t *testing.T, lost int, msgs ...store.Message) {
	t.Helper()
	n := 0
	err := stream.New(w.Store).Renew(t.Context(), msgs, func(lost []store.Message) { n += len(lost) })
	if err != nil || n != lost {
		t.Fatalf("%d messages are another's, want %d; %v", n, lost, err)
	}
}

// raw appends an entry as another program would.
func (w *environment) raw(t *testing.T, values ...string) {
	t.Helper()
	must(t, w.rdb.XAdd(t.Context(), &redis.XAddArgs{Stream: streamKey, Values: values}).Err())
}

var messages = []check{
	{"an event is delivered unchanged, once to each group", func(t *testing.T, w *environment) {
		e := historyEvent("a", "com.example.paid")
		e.Task, e.Ext = "/do/0/a", map[string]string{"traceparent": "00-1"}
		must(t, w.Publish(t.Context(), e))
		for _, group := range []string{store.WorkerGroup, store.ExecutorGroup, store.TimerGroup} {
			m := w.read(t, group, "c1")
			if diff := cmp.Diff(e, m.Event); diff != "" || m.Err != nil {
				t.Error(diff, m.Err)
			}
			if m.Tenant != tenant || m.Group != group || m.Consumer != "c1" || m.Attempt != 0 || m.Read.IsZero() {
				t.Errorf("message %+v", m)
			}
			got, err := stream.New(w.Store).Read(t.Context(), reader(group, "c2"), 10, 0)
			msgs, now := got.Messages, got.Now
			must(t, err)
			if len(msgs) != 0 || now.IsZero() {
				t.Errorf("read again: %v at %v", msgs, now)
			}
		}
	}},
	{"an event without a time has that of its entry", func(t *testing.T, w *environment) {
		w.raw(t, "id", "a", "type", "com.example.paid")
		if m := w.read(t, store.WorkerGroup, "c1"); m.Err != nil || m.Event.Time.IsZero() || !m.Event.Time.Equal(store.IDTime(m.ID)) {
			t.Errorf("the event %+v of entry %s: %v", m.Event, m.ID, m.Err)
		}
	}},
	{"an invalid event is delivered with the reason", func(t *testing.T, w *environment) {
		for _, c := range []struct {
			values []string
			typ    event.Type
		}{
			{[]string{"id", "1"}, ""},
			{[]string{"a", "1", "id", "1", "time", "soon", "type", "com.x", "z", "1"}, "com.x"},
			{[]string{"type", string(event.TaskCompleted), "data", "{"}, event.TaskCompleted},
		} {
			w.raw(t, c.values...)
			m := w.read(t, store.WorkerGroup, "w1")
			if m.Err == nil || m.Event.Type != c.typ {
				t.Errorf("%v: error %v, type %q, want an error and %q", c.values, m.Err, m.Event.Type, c.typ)
			}
			if !slices.Equal(m.Fields(), c.values) && !slices.Contains(c.values, "{") {
				t.Errorf("fields %v, want %v", m.Fields(), c.values)
			}
		}
	}},
	{"the stream determines an event's tenant, not the sender", func(t *testing.T, w *environment) {
		w.raw(t, "id", "1", "tenantid", "other", "type", "com.x")
		if m := w.read(t, store.WorkerGroup, "w1"); m.Event.Tenant != tenant {
			t.Errorf("the event is %s's, want %s's", m.Event.Tenant, tenant)
		}
	}},
	{"an entry with thousands of fields is dead-lettered like others", func(t *testing.T, w *environment) {
		values := []string{"id", "1", "type", "com.x"}
		for i := range 9000 {
			values = append(values, fmt.Sprintf("a%d", i), "v")
		}
		w.raw(t, values...)
		m := w.read(t, store.WorkerGroup, "w1")
		if m.Err == nil {
			t.Fatal("no error")
		}
		mine(t, true)(stream.New(w.Store).Retry(t.Context(), m, -time.Hour))
		w.fireAll(t)
		m = w.read(t, store.WorkerGroup, "w1")
		if m.Attempt != 1 || m.Err == nil {
			t.Errorf("delivered again as attempt %d, %v", m.Attempt, m.Err)
		}
		mine(t, true)(stream.New(w.Store).DeadLetter(t.Context(), m, event.Dead{Reason: m.Err.Error(), Attempts: 2}, nil))
		if deadLetters := w.rdb.XRange(t.Context(), deadKey, "-", "+").Val(); len(deadLetters) != 1 {
			t.Errorf("dead letters %v, want 1", deadLetters)
		}
	}},
	{"a removed group is created again, from the beginning", func(t *testing.T, w *environment) {
		must(t, w.Publish(t.Context(), historyEvent("a", "com.x")))
		must(t, w.rdb.XGroupDestroy(t.Context(), streamKey, store.WorkerGroup).Err())
		if m := w.read(t, store.WorkerGroup, "w1"); m.Event.ID != "a" {
			t.Errorf("read %v, want a", m)
		}
		must(t, w.rdb.Del(t.Context(), streamKey).Err())
		got, err := stream.New(w.Store).Read(t.Context(), reader(store.WorkerGroup, "w1"), 10, 0)
		msgs := got.Messages
		if err != nil || len(msgs) != 0 {
			t.Errorf("read %v, %v, want nothing", msgs, err)
		}
		must(t, stream.New(w.Store).Groups(t.Context(), tenant))
		must(t, stream.New(w.Store).Groups(t.Context(), tenant))
	}},
	{"a message of a removed stream belongs to no consumer", func(t *testing.T, w *environment) {
		m := w.sent(t, historyEvent("a", event.TimerScheduled), store.TimerGroup, "t1")
		must(t, w.rdb.Del(t.Context(), streamKey).Err())
		mine(t, false)(schedule(t, w.Store, m, timer(0)))
		w.commit(t, step(0, &m), store.Fenced)
	}},
	{"several tenants are read in one call", func(t *testing.T, w *environment) {
		must(t, stream.New(w.Store).Groups(t.Context(), "beta"))
		a, b := historyEvent("a", "com.x"), historyEvent("b", "com.x")
		b.Tenant = "beta"
		must(t, w.Publish(t.Context(), a))
		must(t, w.Publish(t.Context(), b))
		r := stream.Reader{Group: store.WorkerGroup, Consumer: "w1", Tenants: []string{tenant, "beta"}}
		got, err := stream.New(w.Store).Read(t.Context(), r, 10, 0)
		msgs := got.Messages
		must(t, err)
		if len(msgs) != 2 || msgs[0].Tenant != tenant || msgs[1].Tenant != "beta" {
			t.Fatalf("read %v", msgs)
		}
		r.Handled = []stream.Handled{{Tenant: tenant, ID: msgs[0].ID}, {Tenant: "beta", ID: msgs[1].ID}}
		_, err = stream.New(w.Store).Read(t.Context(), r, 10, 0)
		must(t, err)
		if n := w.pending(t, store.WorkerGroup); n != 0 {
			t.Errorf("%d pending", n)
		}
	}},
}

// Unwanted events are recorded, and all others are delivered complete.
var unwantedEvents = []check{
	{"unwanted events are not read", func(t *testing.T, w *environment) {
		a, b := historyEvent("a", "com.a"), historyEvent("b", "com.b")
		must(t, stream.New(w.Store).Groups(t.Context(), tenant))
		must(t, w.Publish(t.Context(), a))
		must(t, w.Publish(t.Context(), b))
		r := reader(store.WorkerGroup, "w1")
		r.Wants = func(typ event.Type) bool { return typ == "com.b" }
		got, err := stream.New(w.Store).Read(t.Context(), r, 10, 0)
		msgs := got.Messages
		must(t, err)
		unwanted := got.Unwanted
		if len(msgs) != 1 || len(unwanted) != 1 || unwanted[0].Tenant != tenant || unwanted[0].ID == "" {
			t.Fatalf("read %+v, noted %v, want one each", msgs, unwanted)
		}
		if found := got.Found; len(found) != 1 || found[0].Tenant != tenant || found[0].Events != 2 || found[0].Bytes < 100 {
			t.Errorf("found %v, want two events of %s with their size", found, tenant)
		}
		if diff := cmp.Diff(b, msgs[0].Event); diff != "" {
			t.Error(diff)
		}
		r.Handled = unwanted
		must(t, stream.New(w.Store).Acknowledge(t.Context(), r))
		if n := w.pending(t, store.WorkerGroup); n != 1 {
			t.Errorf("%d pending, want 1", n)
		}
	}},
	{"a continuous reader buffers what it has read", func(t *testing.T, w *environment) {
		r := reader(store.WorkerGroup, "w1")
		r.Continuous = true
		var all []store.Message
		for _, size := range []int{1, 100_000, 2 << 20, 10} {
			e := historyEvent("of "+strconv.Itoa(size), "com.a")
			e.Data = []byte(`"` + strings.Repeat(strconv.Itoa(size%7), size) + `"`)
			must(t, w.Publish(t.Context(), e))
			got, err := stream.New(w.Store).Read(t.Context(), r, 10, 0)
			msgs := got.Messages
			must(t, err)
			all = append(all, msgs...)
		}
		got, err := stream.New(w.Store).Read(t.Context(), r, 10, time.Millisecond)
		msgs := got.Messages
		if err != nil || len(msgs) != 0 || len(all) != 4 {
			t.Fatalf("%d messages, and then %v, %v", len(all), msgs, err)
		}
		for i, size := range []int{1, 100_000, 2 << 20, 10} {
			want := `"` + strings.Repeat(strconv.Itoa(size%7), size) + `"`
			if m := all[i]; m.Event.ID != "of "+strconv.Itoa(size) || string(m.Event.Data) != want || m.Err != nil {
				t.Errorf("message %d is %s, %v", i, m.Event.ID, m.Err)
			}
		}
		must(t, w.rdb.XGroupDestroy(t.Context(), streamKey, store.WorkerGroup).Err())
		if got, err = stream.New(w.Store).Read(t.Context(), r, 10, 0); err != nil || len(got.Messages) != 4 {
			t.Errorf("of a group that was gone: %d messages, %v", len(got.Messages), err)
		}
	}},
}

var deliveries = []check{
	{"a dead consumer's message is claimed after its lease", func(t *testing.T, w *environment) {
		m := w.sent(t, historyEvent("a", "com.x"), store.WorkerGroup, "w1")
		now, err := w.Now(t.Context())
		must(t, err)
		got, wake, err := stream.New(w.Store).ClaimAbandoned(t.Context(), reader(store.WorkerGroup, "w2"), time.Hour, 10, now)
		must(t, err)
		if left := wake.Sub(now); len(got) != 0 || left <= 59*time.Minute || left > time.Hour {
			t.Errorf("claimed %v, look again in %v, want nothing and an hour", got, left)
		}
		stolen := w.claimByOther(t, m)
		if diff := cmp.Diff(m.Event, stolen.Event); diff != "" || stolen.Consumer != "other" {
			t.Error(diff, stolen.Consumer)
		}
		must(t, stream.New(w.Store).AcknowledgeOwned(t.Context(), stolen))
		got, wake, err = stream.New(w.Store).ClaimAbandoned(t.Context(), reader(store.WorkerGroup, "w2"), time.Hour, 10, now)
		if err != nil || len(got) != 0 || !wake.IsZero() {
			t.Errorf("claimed %v, %v, %v, want never", got, wake, err)
		}
	}},
	{"renewing keeps a message, but not one of another consumer", func(t *testing.T, w *environment) {
		m := w.sent(t, historyEvent("a", "com.x"), store.WorkerGroup, "w1")
		w.letAge(t, time.Minute, m)
		w.renew(t, 0, m)
		now, _ := w.Now(t.Context())
		got, _, err := stream.New(w.Store).ClaimAbandoned(t.Context(), reader(store.WorkerGroup, "w2"), 30*time.Second, 10, now)
		if err != nil || len(got) != 0 {
			t.Fatalf("claimed %v, %v", got, err)
		}
		stolen := w.claimByOther(t, m)
		w.renew(t, 1, m)
		mine(t, false)(reply(t, w.Store, m, historyEvent("r", event.TaskCompleted)))
		mine(t, true)(reply(t, w.Store, stolen, historyEvent("r", event.TaskCompleted)))
	}},
	{"an abandoned message behind hundreds of others is found", func(t *testing.T, w *environment) {
		const alive = 1200
		for i := range alive + 1 {
			must(t, w.Publish(t.Context(), historyEvent(fmt.Sprint("m", i), "com.x")))
		}
		got, err := stream.New(w.Store).Read(t.Context(), reader(store.WorkerGroup, "alive"), alive, 0)
		long := got.Messages
		must(t, err)
		abandoned := w.read(t, store.WorkerGroup, "dead")
		w.letAge(t, time.Minute, abandoned)
		w.renew(t, 0, long...)
		now, _ := w.Now(t.Context())
		found, _, err := stream.New(w.Store).ClaimAbandoned(t.Context(), reader(store.WorkerGroup, "w2"), 30*time.Second, 10, now)
		must(t, err)
		if len(found) != 1 || found[0].ID != abandoned.ID {
			t.Errorf("claimed %d messages, want the abandoned one", len(found))
		}
	}},
	{"a failed delivery is repeated as often as it fails", func(t *testing.T, w *environment) {
		e := historyEvent("a", "com.x")
		m := w.sent(t, e, store.WorkerGroup, "w1")
		for attempt := range 3 {
			if m.Attempt != attempt || m.Err != nil {
				t.Fatalf("attempt %d, %v, want %d", m.Attempt, m.Err, attempt)
			}
			if diff := cmp.Diff(e, m.Event); diff != "" {
				t.Fatal(diff)
			}
			mine(t, true)(stream.New(w.Store).Retry(t.Context(), m, -time.Second))
			mine(t, false)(stream.New(w.Store).Retry(t.Context(), m, 0))
			w.fireAll(t)
			m = w.read(t, store.WorkerGroup, "w1")
		}
	}},
	{"a postponed message waits for its delay", func(t *testing.T, w *environment) {
		m := w.sent(t, historyEvent("a", "com.x"), store.WorkerGroup, "w1")
		mine(t, true)(stream.New(w.Store).Retry(t.Context(), m, time.Hour))
		poll, err := timers.New(w.Store).Poll(t.Context(), tenant, 10)
		due, next, now := poll.Due, poll.Next, poll.Now
		must(t, err)
		if wait := next.Sub(now); len(due) != 0 || wait < 59*time.Minute || wait > time.Hour+time.Millisecond {
			t.Errorf("due %v, next in %v, want in an hour", due, wait)
		}
		var kept event.Timer
		must(t, json.Unmarshal([]byte(w.rdb.ZRange(t.Context(), timersKey, 0, 0).Val()[0]), &kept))
		var fields map[string]string
		must(t, json.Unmarshal(kept.Event, &fields))
		if kept.Kind != event.DeliveryTimer || fields["id"] != "a" || fields[event.AttemptAttribute] != "1" {
			t.Errorf("the timer is %+v", kept)
		}
	}},
	{"a dead letter has the whole entry and the reason", func(t *testing.T, w *environment) {
		w.raw(t, "type", "com.x", "id", "a", "odd", "\xff\x00", "data", "{")
		m := w.read(t, store.WorkerGroup, "w1")
		mine(t, true)(stream.New(w.Store).Retry(t.Context(), m, -time.Second))
		w.fireAll(t)
		m = w.read(t, store.WorkerGroup, "w1")
		failureEvent := m.FailureEvent(event.EventDead, event.Dead{Reason: "bad", Attempts: 2, Service: "worker-service"})
		d := event.Dead{Reason: "bad", Attempts: 2, Service: "worker-service"}
		mine(t, true)(stream.New(w.Store).DeadLetter(t.Context(), m, d, []event.Event{failureEvent}))
		mine(t, false)(stream.New(w.Store).DeadLetter(t.Context(), m, d, nil))
		deadLetters := w.rdb.XRange(t.Context(), deadKey, "-", "+").Val()
		if len(deadLetters) != 1 {
			t.Fatalf("dead letters %v", deadLetters)
		}
		got := deadLetters[0].Values
		for name, want := range map[string]string{
			"type": "com.x", "id": "a", "data": "{", "reason": "bad", "attempts": "2", "service": "worker-service",
			"source_stream": streamKey, "source_id": m.ID,
		} {
			if is, _ := got[name].(string); plainName(is) != want {
				t.Errorf("%s = %q, want %q", name, got[name], want)
			}
		}
		if got[event.AttemptAttribute] != nil {
			t.Error("the dead letter has attempts, with which a replay would continue")
		}
		first, _ := got["first_failure"].(string)
		last, _ := got["last_failure"].(string)
		if first == "" || last == "" || first > last {
			t.Errorf("failed first at %q, last at %q", first, last)
		}
		reported := w.read(t, store.WorkerGroup, "w2").Event
		var dead event.Dead
		must(t, json.Unmarshal(reported.Data, &dead))
		var original map[string]string
		must(t, json.Unmarshal(dead.Original, &original))
		if reported.Type != event.EventDead || dead.Attempts != 2 || original["id"] != "a" {
			t.Errorf("the worker reads %+v about %v", reported, original)
		}
	}},
	{"a worker takes commands before the entries that precede them", func(t *testing.T, w *environment) {
		streams := stream.New(w.Store)
		taken := func(want ...string) (msgs []store.Message) {
			t.Helper()
			msgs, err := streams.TakeCommands(t.Context(), reader(store.WorkerGroup, "w1"), []string{"other", tenant})
			must(t, err)
			var got []string
			for _, m := range msgs {
				got = append(got, m.Event.ID)
			}
			if !slices.Equal(got, want) {
				t.Fatalf("took %v, want %v", got, want)
			}
			return msgs
		}
		for i := range 5 {
			must(t, w.Publish(t.Context(), historyEvent(strconv.Itoa(i), "com.x")))
		}
		must(t, streams.Groups(t.Context(), tenant))
		taken()
		for id, typ := range map[string]event.Type{"resume": event.ExecutionResumed, "cancel": event.ExecutionCancelled} {
			must(t, w.Publish(t.Context(), historyEvent(id, typ)))
		}
		taken() // its execution has not begun
		c := step(0, nil)
		c.Publish = nil
		w.commit(t, c, store.Committed)
		m := taken("cancel")[0]
		taken()
		c = step(1, &m)
		c.Publish = nil
		w.commit(t, c, store.Committed)
		if n := w.pending(t, store.WorkerGroup); n != 0 {
			t.Errorf("%d messages are pending", n)
		}
		must(t, w.Publish(t.Context(), historyEvent("read", event.ExecutionCancelled)))
		got, err := streams.Read(t.Context(), reader(store.WorkerGroup, "w2"), 10, 0)
		msgs := got.Messages
		must(t, err)
		if len(msgs) != 8 {
			t.Errorf("read %d messages in their places, want 8", len(msgs))
		}
		taken() // what has been read
		if n := w.rdb.Exists(t.Context(), "tenant:acme:events:commands").Val(); n != 0 {
			t.Error("commands stay in the list")
		}
	}},
	{"a dead letter that cannot be written leaves the message pending", func(t *testing.T, w *environment) {
		m := w.sent(t, historyEvent("a", "com.x"), store.WorkerGroup, "w1")
		must(t, w.rdb.Set(t.Context(), deadKey, "mine", 0).Err())
		err := w.unchanged(t, func() error {
			_, err := stream.New(w.Store).DeadLetter(t.Context(), m, event.Dead{}, []event.Event{historyEvent("b", "com.x")})
			return err
		})
		if err == nil || !strings.Contains(err.Error(), "WRONGTYPE") || w.pending(t, store.WorkerGroup) != 1 {
			t.Errorf("error %v, pending %d", err, w.pending(t, store.WorkerGroup))
		}
	}},
}
