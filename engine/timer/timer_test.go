package timer_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"flunq.io/flunq/engine/delivery"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/redistest"
	"flunq.io/flunq/engine/store/stream"
	"flunq.io/flunq/engine/store/wire"
	"flunq.io/flunq/engine/timer"
)

const (
	tenant    = "acme"
	streamKey = "tenant:acme:events"
	timersKey = "flunq:timers:all"
)

// start is when the simulated time of a test begins.
func start() time.Time { return time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC) }

// environment is a Redis whose clock the test sets.
type environment struct {
	st   *store.Store
	rdb  wire.Redis
	mini *miniredis.Miniredis
}

func newEnvironment(t *testing.T) *environment {
	t.Helper()
	mini := miniredis.RunT(t)
	mini.SetTime(start())
	rdb, err := store.Dial(t.Context(), mini.Addr())
	must(t, err)
	t.Cleanup(func() { _ = rdb.Close() })
	w := &environment{st: store.New(rdb, store.Options{}), rdb: rdb, mini: mini}
	must(t, stream.New(w.st).Groups(t.Context(), tenant))
	return w
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (w *environment) service(t *testing.T, consumer string) *timer.Service {
	t.Helper()
	opts := timer.Defaults()
	opts.Consumer, opts.Tenants, opts.Block = consumer, delivery.NewTenantSet(tenant), 0
	s, err := timer.New(w.st, opts)
	must(t, err)
	return s
}

// send publishes an event.
func (w *environment) send(t *testing.T, typ event.Type, data string) {
	t.Helper()
	must(t, w.st.Publish(t.Context(), event.Event{
		ID: "e-" + data, Source: "/test", Type: typ, Time: start(), Tenant: tenant,
		Workflow: "test.wf", Execution: "x-1", Task: "/do/0/wait", Data: json.RawMessage(data),
	}))
}

// finish steps a service until it has to wait, and returns its wake time: counted from the
// start, negative for never.
func (w *environment) finish(t *testing.T, s *timer.Service) time.Duration {
	t.Helper()
	for range 100 {
		now, err := w.st.Now(t.Context())
		must(t, err)
		wake, err := s.Step(t.Context())
		must(t, err)
		if wake.IsZero() {
			return -1
		}
		if wake.After(now) {
			return wake.Sub(start())
		}
	}
	t.Fatal("it never waits")
	return 0
}

// fired returns when the fired timers were due, counted from the start.
func (w *environment) fired(t *testing.T) []time.Duration {
	t.Helper()
	var out []time.Duration
	for _, entry := range w.rdb.XRange(t.Context(), streamKey, "-", "+").Val() {
		if entry.Values["type"] != string(event.TimerFired) {
			continue
		}
		var f event.Fired
		text, _ := entry.Values["data"].(string)
		must(t, json.Unmarshal([]byte(text), &f))
		if f.FiredAt.Before(f.FireAt) {
			t.Errorf("fired at %v, %v early", f.FiredAt, f.FireAt.Sub(f.FiredAt))
		}
		out = append(out, f.ScheduledFor.Sub(start()))
	}
	return out
}

func (w *environment) pending(t *testing.T) int64 {
	t.Helper()
	p, err := w.rdb.XPending(t.Context(), streamKey, store.TimerGroup).Result()
	must(t, err)
	return p.Count
}

func at(after time.Duration) string {
	return fmt.Sprintf(`{"tenant_id":"acme","execution_id":"x-1","fire_at":%q}`, start().Add(after).Format(time.RFC3339Nano))
}

// The service sleeps exactly until the next timer, even for thirty days, and then
// indefinitely.
func TestStepWakesForTheNextTimer(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t)
	s := w.service(t, "t1")
	if wake := w.finish(t, s); wake >= 0 {
		t.Errorf("with nothing to do it wakes after %v", wake)
	}
	const month = 30 * 24 * time.Hour
	for _, after := range []time.Duration{month, time.Minute, time.Hour} {
		w.send(t, event.TimerScheduled, at(after))
	}
	w.send(t, event.TaskCompleted, `{}`) // not for the timer service
	var woken []time.Duration
	for {
		wake := w.finish(t, s)
		if wake < 0 {
			break
		}
		woken = append(woken, wake)
		w.mini.SetTime(start().Add(wake))
	}
	want := []time.Duration{time.Minute, time.Hour, month}
	if !slices.Equal(woken, want) || !slices.Equal(w.fired(t), want) || w.pending(t) != 0 {
		t.Errorf("woke at %v, fired %v, pending %d, want %v", woken, w.fired(t), w.pending(t), want)
	}
}

