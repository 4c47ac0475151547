package memory_test

import (
	"testing"
	"time"

	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/store"
)

// The simulator's Redis runs the commands that remove ended executions.
func TestMemoryForgets(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	m, client := openMemory(t)
	st := store.New(client, store.Options{})
	for id, parent := range map[string]string{"open": "", "child": "open", "old": "", "orphan": "gone"} {
		e := event.Event{ID: id, Source: "/test", Type: event.ExecutionStarted, Tenant: "acme", Workflow: "test.wf", Execution: id, Time: memoryStart, Data: []byte(`{}`)}
		if err := st.Start(ctx, e); err != nil {
			t.Fatal(err)
		}
		c := store.Commit{
			Tenant: "acme", Execution: id, Parent: parent, History: []event.Event{e}, Status: "completed", Ended: id != "open",
			Workflow: "test.wf", Now: memoryStart,
		}
		if !c.Ended {
			c.Status = "waiting"
		}
		if done, err := st.Commit(ctx, c); done != store.Committed || err != nil {
			t.Fatal(done, err)
		}
	}
	keep := store.Keep{Age: time.Hour}
	m.SetTime(memoryStart.Add(time.Hour - time.Nanosecond))
	if n, _, done, err := st.Forget(ctx, "acme", keep, store.ForgetProgress{}); n != 0 || !done || err != nil {
		t.Errorf("%d are gone too early, %v", n, err)
	}
	m.SetTime(memoryStart.Add(time.Hour))
	if n, walk, done, err := st.Forget(ctx, "acme", keep, store.ForgetProgress{}); n != 2 || walk != (store.ForgetProgress{1}) || !done || err != nil {
		t.Errorf("%d are gone, the walk is at %v, %v, want 2", n, walk, err)
	}
	keys, err := client.Keys(ctx, "tenant:acme:execution:*").Result()
	if err != nil || len(keys) != 4 {
		t.Errorf("left are %v, %v, want open and child with their histories", keys, err)
	}
}
