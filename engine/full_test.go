package engine_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/processes"
	"flunq.io/flunq/engine/store/redistest"
	"flunq.io/flunq/engine/store/stream"
	"flunq.io/flunq/engine/store/timers"
)

// With Redis at its maxmemory, operators can suspend and cancel the executions that have filled it,
// heartbeats continue, and expired executions are removed. Once there is memory again, the others
// continue and nothing is lost.
func TestFullRedis(t *testing.T) {
	t.Parallel()
	ctx, rdb := t.Context(), redistest.Serve(t, "--maxmemory-policy", "noeviction").Client(t)
	e := newEngine(t, rdb, "full")
	run(t, e)
	start(t, e, "old", "do:\n  - one: {set: {n: 1}}\n", "")
	ends(t, e, tenant, "old")
	const loop = `do:
  - count: {set: {n: "${ (.n // 0) + 1 }"}}
  - rest: {wait: {milliseconds: 2}}
  - again: {if: "${ .n < %d }", set: "${ . }", then: count}
`
	ids := []string{"x"}
	start(t, e, "x", fmt.Sprintf(loop, 1_000_000), "")
	for i := range 20 {
		ids = append(ids, fmt.Sprint("y", i))
		start(t, e, ids[i+1], fmt.Sprintf(loop, 20), "")
	}
	for _, id := range ids {
		until(t, id+" begins", func() bool { x, _ := e.Store.Execution(ctx, tenant, id); return x.Version > 0 })
	}

	if err := rdb.ConfigSet(ctx, "maxmemory", "1").Err(); err != nil {
		t.Fatal(err)
	}
	if err := rdb.Set(ctx, "any", "1", 0).Err(); err == nil {
		t.Fatal("Redis is not full")
	}
	err := e.Store.Publish(ctx, event.Event{ID: "any", Source: "/test", Type: "com.x", Tenant: tenant})
	if want := "Redis is full: raise its maxmemory"; !store.Full(err) || !strings.Contains(err.Error(), want) {
		t.Errorf("publishing an event returned %v, want %s", err, want)
	}
	for _, command := range []struct {
		kind event.Type
		want string
	}{{event.ExecutionSuspended, "suspended"}, {event.ExecutionCancelled, "cancelled"}} {
		err := e.Store.Publish(ctx, event.Event{
			ID: "x/" + command.want, Source: "/test", Type: command.kind, Tenant: tenant, Workflow: "test.case", Execution: "x", Data: []byte(`{}`),
		})
		if err != nil {
			t.Fatal(err)
		}
		until(t, "x is "+command.want, func() bool { x, _ := e.Store.Execution(ctx, tenant, "x"); return x.Status == command.want })
	}
	if err := processes.In(e.Store).Register(ctx, &processes.Process{Name: "late"}); err != nil {
		t.Errorf("a process cannot register: %v", err)
	}
	for _, want := range []bool{true, false} {
		if first, err := processes.In(e.Store).FirstInPeriod(ctx, "late", time.Minute); err != nil || first != want {
			t.Errorf("the process is the first in the period: %v, %v; want %v", first, err, want)
		}
	}
	if err := timers.New(e.Store).WakeService(ctx, tenant); err != nil {
		t.Errorf("the timer service cannot be woken: %v", err)
	}
	// A process can start, even if it serves a new tenant.
	late := store.New(rdb, store.Options{})
	for _, name := range []string{tenant, "new"} {
		if err := stream.New(late).Groups(ctx, name); err != nil {
			t.Errorf("the consumer groups of tenant %s cannot be created: %v", name, err)
		}
	}
	gone, _, _, err := e.Store.Forget(ctx, tenant, store.Keep{Count: 1}, store.ForgetProgress{})
	if err != nil || gone != 1 {
		t.Errorf("%d executions are removed, %v; want the older of two that have ended", gone, err)
	}
	if err := rdb.ConfigSet(ctx, "maxmemory", "0").Err(); err != nil {
		t.Fatal(err)
	}
	for _, id := range ids[1:] {
		ends(t, e, tenant, id)
	}
}
