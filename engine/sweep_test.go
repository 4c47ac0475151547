package engine_test

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"flunq.io/flunq/engine"
	"flunq.io/flunq/engine/delivery"
	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/timers"
	"flunq.io/flunq/engine/store/wire"
)

// Timers, subscriptions and requests that Redis has lost are restored once; timers that an
// operator has cancelled are not.
func TestSweep(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, rdb wire.Redis) {
		var calls atomic.Int32
		server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { calls.Add(1) }))
		t.Cleanup(server.Close)
		ctx := t.Context()

		deaf := sweeping(t, rdb, "one", func(o *engine.Options) { o.Executors = 0 })
		stop := runUntil(t, deaf)
		begin(t, deaf, "waits", "do: [{rest: {wait: {hours: 1}}}]\n")
		begin(t, deaf, "cancelled", "do: [{rest: {wait: {hours: 2}}}]\n")
		begin(t, deaf, "limited", "timeout: {after: {hours: 1}}\ndo: [{hear: {listen: {to: {one: {with: {type: com.paid}}}}}}]\n")
		begin(t, deaf, "listens", "do: [{hear: {listen: {to: {one: {with: {type: com.paid}}}}}}]\n")
		begin(t, deaf, "calls", "do: [{ask: {call: http, with: {method: get, endpoint: '"+server.URL+"'}}}]\n")
		var set []timers.Pending
		until(t, "the timers are set and the listeners listed", func() bool {
			set = armed(t, deaf, "cancelled")
			listed, err := deaf.Store.Listeners(ctx, tenant, "com.paid")
			return err == nil && len(set) == 1 && len(listed) == 2 && len(armed(t, deaf, "limited"))+len(armed(t, deaf, "waits")) == 2
		})
		if gone, err := timers.New(deaf.Store).Cancel(ctx, set[0], "ada"); !gone || err != nil {
			t.Fatal(gone, err)
		}
		until(t, "the call is requested", func() bool {
			streams, err := rdb.XReadGroup(ctx, &redis.XReadGroupArgs{
				Group: store.ExecutorGroup, Consumer: "hand", Streams: []string{"tenant:default:events", ">"}, Count: 100, Block: -1,
			}).Result()
			if err != nil {
				return false
			}
			requested := false
			for _, m := range streams[0].Messages {
				rdb.XAck(ctx, "tenant:default:events", store.ExecutorGroup, m.ID)
				requested = requested || m.Values["type"] == string(event.TaskRequested) && m.Values["executionid"] == "calls"
			}
			return requested
		})
		stop()
		rdb.Del(ctx, "flunq:timers:all", "tenant:default:listen:com.paid")
		rdb.ZAdd(ctx, "tenant:default:executions:open", redis.Z{Score: 1, Member: "damaged"})
		rdb.Set(ctx, "tenant:default:execution:damaged", "not a hash", 0)

		var mended, stuck atomic.Int32
		e := sweeping(t, rdb, "two", func(o *engine.Options) {
			o.Sweep = 50 * time.Millisecond
			o.Activity = func(a delivery.Activity) {
				if a.What == delivery.Restored {
					mended.Add(int32(a.Count))
				}
				if a.What == delivery.Stuck && a.Message.Event.Execution == "damaged" {
					stuck.Add(1)
				}
			}
		})
		run(t, e)
		ends(t, e, tenant, "calls")
		until(t, "both listen again", func() bool {
			listed, err := e.Store.Listeners(ctx, tenant, "com.paid")
			return err == nil && slices.Equal(listed, []string{"limited", "listens"}) && len(armed(t, e, "limited")) == 1
		})
		until(t, "the timer is set again", func() bool { return len(armed(t, e, "waits")) == 1 })
		const lost = 5 // two timers, two listeners and a request
		until(t, "all that was lost is reported", func() bool { return mended.Load() >= lost })
		until(t, "the damaged execution is reported", func() bool { return stuck.Load() == 1 })
		if calls.Load() != 1 || mended.Load() != lost || len(armed(t, e, "cancelled")) != 0 {
			t.Errorf("%d calls, %d things mended, %d timers of the cancelled one; want 1, %d and 0",
				calls.Load(), mended.Load(), len(armed(t, e, "cancelled")), lost)
		}
		if err := e.Store.Publish(ctx, event.Event{ID: "p", Source: "/shop", Type: "com.paid", Tenant: tenant, Data: []byte("{}")}); err != nil {
			t.Fatal(err)
		}
		if fired, err := timers.New(e.Store).FireNow(ctx, armed(t, e, "waits")[0], "ada"); !fired || err != nil {
			t.Fatal(fired, err)
		}
		ends(t, e, tenant, "waits")
		ends(t, e, tenant, "limited")
		ends(t, e, tenant, "listens")
	})
}

