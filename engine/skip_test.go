package engine_test

import (
	"maps"
	"slices"
	"testing"
	"time"

	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/executor"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/inspect"
	"flunq.io/flunq/engine/store/redistest"
	"flunq.io/flunq/engine/store/stream"
	"flunq.io/flunq/engine/timer"
	"flunq.io/flunq/engine/worker"
)

// No group skips an event that its service handles: skip.lua and the services agree.
func TestGroupsSkipWhatTheirServicesIgnore(t *testing.T) {
	t.Parallel()
	handles := map[string]func(event.Type) bool{
		store.WorkerGroup: worker.Handles, store.ExecutorGroup: executor.Handles, store.TimerGroup: timer.Handles,
	}
	st := store.New(redistest.Connect(t, redistest.Serve(t).Addr()), store.Options{})
	skipped := 0
	types := append(slices.Collect(maps.Keys(eventTypes(t))), event.LifecyclePrefix+"task.started", "com.example.paid")
	for _, typ := range types {
		tenant := "t" + string(typ)
		if err := stream.New(st).Groups(t.Context(), tenant); err != nil {
			t.Fatal(err)
		}
		e := event.Event{
			ID: "e", Source: "/test", Type: typ, Time: time.Now(), Tenant: tenant, Workflow: "test.wf", Execution: "x", Task: "/do/0/t", Data: []byte("{}"),
		}
		c := store.Commit{Tenant: tenant, Execution: "x", History: []event.Event{e}, Publish: []event.Event{e}, Status: "running", Now: time.Now()}
		if done, err := st.Commit(t.Context(), c); done != store.Committed || err != nil {
			t.Fatalf("outcome %v, error %v", done, err)
		}
		streams, err := inspect.New(st).Streams(t.Context(), []string{tenant})
		if err != nil {
			t.Fatal(err)
		}
		for _, g := range streams[0].Groups {
			if g.Lag == 0 {
				skipped++
				if handles[g.Name](typ) {
					t.Errorf("%s skips %s, which its service handles", g.Name, typ)
				}
			}
		}
	}
	if skipped < 20 {
		t.Errorf("groups skip only %d events", skipped)
	}
}
