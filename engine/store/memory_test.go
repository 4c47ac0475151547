package store_test

import (
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/google/go-cmp/cmp"

	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/stream"
)

// Stores that share the pool of buffers concurrently write and read what each was given.
func TestStoresShareBuffers(t *testing.T) {
	t.Parallel()
	rdb, err := store.Dial(t.Context(), miniredis.RunT(t).Addr())
	must(t, err)
	t.Cleanup(func() { _ = rdb.Close() })
	var wg sync.WaitGroup
	for i := range 4 {
		st := store.New(rdb, store.Options{})
		wg.Go(func() { executeMany(t, st, fmt.Sprint("t", i)) })
	}
	wg.Wait()
}

// executeMany commits executions of a tenant one by one, each on the event that
// begins it, and checks the result.
func executeMany(t *testing.T, st *store.Store, tenant string) {
	t.Helper()
	if err := stream.New(st).Groups(t.Context(), tenant); err != nil {
		t.Error(err)
		return
	}
	for n := range 25 {
		e := event.Event{
			ID: fmt.Sprint(tenant, "/", n), Source: "/test", Type: event.ExecutionStarted, Time: time.Unix(int64(n), 0).UTC(), Tenant: tenant,
			Workflow: "test.wf", Execution: fmt.Sprint("x-", n), Data: json.RawMessage(fmt.Sprintf(`{"of":%q,"n":%d}`, tenant, n)),
		}
		if err := st.Start(t.Context(), e); err != nil {
			t.Error(err)
		}
		got, err := stream.New(st).Read(t.Context(), stream.Reader{Group: store.WorkerGroup, Consumer: tenant, Tenants: []string{tenant}}, 10, 0)
		msgs := got.Messages
		if err != nil || len(msgs) != 1 {
			t.Errorf("read %d messages of %s, %v", len(msgs), tenant, err)
			return
		}
		done, err := st.Commit(t.Context(), store.Commit{
			Message: &msgs[0], Ack: true, Tenant: tenant, Execution: e.Execution, History: []event.Event{msgs[0].Event},
			Status: "running", Workflow: e.Workflow, Definition: "abc", Now: e.Time,
		})
		if err != nil || done != store.Committed {
			t.Errorf("%s of %s: outcome %d, %v", e.Execution, tenant, done, err)
		}
		if history, err := st.History(t.Context(), tenant, e.Execution, 0, 10); err != nil || !cmp.Equal(history, []event.Event{e}) {
			t.Errorf("%s of %s: %v %s", e.Execution, tenant, err, cmp.Diff([]event.Event{e}, history))
		}
	}
}
