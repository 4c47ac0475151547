package engine_test

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"flunq.io/flunq/engine"
	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/store/timers"
	"flunq.io/flunq/engine/store/wire"
)

// An execution that is aborted because its message crashes processes leaves nothing behind:
// no timer, no listener and no running child.
func TestExecutionThatKillsLeavesNothing(t *testing.T) {
	t.Parallel()
	for name, typ := range map[string]string{"stated type": "com.example.never", "computed type": `${ "com.example." + .kind }`} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onBoth(t, func(t *testing.T, rdb wire.Redis) {
				killed(t, rdb, typ)
			})
		})
	}
}

func killed(t *testing.T, rdb wire.Redis, typ string) {
	t.Helper()
	e := newEngine(t, rdb, "one")
	child, _, err := dsl.Parse("child.yaml", []byte("document: {dsl: '1.0.3', namespace: test, name: child, version: '1.0.0'}\ndo: [{rest: {wait: P30D}}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.Definitions.Register(t.Context(), tenant, child); err != nil {
		t.Fatal(err)
	}
	stop := runUntil(t, e)
	start(t, e, "x", `
do:
  - all:
      fork:
        branches:
          - rest: {wait: P9D, timeout: {after: P20D}}
          - hear: {listen: {to: {one: {with: {type: '`+typ+`'}}}}}
          - begin: {run: {workflow: {namespace: test, name: child, version: '1.0.0'}}}
`, `{"kind": "never"}`)
	const listeners = "tenant:" + tenant + ":listen:com.example.never"
	until(t, "it waits", func() bool {
		set, _, err := timers.New(e.Store).List(t.Context(), timers.Filter{Tenant: tenant}, "", 10)
		listed, listErr := rdb.SIsMember(t.Context(), listeners, "x").Result()
		return err == nil && listErr == nil && len(set) == 3 && listed
	})
	stop()

	const stream, group = "tenant:" + tenant + ":events", "worker-service"
	id, err := rdb.XAdd(t.Context(), &redis.XAddArgs{Stream: stream, Values: []string{
		"id", "deadly", "source", "/test", "specversion", "1.0", "type", "io.flunq.timer.fired",
		"tenantid", tenant, "executionid", "x", "taskid", "/do/0/all/fork/branches/0/rest", "data", "{}",
	}}).Result()
	if err != nil {
		t.Fatal(err)
	}
	if err := rdb.XReadGroup(t.Context(), &redis.XReadGroupArgs{Group: group, Consumer: "dead", Streams: []string{stream, ">"}}).Err(); err != nil {
		t.Fatal(err)
	}
	if err := rdb.HSet(t.Context(), stream+":deaths", group+" "+id, 5).Err(); err != nil {
		t.Fatal(err)
	}

	run(t, newEngine(t, rdb, "two"))
	x := ended(t, e, "x")
	if x.Status != "faulted" || !strings.Contains(string(x.Error), "5 processes died") {
		t.Fatalf("it is %s with %s", x.Status, x.Error)
	}
	if x := ended(t, e, "x.1"); x.Status != "cancelled" {
		t.Errorf("its child is %s", x.Status)
	}
	if listed, err := rdb.Exists(t.Context(), listeners).Result(); listed != 0 || err != nil {
		t.Errorf("%d lists of listeners are left (%v)", listed, err)
	}
	until(t, "no timer is left", func() bool {
		left, err := rdb.ZCard(t.Context(), "flunq:timers:all").Result()
		return err == nil && left == 0
	})
}

// runUntil runs an engine until stop is called.
func runUntil(t *testing.T, e *engine.Engine) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := e.Run(ctx, slog.New(slog.DiscardHandler)); err != nil {
			t.Error(err)
		}
	})
	stop = func() { cancel(); wg.Wait() }
	t.Cleanup(stop)
	return stop
}

// until waits for a condition.
func until(t *testing.T, what string, done func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for ; !done(); time.Sleep(time.Millisecond) {
		if ctx.Err() != nil {
			t.Fatalf("timed out waiting until %s", what)
		}
	}
}
