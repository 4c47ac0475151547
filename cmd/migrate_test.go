package cmd_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"flunq.io/flunq/cmd/actions"
	"flunq.io/flunq/engine"
	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/examine"
	httpcall "flunq.io/flunq/engine/executor/http"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/redistest"
	"flunq.io/flunq/engine/store/stream"
)

// looping returns a document that computes and waits all the time, and outputs its version
// at the end.
func looping(t *testing.T, version string) *dsl.Definition {
	t.Helper()
	text := "document: {dsl: '1.0.3', namespace: test, name: loop, version: '" + version + "'}\n" +
		"do:\n  - each:\n      for: {each: n, in: '[range(60)]'}\n      do:\n" +
		"        - add: {set: {sum: '${ .sum + 1 }'}}\n        - rest: {if: '${ $n % 10 == 0 }', wait: PT0.02S}\n      export: {as: '${ {sum: .sum} }'}\n" +
		"  - go: {listen: {to: {one: {with: {type: com.x.go}}}}, output: {as: '${ {sum: $context.sum} }'}}\n" +
		"  - end: {set: {sum: '${ .sum }', by: '" + version + "'}}\n"
	def, _, err := dsl.Parse("loop.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return def
}

// Two processes run executions while these are migrated there and back. Each is migrated
// while it computes, waits and listens. It ends once, according to the document that it had
// last, and its history follows from that document.
func TestMigrateWhileDeciding(t *testing.T) {
	t.Parallel()
	server := redistest.Serve(t)
	rdb := server.Client(t)
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	var e *engine.Engine
	for i := range 2 {
		opts := engine.Defaults()
		opts.Process, opts.Command, opts.Transport = fmt.Sprint("p", i), "serve", httpcall.NewTransport(httpcall.PublicNetwork)
		opts.Chunk = 4 // many commits
		opts.Block(10 * time.Millisecond)
		process, err := engine.New(rdb, opts)
		if err != nil {
			t.Fatal(err)
		}
		e = process
		running.Go(func() {
			if err := process.Run(ctx, slog.New(slog.DiscardHandler)); err != nil {
				t.Error(err)
			}
		})
	}
	t.Cleanup(func() { stop(); running.Wait() })
	versions := []string{"1.0.0", "2.0.0"}
	defs := map[string]*dsl.Definition{}
	for _, v := range versions {
		defs[v] = looping(t, v)
		if _, err := e.Definitions.Register(ctx, "default", defs[v]); err != nil {
			t.Fatal(err)
		}
	}
	const executions = 12
	for i := range executions {
		if err := e.Start(ctx, defs["1.0.0"], engine.StartRequest{Tenant: "default", ID: fmt.Sprint("x-", i), Input: json.RawMessage(`{"sum":0}`)}); err != nil {
			t.Fatal(err)
		}
	}
	by := actions.Migrator{Store: e.Store, Definitions: e.Definitions, By: "ada@host"}
	moved, printed := map[string]int{}, false
	open := map[string]bool{}
	for i := range executions {
		open[fmt.Sprint("x-", i)] = true
	}
	for deadline, n := time.Now().Add(patience), 1; len(open) > 0; n++ {
		if time.Now().After(deadline) {
			t.Fatalf("still running: %v", open)
		}
		for id := range open {
			x, err := e.Store.Execution(ctx, "default", id)
			if err != nil {
				t.Fatal(err)
			}
			m, err := by.Migrate(ctx, x, versions[n%2])
			if err != nil {
				t.Fatal(err)
			}
			if m.Event != 0 {
				t.Fatalf("%s: %+v", id, m)
			}
			if m.Result == actions.Migrated {
				moved[id]++
			}
			if examine.Ended(x.Status) {
				delete(open, id)
			}
		}
		// They end once each has been moved there and back; some have not come so far.
		ready := len(moved) == executions
		for _, n := range moved {
			ready = ready && n > 1
		}
		if now := time.Now(); ready && (!printed || n%20 == 0) {
			printed = true
			if err := e.Store.Publish(ctx, event.Event{ID: fmt.Sprint("go-", n), Source: "/test", Type: "com.x.go", Tenant: "default", Time: now}); err != nil {
				t.Fatal(err)
			}
		}
	}
	for i := range executions {
		id := fmt.Sprint("x-", i)
		x, err := e.Store.Execution(ctx, "default", id)
		if err != nil {
			t.Fatal(err)
		}
		env, err := e.Definitions.Hash(ctx, "default", x.Workflow, x.Definition)
		if err != nil {
			t.Fatal(err)
		}
		version := env.Definition().Document.Version
		if want := `{"by":"` + version + `","sum":60}`; x.Status != string(decide.Completed) || string(x.Output) != want {
			t.Errorf("%s is %s with %s, want completed with %s", id, x.Status, x.Output, want)
		}
		last := versions[0]
		var history []event.Event
		if err := e.Store.EachPage(ctx, x, 0, func(page []event.Event) error { history = append(history, page...); return nil }); err != nil {
			t.Fatal(err)
		}
		for _, one := range history {
			var m event.Migrated
			if one.Type == event.ExecutionMigrated && json.Unmarshal(one.Data, &m) == nil {
				if m.FromVersion != last || m.By != "ada@host" {
					t.Errorf("%s: migrated %+v, but it ran %s", id, m, last)
				}
				last = m.Version
			}
		}
		if last != version {
			t.Errorf("%s runs %s, its history says %s", id, version, last)
		}
		if _, err := decide.Rebuild(env, history); err != nil {
			t.Errorf("%s: %v", id, err)
		}
	}
	deadLetters, _, err := stream.New(e.Store).DeadLetters(ctx, stream.DeadLetterQuery{Tenant: "default", Range: store.Range{Count: 1}})
	if err != nil || len(deadLetters) > 0 {
		t.Errorf("dead letters: %v, %v", deadLetters, err)
	}
}