// The deletion of a history is noticed even while a worker has the execution in memory: the
// execution faults with the reason, and does not block the events of others.
func TestHistoryGone(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, rdb wire.Redis) {
		ctx := t.Context()
		e := sweeping(t, rdb, "one", func(*engine.Options) {})
		run(t, e)
		const do = "do: [{rest: {wait: {hours: 1}}}, {hear: {listen: {to: {one: {with: {type: com.paid}}}}}}]\n"
		const hears = "do: [{hear: {listen: {to: {one: {with: {type: com.paid}}}}}}, {rest: {wait: {hours: 1}}}]\n"
		begin(t, e, "x", do)
		for _, id := range []string{"a", "b", "c"} {
			begin(t, e, id, hears)
		}
		until(t, "they listen", func() bool {
			listed, err := e.Store.Listeners(ctx, tenant, "com.paid")
			return err == nil && len(listed) == 3 && len(armed(t, e, "x")) == 1
		})
		rdb.Del(ctx, "tenant:default:execution:x:history", "tenant:default:execution:b:history")
		if fired, err := timers.New(e.Store).FireNow(ctx, armed(t, e, "x")[0], "ada"); !fired || err != nil {
			t.Fatal(fired, err)
		}
		if err := e.Store.Publish(ctx, event.Event{ID: "p", Source: "/shop", Type: "com.paid", Tenant: tenant, Data: []byte("{}")}); err != nil {
			t.Fatal(err)
		}
		until(t, "the others go on", func() bool { return len(armed(t, e, "a")) == 1 && len(armed(t, e, "c")) == 1 })
		until(t, "both are dead letters", func() bool { return rdb.XLen(ctx, "tenant:default:events:dlq").Val() == 2 })
		x := ended(t, e, "x")
		if x.Status != "faulted" || !strings.Contains(string(x.Error), "history of execution x") {
			t.Errorf("it is %s: %s", x.Status, x.Error)
		}
	})
}

// begin starts an execution of a workflow with the same name.
func begin(t *testing.T, e *engine.Engine, id, do string) {
	t.Helper()
	def, _, err := dsl.Parse("case.yaml", []byte("document: {dsl: '1.0.3', namespace: test, name: "+id+", version: '1.0.0'}\n"+do))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.Definitions.Register(t.Context(), tenant, def); err != nil {
		t.Fatal(err)
	}
	if err := e.Start(t.Context(), def, engine.StartRequest{Tenant: tenant, ID: id}); err != nil {
		t.Fatal(err)
	}
}

// sweeping returns an engine with changed options.
func sweeping(t *testing.T, rdb wire.Redis, process string, change func(*engine.Options)) *engine.Engine {
	t.Helper()
	opts := engine.Defaults()
	opts.Process, opts.Transport, opts.Lease = process, http.DefaultTransport, lease
	opts.Block(10 * time.Millisecond)
	change(&opts)
	return prepared(t, rdb, opts)
}

// armed returns the timers of an execution.
func armed(t *testing.T, e *engine.Engine, id string) []timers.Pending {
	t.Helper()
	all, _, err := timers.New(e.Store).List(t.Context(), timers.Filter{Tenant: tenant, Execution: id}, "", 10)
	if err != nil {
		t.Fatal(err)
	}
	return all
}
