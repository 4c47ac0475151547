package engine_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"flunq.io/flunq/engine"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/wire"
)

// The number of a tenant's open executions is limited, whatever starts them and in whichever process.
// Executions that end, or whose keys are deleted, no longer count.
func TestOpenExecutionsAreLimited(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, rdb wire.Redis) {
		const limit = 20
		ctx := t.Context()
		var e *engine.Engine
		for _, process := range []string{"one", "two"} {
			opts := engine.Defaults()
			opts.Process, opts.Transport, opts.Tenants, opts.Open = process, http.DefaultTransport, []string{tenant, "b"}, limit
			var err error
			if e, err = engine.New(rdb, opts); err != nil {
				t.Fatal(err)
			}
			run(t, e)
		}
		open := func() int64 { n, _ := rdb.ZCard(ctx, "tenant:default:executions:open").Result(); return n }
		wait := register(t, e, "wait", "do:\n  - rest: {wait: {hours: 1}}\n")
		register(t, e, "parent", `do:
  - each:
      for: {in: "${ [range(200)] }"}
      do:
        - child: {run: {workflow: {namespace: test, name: wait, version: '1.0.0'}, await: false}}
  - rest: {wait: {hours: 1}}
`)
		register(t, e, "awaits", "do:\n  - child: {run: {workflow: {namespace: test, name: wait, version: '1.0.0'}}}\n")
		begin := func(tenant, id, name string) {
			t.Helper()
			if err := engine.StartExecution(ctx, e.Store, engine.StartRequest{Tenant: tenant, ID: id, Namespace: "test", Name: name}); err != nil {
				t.Fatal(err)
			}
		}
		refused := func(id string) {
			t.Helper()
			until(t, id+" exists", func() bool { _, err := e.Store.Execution(ctx, tenant, id); return err == nil })
			if x := ended(t, e, id); x.Status != "faulted" || !strings.Contains(string(x.Error), "LIMIT_EXECUTIONS") {
				t.Fatalf("%s is %s with %s, want it to fault with an error that names the limit", id, x.Status, x.Error)
			}
		}

		// Of children without a waiting parent, the first ones begin and the others fault.
		begin(tenant, "p", "parent")
		refused("p.200")
		n := open()
		if n < limit || n > 5*limit { // several workers decide at the same time
			t.Errorf("%d executions are open, want about %d", n, limit)
		}
		begin(tenant, "q", "awaits")
		refused("q")
		if _, err := e.Definitions.Register(ctx, "b", wait); err != nil {
			t.Fatal(err)
		}
		begin("b", "q", "wait")
		until(t, "the execution of another tenant begins", func() bool { x, _ := e.Store.Execution(ctx, "b", "q"); return x.Status == "waiting" })

		// When they end, new executions can begin.
		until(t, "all have begun or were refused", func() bool {
			c, err := e.Store.Counts(ctx, tenant)
			return err == nil && c.Open+c.Faulted == 202
		})
		cancelled := map[string]bool{}
		until(t, "all are cancelled", func() bool {
			for _, id := range rdb.ZRange(ctx, "tenant:default:executions:open", 0, -1).Val() {
				if cancelled[id] {
					continue
				}
				cancelled[id] = true
				err := e.Store.Publish(ctx, event.Event{
					ID: id + "/cancel", Source: "/test", Type: event.ExecutionCancelled, Tenant: tenant, Workflow: "test.wait", Execution: id, Data: []byte(`{}`),
				})
				if err != nil {
					t.Fatal(err)
				}
			}
			return open() == 0
		})
		begin(tenant, "r", "awaits")
		until(t, "the child begins", func() bool { x, _ := e.Store.Execution(ctx, tenant, "r.1"); return x.Status == "waiting" })

		// Executions without keys do not count forever.
		for i := range 2 * limit {
			if err := rdb.ZAdd(ctx, "tenant:default:executions:open", redis.Z{Member: fmt.Sprint("gone", i)}).Err(); err != nil {
				t.Fatal(err)
			}
		}
		if n, err := e.Store.Open(ctx, tenant, limit); n != 2 || err != nil {
			t.Errorf("%d executions are open, %v; want 2", n, err)
		}
		if _, _, _, err := e.Store.Forget(ctx, tenant, store.Keep{Count: 1}, store.ForgetProgress{}); err != nil {
			t.Fatal(err)
		}
		if n := open(); n != 2 {
			t.Errorf("%d executions are open after others were removed, want 2", n)
		}
	})
}