// More timers than a batch fire in order, each once between two services.
func TestStepFiresInBatches(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t)
	a, b := w.service(t, "t1"), w.service(t, "t2")
	var want []time.Duration
	for i := range 250 {
		after := time.Duration(i) * time.Millisecond
		want = append(want, after)
		w.send(t, event.TimerScheduled, at(after))
	}
	w.mini.SetTime(start().Add(time.Second))
	for range 10 {
		for _, s := range []*timer.Service{a, b} {
			_, err := s.Step(t.Context())
			must(t, err)
		}
	}
	w.finish(t, a)
	if got := w.fired(t); len(got) != len(want) || !slices.Equal(slices.Sorted(slices.Values(got)), want) {
		t.Errorf("fired %d, want each of %d once", len(got), len(want))
	}
}

// Other programs may omit what the event says, and give a duration.
func TestStepTakesTimersOfOthers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		data string
		want time.Duration
	}{
		{`{"duration_ms":5000}`, 5 * time.Second},
		{`{"fire_at":"2026-01-01T01:00:07.5+01:00"}`, 7500 * time.Millisecond},
		{`{"fire_at":"2026-01-01T00:00:07Z","duration_ms":1,"tenant_id":"other"}`, 7 * time.Second},
	} {
		w := newEnvironment(t)
		s := w.service(t, "t1")
		w.send(t, event.TimerScheduled, c.data)
		if wake := w.finish(t, s); wake != c.want {
			t.Errorf("%s wakes after %v, want %v", c.data, wake, c.want)
			continue
		}
		w.mini.SetTime(start().Add(c.want))
		w.finish(t, s)
		entries := w.rdb.XRange(t.Context(), streamKey, "-", "+").Val()
		last := entries[len(entries)-1].Values
		if last["type"] != string(event.TimerFired) || last["executionid"] != "x-1" || last["taskid"] != "/do/0/wait" || last["workflowid"] != "test.wf" {
			t.Errorf("%s published %v", c.data, last)
		}
	}
}

func TestStepCancels(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t)
	s := w.service(t, "t1")
	w.send(t, event.TimerScheduled, at(time.Minute))
	w.finish(t, s)
	w.send(t, event.TimerCancelled, at(time.Minute))
	if wake := w.finish(t, s); wake >= 0 || w.rdb.ZCard(t.Context(), timersKey).Val() != 0 {
		t.Errorf("it wakes after %v", wake)
	}
}

// An invalid timer is dead-lettered immediately, since a retry would change nothing, and only once,
// however many groups receive it.
func TestStepGivesUp(t *testing.T) {
	t.Parallel()
	for _, data := range []string{`{"fire_at":"soon"}`, `{}`, `{"duration_ms":-1}`, `{`, `[]`} {
		w := newEnvironment(t)
		s := w.service(t, "t1")
		w.send(t, event.TimerScheduled, data)
		wake := w.finish(t, s)
		deadLetters := w.rdb.XRange(t.Context(), streamKey+":dlq", "-", "+").Val()
		if wake >= 0 || len(deadLetters) != 1 || w.pending(t) != 0 {
			t.Fatalf("%s: woke at %v; %d dead letters, %d pending", data, wake, len(deadLetters), w.pending(t))
		}
		if deadLetters[0].Values["attempts"] != "1" || deadLetters[0].Values["data"] != data {
			t.Errorf("%s: dead letter %v", data, deadLetters[0].Values)
		}
		entries := w.rdb.XRange(t.Context(), streamKey, "-", "+").Val()
		var dead event.Dead
		last := entries[len(entries)-1].Values
		text, _ := last["data"].(string)
		must(t, json.Unmarshal([]byte(text), &dead))
		if last["type"] != string(event.TimerDead) || last["executionid"] != "x-1" || last["workflowid"] != "test.wf" ||
			last["tenantid"] != tenant || dead.Reason == "" || dead.Attempts != 1 {
			t.Errorf("%s: failure event %v", data, last)
		}
	}
}

