package store_test

import (
	"errors"
	"fmt"
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
	"flunq.io/flunq/engine/store/inspect"
	"flunq.io/flunq/engine/store/stream"
)

// dead dead-letters a message.
func (w *environment) dead(t *testing.T, m store.Message, reason string) {
	t.Helper()
	mine(t, true)(stream.New(w.Store).DeadLetter(t.Context(), m, event.Dead{Reason: reason, Attempts: 3, Service: m.Group}, nil))
}

// deadLetters returns all dead letters of the tenant, the newest first.
func (w *environment) deadLetters(t *testing.T) []stream.DeadLetter {
	t.Helper()
	deadLetters, next, err := stream.New(w.Store).DeadLetters(t.Context(), stream.DeadLetterQuery{Tenant: tenant, Range: store.Range{Count: 100}})
	must(t, err)
	if next != "" {
		t.Errorf("there are more behind %s", next)
	}
	return deadLetters
}

// replayed fails the test unless a replay has the wanted result.
func replayed(t *testing.T, want bool) func(bool, error) {
	return func(got bool, err error) {
		t.Helper()
		must(t, err)
		if got != want {
			t.Fatalf("replayed %v, want %v", got, want)
		}
	}
}

var deadLetters = []check{
	{"a dead letter holds the message and the reason", func(t *testing.T, w *environment) {
		e := historyEvent("a", event.TaskRequested)
		e.Ext = map[string]string{"reason": "mine", "service": "ours"}
		m := w.sent(t, e, store.ExecutorGroup, "e1")
		w.dead(t, m, "no answer")
		all := w.deadLetters(t)
		if len(all) != 1 {
			t.Fatalf("dead letters %v", all)
		}
		l := all[0]
		if diff := cmp.Diff(e, l.Event); diff != "" {
			t.Error(diff)
		}
		if l.Reason != "no answer" || l.Service != store.ExecutorGroup || l.Attempts != 3 || l.SourceID != m.ID ||
			plainName(l.SourceStream) != streamKey || l.LastFailure.IsZero() || l.FirstFailure.IsZero() || l.Replayed != 0 || l.Err != nil {
			t.Errorf("dead letter %+v", l)
		}
		if found, err := stream.New(w.Store).FindDeadLetter(t.Context(), tenant, "", l.ID); err != nil || !slices.Equal(found.Fields, m.Fields()) {
			t.Errorf("found %+v, %v, want the fields %v", found, err, m.Fields())
		}
	}},
	{"a dead letter is replayed byte for byte, with a count of its replays", func(t *testing.T, w *environment) {
		sent := []string{
			"data", "{ \"a\" : 1.0,\n\"b\":\"\\u0041\xff\" }", "id", "the id", "odd", "\x00\x01", "type", "com.x", "tenantid", "other",
		}
		w.raw(t, sent...)
		for count := range 3 {
			m := w.read(t, store.WorkerGroup, "w1")
			if m.Replay != count || m.Attempt != 0 || m.Event.ID != "the id" || m.Event.Ext[event.ReplayAttribute] != "" {
				t.Fatalf("replay %d: %+v", count, m)
			}
			w.dead(t, m, "again")
			l := w.deadLetters(t)[0]
			if l.Replayed != count {
				t.Errorf("the dead letter has been replayed %d times, want %d", l.Replayed, count)
			}
			replayed(t, true)(stream.New(w.Store).Replay(t.Context(), l))
			last := w.rdb.XRevRangeN(t.Context(), streamKey, "+", "-", 1).Val()[0].Values
			if last[event.ReplayAttribute] != strconv.Itoa(count+1) || len(last) != len(sent)/2+1 {
				t.Fatalf("entry %v", last)
			}
			for i := 0; i < len(sent); i += 2 {
				if last[sent[i]] != sent[i+1] {
					t.Errorf("field %s is %q, want %q", sent[i], last[sent[i]], sent[i+1])
				}
			}
		}
		if n := len(w.deadLetters(t)); n != 0 {
			t.Errorf("%d dead letters are left", n)
		}
	}},
	{"a dead letter that several clients replay is published once", func(t *testing.T, w *environment) {
		w.dead(t, w.sent(t, historyEvent("a", "com.x"), store.WorkerGroup, "w1"), "no")
		l := w.deadLetters(t)[0]
		before := w.rdb.XLen(t.Context(), streamKey).Val()
		var wait sync.WaitGroup
		for range 3 {
			wait.Go(func() {
				if _, err := stream.New(w.Store).Replay(t.Context(), l); err != nil {
					t.Error(err)
				}
			})
		}
		wait.Wait()
		if n := w.rdb.XLen(t.Context(), streamKey).Val() - before; n != 1 {
			t.Errorf("it was published %d times", n)
		}
		replayed(t, false)(stream.New(w.Store).Replay(t.Context(), l))
		if n, err := stream.New(w.Store).Drop(t.Context(), l); n != 0 || err != nil {
			t.Errorf("dropped %d, %v", n, err)
		}
	}},
	{"dead letters are read from either end, page by page", func(t *testing.T, w *environment) {
		for i := range 25 {
			w.dead(t, w.sent(t, historyEvent(fmt.Sprint("e", i), "com.x"), store.WorkerGroup, "w1"), "no")
		}
		for _, oldest := range []bool{false, true} {
			var ids []string
			for q := (stream.DeadLetterQuery{Tenant: tenant, Range: store.Range{Count: 5, Oldest: oldest}}); ; {
				page, next, err := stream.New(w.Store).DeadLetters(t.Context(), q)
				must(t, err)
				for _, l := range page {
					ids = append(ids, l.Event.ID)
				}
				if next == "" {
					break
				}
				if oldest {
					q.From = next
				} else {
					q.To = next
				}
			}
			if first := map[bool]string{false: "e24", true: "e0"}[oldest]; len(ids) != 25 || ids[0] != first {
				t.Errorf("oldest first %v: %v", oldest, ids)
			}
		}
		all := w.deadLetters(t)
		if n, err := stream.New(w.Store).Drop(t.Context(), all[3], all[4]); n != 2 || err != nil || len(w.deadLetters(t)) != 23 {
			t.Errorf("dropped %d, %v", n, err)
		}
		if _, err := stream.New(w.Store).FindDeadLetter(t.Context(), tenant, "", all[3].ID); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("a dropped dead letter: %v", err)
		}
		if _, err := stream.New(w.Store).FindDeadLetter(t.Context(), tenant, "", "-"); !errors.Is(err, store.ErrName) {
			t.Errorf("no id: %v", err)
		}
	}},
	{"an entry of too many fields is unpacked", func(t *testing.T, w *environment) {
		for _, c := range []struct {
			fields int
			back   bool
		}{{1500, true}, {9000, false}} {
			values := []string{"id", "1", "type", "com.x"}
			for i := range c.fields {
				values = append(values, fmt.Sprintf("a%d", i), "v")
			}
			w.raw(t, values...)
			w.dead(t, w.read(t, store.WorkerGroup, "w1"), "too many")
			l := w.deadLetters(t)[0]
			if l.Event.ID != "1" || len(l.Fields) != len(values) {
				t.Errorf("dead letter of %d fields: %d, event %s", c.fields, len(l.Fields)/2, l.Event.ID)
			}
			done, err := stream.New(w.Store).Replay(t.Context(), l)
			if done != c.back || (err == nil) != c.back {
				t.Errorf("%d fields: replayed %v, %v", c.fields, done, err)
			}
			if !c.back {
				continue
			}
			if m := w.read(t, store.WorkerGroup, "w1"); m.Replay != 1 || m.Err == nil {
				t.Errorf("it was replayed as %+v", m.Event) // still too many
			}
			if len(w.rdb.XRevRangeN(t.Context(), streamKey, "+", "-", 1).Val()[0].Values) != c.fields+3 {
				t.Error("fields are missing")
			}
		}
	}},
	{"what is not an event stays a dead letter", func(t *testing.T, w *environment) {
		record := []string{"id", "topic/0/7", "data", "hello", "reason", "not a CloudEvent", "service", "bridge-kafka"}
		must(t, w.rdb.XAdd(t.Context(), &redis.XAddArgs{Stream: deadKey, Values: record}).Err())
		l := w.deadLetters(t)[0]
		if done, err := stream.New(w.Store).Replay(t.Context(), l); done || err == nil || !strings.Contains(err.Error(), "cannot be replayed: it is not an event") {
			t.Errorf("%v, %v", done, err)
		}
	}},
	{"an invalid timer stays a dead letter, a valid one is set again", func(t *testing.T, w *environment) {
		must(t, w.rdb.ZAdd(t.Context(), timersKey, redis.Z{Score: 1, Member: "junk"}).Err())
		w.fireAll(t)
		l := w.deadLetters(t)[0]
		if l.Timer != "junk" || l.Err == nil || l.Service != store.TimerGroup {
			t.Errorf("dead letter %+v", l)
		}
		if done, err := stream.New(w.Store).Replay(t.Context(), l); done || err == nil || !strings.Contains(err.Error(), "cannot be replayed") {
			t.Errorf("replayed %v, %v", done, err)
		}
		_, err := stream.New(w.Store).Drop(t.Context(), l)
		must(t, err)
		good := string(event.Encode(timer(0)))
		must(t, w.rdb.XAdd(t.Context(), &redis.XAddArgs{Stream: deadKey, Values: []string{"timer", good, "reason", "x"}}).Err())
		l = w.deadLetters(t)[0]
		replayed(t, true)(stream.New(w.Store).Replay(t.Context(), l))
		replayed(t, false)(stream.New(w.Store).Replay(t.Context(), l))
		if p := w.onlyTimer(t); p.Member != good || p.Event != nil {
			t.Errorf("timer %+v", p)
		}
	}},
	{"dead letters of other key schemes are read and replayed", func(t *testing.T, w *environment) {
		const key = "tenant:acme:workflow:orders:events"
		at := time.Date(2024, 1, 15, 10, 30, 0, 0, time.UTC)
		dlq := event.Event{
			ID: "d", Source: "/executor", Type: event.TaskDead, Time: at, Tenant: tenant, Execution: "x-7",
			Data: []byte(`{"error":"timeout","attempts":3,"original_event":{"id":"o","type":"io.flunq.task.requested","data":{"n":1.50}}}`),
		}
		for _, values := range [][]string{
			dlq.Fields(),
			historyEvent("other", event.TaskCompleted).Fields(),
			{"event", `{"id":"e","type":"io.flunq.timer.dlq","data":{"reason":"no original"}}`},
		} {
			must(t, w.rdb.XAdd(t.Context(), &redis.XAddArgs{Stream: key, Values: values}).Err())
		}
		deadLetters, _, err := stream.New(w.Store).DeadLetters(t.Context(), stream.DeadLetterQuery{Tenant: tenant, Stream: key, Range: store.Range{Count: 10}})
		must(t, err)
		if len(deadLetters) != 2 {
			t.Fatalf("dead letters %+v", deadLetters)
		}
		if done, err := stream.New(w.Store).Replay(t.Context(), deadLetters[0]); done || err == nil {
			t.Errorf("one without its original: replayed %v, %v", done, err)
		}
		l := deadLetters[1]
		if l.Reason != "timeout" || l.Attempts != 3 || l.Event.Execution != "x-7" || l.Event.ID != "o" || l.Stream != key {
			t.Errorf("dead letter %+v", l)
		}
		replayed(t, true)(stream.New(w.Store).Replay(t.Context(), l))
		replayed(t, false)(stream.New(w.Store).Replay(t.Context(), l))
		m := w.read(t, store.ExecutorGroup, "e1")
		if m.Event.ID != "o" || string(m.Event.Data) != `{"n":1.50}` || m.Replay != 1 {
			t.Errorf("brought back %+v", m)
		}
	}},
	{"the tenants with dead letters are listed", func(t *testing.T, w *environment) {
		w.dead(t, w.sent(t, historyEvent("a", "com.x"), store.WorkerGroup, "w1"), "no")
		must(t, w.rdb.XAdd(t.Context(), &redis.XAddArgs{Stream: "tenant:beta:events:dlq", Values: []string{"reason", "x"}}).Err())
		if got, err := inspect.New(w.Store).DeadTenants(t.Context()); err != nil || !slices.Equal(got, []string{"acme", "beta"}) {
			t.Errorf("tenants %v, %v", got, err)
		}
	}},
}
