package engine_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"flunq.io/flunq/engine"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/history"
	"flunq.io/flunq/engine/store/redistest"
)

// The workers publish the lifecycle events that follow from the history, in its order. A task whose
// result arrives while its execution is suspended is not resumed.
func TestLifecycle(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t)
	opts := engine.Defaults()
	opts.Process, opts.Transport, opts.Lease, opts.Lifecycle = "one", http.DefaultTransport, lease, true
	opts.Workers, opts.Executors, opts.Timers = 2, 0, 1
	opts.Block(10 * time.Millisecond)
	e := prepared(t, rdb, opts)
	run(t, e)
	start(t, e, "x", `
do:
  - both:
      fork:
        branches:
          - ask: {call: http, with: {method: get, endpoint: "http://a.example/"}}
          - more: {call: http, with: {method: get, endpoint: "http://b.example/"}}
  - nap: {wait: PT0.01S}
  - oops: {raise: {error: {type: "https://a.example/oops", status: 500}}}
`, "{}")
	happens := func(kind event.Type, task, data string, version int64) {
		t.Helper()
		if err := e.Store.Publish(t.Context(), event.Event{
			ID: task + string(kind), Source: "/test", Type: kind, Tenant: tenant, Workflow: "test.case", Execution: "x", Task: task, Data: []byte(data),
		}); err != nil {
			t.Fatal(err)
		}
		until(t, string(kind), func() bool { x, _ := e.Store.Execution(t.Context(), tenant, "x"); return x.Version >= version })
	}
	begun(t, e, "x")
	happens(event.ExecutionSuspended, "", `{}`, 5)
	happens(event.TaskCompleted, "/do/0/both/fork/branches/0/ask", `{"success":true,"output":1}`, 6)
	happens(event.ExecutionResumed, "", `{}`, 7)
	happens(event.TaskCompleted, "/do/0/both/fork/branches/1/more", `{"success":true,"output":2}`, 8)
	x := ended(t, e, "x")

	happened, err := e.Store.History(t.Context(), tenant, "x", 0, int(x.Version))
	if err != nil {
		t.Fatal(err)
	}
	var want, got []string
	l := history.Lifecycle{Version: "1.0.0"}
	for i, h := range happened {
		for _, out := range l.Add(int64(i)+1, h) {
			want = append(want, strings.Join(out.Fields(), " "))
		}
	}
	for _, entry := range rdb.XRange(t.Context(), e.Store.Keys().Stream(tenant), "-", "+").Val() {
		if out, err := event.FromAttributes(entry.Values); err == nil && strings.HasPrefix(string(out.Type), event.LifecyclePrefix) {
			got = append(got, strings.Join(out.Fields(), " "))
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("published\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if text := strings.Join(got, "\n"); strings.Count(text, "lifecycle.task.suspended.v1 ") != 3 || strings.Count(text, "lifecycle.task.resumed.v1 ") != 2 {
		t.Errorf("want three tasks to be suspended and two to be resumed:\n%s", text)
	}
}