// An unreadable event belongs to the worker, unless its type is a timer's.
func TestStepLeavesTheUnreadableToTheWorker(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t)
	s := w.service(t, "t1")
	for _, values := range [][]string{{"id", "1"}, {"time", "soon", "type", "com.x"}} {
		must(t, w.rdb.XAdd(t.Context(), &redis.XAddArgs{Stream: streamKey, Values: values}).Err())
	}
	if wake := w.finish(t, s); wake >= 0 || w.pending(t) != 0 || w.rdb.XLen(t.Context(), streamKey).Val() != 2 {
		t.Errorf("it wakes after %v, %d pending, %d entries", wake, w.pending(t), w.rdb.XLen(t.Context(), streamKey).Val())
	}
}

// The messages of a crashed service are claimed as soon as the lease expires.
func TestStepTakesOver(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t)
	w.send(t, event.TimerScheduled, at(time.Hour))
	dead := stream.Reader{Group: store.TimerGroup, Consumer: "dead", Tenants: []string{tenant}}
	if got, err := stream.New(w.st).Read(t.Context(), dead, 1, 0); err != nil || len(got.Messages) != 1 {
		t.Fatal(got, err)
	}
	s := w.service(t, "t1")
	if wake := w.finish(t, s); wake != 30*time.Second {
		t.Fatalf("it wakes after %v, want the lease", wake)
	}
	w.mini.SetTime(start().Add(30 * time.Second))
	if wake := w.finish(t, s); wake != time.Hour || w.pending(t) != 0 {
		t.Errorf("it wakes after %v, %d pending", wake, w.pending(t))
	}
}

// A tenant's broken stream does not delay the timers of others.
func TestStepFiresBesideABrokenStream(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t)
	s := w.service(t, "t1")
	must(t, w.rdb.Set(t.Context(), "tenant:bad:events", "?", 0).Err())
	bad := strings.Replace(at(0), tenant, "bad", 1)
	must(t, w.rdb.ZAdd(t.Context(), timersKey, redis.Z{Score: float64(start().Unix()), Member: bad}).Err())
	w.send(t, event.TimerScheduled, at(0))
	for range 5 {
		if _, err := s.Step(t.Context()); err != nil && store.Temporary(err) {
			t.Fatal(err)
		}
	}
	if got := w.fired(t); len(got) != 1 {
		t.Errorf("fired %v, want the one", got)
	}
}

// While Redis is down, steps return an error; the work is done when it is back.
func TestStepOutlivesRedis(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t)
	s := w.service(t, "t1")
	w.send(t, event.TimerScheduled, at(time.Second))
	for _, text := range []string{"LOADING Redis is loading the dataset in memory", "ERR no"} {
		w.mini.SetError(text)
		if _, err := s.Step(t.Context()); !store.Temporary(err) {
			t.Errorf("error %v, want a temporary one", err)
		}
	}
	w.mini.SetError("")
	if wake := w.finish(t, s); wake != time.Second {
		t.Errorf("it wakes after %v, want 1s", wake)
	}
}

// All invalid options are reported together.
func TestNewChecksOptions(t *testing.T) {
	t.Parallel()
	_, err := timer.New(nil, timer.Options{})
	for _, word := range []string{"consumer", "tenants", "batch", "lease", "attempts"} {
		if err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("error %v does not mention %s", err, word)
		}
	}
}

// On a real Redis, a blocking service fires on time.
func TestStepOnRedis(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t)
	w := &environment{st: store.New(rdb, store.Options{}), rdb: rdb}
	must(t, stream.New(w.st).Groups(t.Context(), tenant))
	opts := timer.Defaults()
	opts.Consumer, opts.Tenants = "t1", delivery.NewTenantSet(tenant)
	s, err := timer.New(w.st, opts)
	must(t, err)
	now, err := w.st.Now(t.Context())
	must(t, err)
	w.send(t, event.TimerScheduled, at(now.Add(50*time.Millisecond).Sub(start())))
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for len(w.fired(t)) == 0 {
		if _, err := s.Step(ctx); err != nil {
			t.Fatal(err)
		}
	}
}
