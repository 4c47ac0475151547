package engine_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"flunq.io/flunq/engine"
	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/wire"
)

// An execution that starts others endlessly faults with an error that names the limit. None
// of its descendants stays open or counted, and no new one begins.
func TestDescendantsAreLimited(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, rdb wire.Redis) {
		opts := engine.Defaults()
		opts.Process, opts.Transport, opts.Tenants, opts.Descendants = "bomb", http.DefaultTransport, []string{"a"}, 20
		e, err := engine.New(rdb, opts)
		if err != nil {
			t.Fatal(err)
		}
		run(t, e)
		def, _, err := dsl.Parse("bomb.yaml", []byte(`document: {dsl: '1.0.3', namespace: test, name: bomb, version: '1.0.0'}
do:
  - f:
      fork:
        branches:
          - a: {run: {workflow: {namespace: test, name: bomb, version: '1.0.0', input: {}}}}
          - b: {run: {workflow: {namespace: test, name: bomb, version: '1.0.0', input: {}}}}
`))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := e.Definitions.Register(t.Context(), "a", def); err != nil {
			t.Fatal(err)
		}
		if err := e.Start(t.Context(), def, engine.StartRequest{Tenant: "a", ID: "x"}); err != nil {
			t.Fatal(err)
		}
	wait:
		for until := time.Now().Add(patience); ; time.Sleep(2 * time.Millisecond) {
			x, err := e.Store.Execution(t.Context(), "a", "x")
			if err != nil && !errors.Is(err, store.ErrNotFound) {
				t.Fatal(err)
			}
			left, err := rdb.SCard(t.Context(), "tenant:a:descendants:x").Result()
			if err != nil {
				t.Fatal(err)
			}
			if x.Status == "faulted" && left == 0 {
				if !strings.Contains(string(x.Error), "LIMIT_DESCENDANTS") {
					t.Errorf("the error is %s, want one that names the limit", x.Error)
				}
				break wait
			}
			if time.Now().After(until) {
				t.Fatalf("it is %q, and %d are open below it", x.Status, left)
			}
		}
		late := event.Started{Namespace: "test", Name: "bomb", Version: "1.0.0", Parent: "x", ParentTask: "/do/0/f/run", Depth: 1}
		if err := e.Store.Publish(t.Context(), event.Event{
			ID: "late", Source: decide.Source, Type: event.ExecutionStarted, Time: time.Now(),
			Tenant: "a", Workflow: "test.bomb", Execution: "x.99", Data: event.Encode(late),
		}); err != nil {
			t.Fatal(err)
		}
		for until := time.Now().Add(patience); ; time.Sleep(2 * time.Millisecond) {
			x, err := e.Store.Execution(t.Context(), "a", "x.99")
			if err == nil && x.Status == "cancelled" {
				history, err := e.Store.History(t.Context(), "a", "x.99", 0, 10)
				if err != nil || len(history) != 2 || !strings.Contains(string(history[1].Data), "execution x, which started this one, has ended") {
					t.Errorf("the history of a child that begins after its parent is %v, %v", history, err)
				}
				return
			}
			if time.Now().After(until) {
				t.Fatalf("the child of an ended parent is %q, %v", x.Status, err)
			}
		}
	})
}
