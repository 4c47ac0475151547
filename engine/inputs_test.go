package engine_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"flunq.io/flunq/engine"
	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/timers"
	"flunq.io/flunq/engine/store/wire"
)

// An input that is set again under its key replaces one whose delivery has failed: the failed attempts
// no longer count, and pending redeliveries are dropped.
func TestInputSetAgain(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, rdb wire.Redis) {
		e := listening(t, rdb)
		set := func(data string, after time.Duration) (moved bool) {
			t.Helper()
			input, now := inputOf(t, e, data, after)
			moved, err := timers.New(e.Store).SetInput(t.Context(), input, now)
			if err != nil {
				t.Fatal(err)
			}
			return moved
		}
		pending := func() string {
			return strings.Join(rdb.ZRange(t.Context(), e.Store.Keys().Timers(tenant), 0, -1).Val(), "\n")
		}
		history := e.Store.Keys().History(tenant, "x")
		rdb.Rename(t.Context(), history, "kept")
		rdb.Set(t.Context(), history, "nothing can be written here", 0)
		set("1", 0)
		await(t, "the input is to be delivered again", func() bool { return strings.Contains(pending(), `"kind":"delivery"`) })
		set("2", time.Hour)
		onItsWay := func() bool { // in the stream, or being handled
			stream := e.Store.Keys().Stream(tenant)
			last := rdb.XRevRangeN(t.Context(), stream, "+", "-", 1).Val()
			return !slices.ContainsFunc(rdb.XInfoGroups(t.Context(), stream).Val(), func(g redis.XInfoGroup) bool {
				return g.Name == store.WorkerGroup && g.Pending == 0 && g.LastDeliveredID == last[0].ID
			})
		}
		await(t, "no delivery is on its way", func() bool { return !onItsWay() })
		rdb.Del(t.Context(), history)
		rdb.Rename(t.Context(), "kept", history)
		await(t, "only the new input is left", func() bool {
			return !onItsWay() && strings.Count(pending(), "\n") == 0 && strings.Contains(pending(), `"kind":"input"`) && !onItsWay()
		})
		if !set("2", 0) {
			t.Error("the input was not there when its key was set again")
		}
		x := ended(t, e, "x")
		if dead := rdb.XLen(t.Context(), e.Store.Keys().DeadLetters(tenant)).Val(); string(x.Output) != "[2]" || dead != 0 || pending() != "" {
			t.Errorf("the execution has received %s, %d are dead letters, and %q is left", x.Output, dead, pending())
		}
	})
}

// A replayed dead letter is delivered even if its key has been set again meanwhile.
func TestReplayedInput(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, rdb wire.Redis) {
		e := listening(t, rdb)
		later, now := inputOf(t, e, "2", time.Hour)
		if _, err := timers.New(e.Store).SetInput(t.Context(), later, now); err != nil {
			t.Fatal(err)
		}
		fired, _ := inputOf(t, e, "1", 0)
		fields := e.Store.Fields(event.Event{
			ID: "fired", Source: "/test", Type: event.TimerFired, Time: now.Add(-time.Hour), Tenant: tenant, Workflow: fired.Workflow, Execution: "x",
			Data: event.Encode(event.Fired{Timer: fired, ScheduledFor: fired.FireAt, FiredAt: fired.FireAt}),
		})
		fields = append(fields, event.AttemptAttribute, "1", event.ReplayAttribute, "1")
		if err := rdb.XAdd(t.Context(), &redis.XAddArgs{Stream: e.Store.Keys().Stream(tenant), Values: fields}).Err(); err != nil {
			t.Fatal(err)
		}
		if x := ended(t, e, "x"); string(x.Output) != "[1]" {
			t.Errorf("the execution has received %s, want the replayed input", x.Output)
		}
	})
}

// An input whose execution another input has ended is recorded as completed, without a reason.
func TestInputsTogether(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, rdb wire.Redis) {
		e := listening(t, rdb)
		stream := e.Store.Keys().Stream(tenant)
		if _, err := rdb.TxPipelined(t.Context(), func(pipe redis.Pipeliner) error {
			for _, key := range []string{"1", "2"} {
				fired, now := inputOf(t, e, key, 0)
				fired.Key = key
				pipe.XAdd(t.Context(), &redis.XAddArgs{Stream: stream, Values: e.Store.Fields(event.Event{
					ID: "fired" + key, Source: "/test", Type: event.TimerFired, Time: now, Tenant: tenant, Workflow: fired.Workflow, Execution: "x",
					Data: event.Encode(event.Fired{Timer: fired, ScheduledFor: fired.FireAt, FiredAt: fired.FireAt}),
				})})
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		ended(t, e, "x")
		var seen []store.Observation
		await(t, "both outcomes are recorded", func() bool {
			seen, _, _ = e.Store.Observations(t.Context(), tenant, "", 10)
			return len(seen) == 2
		})
		for _, o := range seen {
			if want := map[string]store.InputOutcome{"1": store.InputAccepted, "2": store.InputCompleted}[o.Key]; o.Outcome != want || o.Reason != "" {
				t.Errorf("input %s is recorded as %s with the reason %q, want %s and none", o.Key, o.Outcome, o.Reason, want)
			}
		}
	})
}

// listening runs an engine with an execution x that listens for an event.
func listening(t *testing.T, rdb wire.Redis) *engine.Engine {
	t.Helper()
	opts := engine.Defaults()
	opts.Process, opts.Transport, opts.Workers, opts.Executors, opts.Timers = "p", http.DefaultTransport, 2, 1, 1
	opts.Observations = true
	opts.Retry.Attempts = 20 // enough for a slow machine
	opts.Block(10 * time.Millisecond)
	e := prepared(t, rdb, opts)
	run(t, e)
	start(t, e, "x", "do: [{hear: {listen: {to: {one: {with: {type: com.example.x}}}, read: data}}}]", "{}")
	await(t, "the execution listens", func() bool { return statusOf(t, e, "x") == decide.Waiting })
	return e
}

// inputOf returns an input for the execution x, and Redis' time.
func inputOf(t *testing.T, e *engine.Engine, data string, after time.Duration) (input event.Timer, now time.Time) {
	t.Helper()
	now, err := e.Store.Now(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	x, err := e.Store.Execution(t.Context(), tenant, "x")
	if err != nil {
		t.Fatal(err)
	}
	return event.Timer{
		Tenant: tenant, Workflow: x.Workflow, Execution: "x", FireAt: now.Add(after), Kind: event.InputTimer, Key: "k",
		Input: event.EncodeInput(event.Event{Type: "com.example.x", Source: "/test", Data: json.RawMessage(data)}),
	}, now
}

// await waits until a condition holds.
func await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for began := time.Now(); !holds(); time.Sleep(time.Millisecond) {
		if time.Since(began) > patience {
			t.Fatalf("it takes longer than %v until %s", patience, what)
		}
	}
}

func statusOf(t *testing.T, e *engine.Engine, id string) decide.Status {
	t.Helper()
	x, err := e.Store.Execution(t.Context(), tenant, id)
	if err != nil {
		t.Fatal(err)
	}
	return decide.Status(x.Status)
}
