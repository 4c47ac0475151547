package conformance_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"flunq.io/flunq/engine"
	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/event"
	httpcall "flunq.io/flunq/engine/executor/http"
	"flunq.io/flunq/engine/store/redistest"
	"flunq.io/flunq/sim"
	"flunq.io/flunq/sim/conformance"
)

// All official scenarios of both versions pass, in the simulator and on a real Redis.
func TestOfficialScenarios(t *testing.T) {
	t.Run("simulated", func(t *testing.T) { conform(t, simulated(false)) })
	t.Run("remote", func(t *testing.T) { conform(t, simulated(true)) })
	t.Run("redis", func(t *testing.T) { conform(t, onRedis(t)) })
}

func conform(t *testing.T, run conformance.Run) {
	t.Helper()
	scenarios, err := conformance.Read(conformance.Official())
	if err != nil {
		t.Fatal(err)
	}
	if len(scenarios) != 42 {
		t.Errorf("%d scenarios, want 42", len(scenarios))
	}
	for _, s := range scenarios {
		t.Run(s.Version+"/"+s.Name, func(t *testing.T) {
			if err := s.Check(t.Context(), run); err != nil {
				t.Errorf("%s: %v", s.File, err)
			}
		})
	}
}

// The embedded features are identical to those of the specification.
func TestOfficialFiles(t *testing.T) {
	t.Parallel()
	folder := os.Getenv("FLUNQ_SPEC")
	if folder == "" {
		t.Skip("NOT COMPARED: FLUNQ_SPEC does not name the folder of the specification")
	}
	err := fs.WalkDir(conformance.Official(), ".", func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		got, err := fs.ReadFile(conformance.Official(), file)
		if err != nil {
			return err
		}
		want, err := os.ReadFile(filepath.Join(folder, "ctk", file))
		if err == nil && string(got) != string(want) {
			t.Errorf("%s differs from the specification", file)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// A failing scenario reports the step and the reason.
func TestFailures(t *testing.T) {
	t.Parallel()
	const set = "Given a workflow with definition:\n\"\"\"yaml\ndocument: {dsl: '1.0.3', namespace: a, name: b, version: '1.0.0'}\n" +
		"do: [{first: {set: {colors: [red], size: 3}}}, {second: {set: '${ . }'}}]\n\"\"\"\n"
	const ran = set + "When the workflow is executed\n"
	const raised = "Given a workflow with definition:\n\"\"\"yaml\ndocument: {dsl: '1.0.3', namespace: a, name: b, version: '1.0.0'}\n" +
		"do: [{fails: {raise: {error: {type: 'https://a.example/b', status: 400}}}}]\n\"\"\"\nWhen the workflow is executed\n"
	for _, c := range []struct{ steps, want string }{
		{ran + "Then the workflow should complete", ""},
		{ran + "Then the workflow should fault", "the workflow is completed"},
		{ran + "Then the workflow should cancel", "the workflow is completed"},
		{ran + "Then the workflow should complete with output:\n\"\"\"yaml\nsize: 4\n\"\"\"", `got {"colors":["red"],"size":3}, want {"size":4}`},
		{ran + "Then the workflow should fault with error:\n\"\"\"yaml\nstatus: 400\n\"\"\"", "the workflow is completed"},
		{ran + "Then the workflow output should have properties 'colors', 'shape'", "has no shape"},
		{ran + "Then the workflow output should have a 'size' property with value:\n\"\"\"yaml\n3\n\"\"\"", ""},
		{ran + "Then the workflow output should have a 'size' property with value:\n\"\"\"yaml\n4\n\"\"\"", "got 3, want 4"},
		{ran + "Then the workflow output should have a 'colors' property containing 1 items", ""},
		{ran + "Then the workflow output should have a 'colors' property containing 2 items", `colors is ["red"], want 2 items`},
		{ran + "Then the workflow output should have a 'size' property containing 3 items", "size is 3, want 3 items"},
		{ran + "Then first should run last", "the tasks ran in the order [first second]"},
		{ran + "Then second should run first", "the tasks ran in the order [first second]"},
		{ran + "Then second should run before first", "the tasks ran in the order [first second]"},
		{ran + "Then second should run after first", ""},
		{ran + "Then third should run after first", "the tasks ran in the order [first second]"},
		{ran + "Then first should complete", ""},
		{ran + "Then first should fault", "first is completed"},
		{ran + "Then third should complete", "task third did not end"},
		{ran + "Then first should complete with output:\n\"\"\"yaml\n{}\n\"\"\"", "want {}"},
		{ran + "Then first should fault with error:\n\"\"\"yaml\nstatus: 400\n\"\"\"", "first is completed"},
		{raised + "Then the workflow should fault with error:\n\"\"\"yaml\nstatus: 400\n\"\"\"", ""},
		{raised + "Then the workflow should fault with error:\n\"\"\"yaml\nstatus: 500\n\"\"\"", "status is 400, want 500"},
		{raised + "Then fails should fault with error:\n\"\"\"yaml\ntitle: none\n\"\"\"", `title is null, want "none"`},
		{ran + "Then the workflow should sing", "unknown step"},
		{set + "Then the workflow should complete", "no workflow has been executed yet"},
		{set, "executes no workflow"},
		{"When the workflow is executed", "defines no workflow"},
		{"Given a workflow with definition:", "no text block"},
		{"Given a workflow with definition:\n\"\"\"yaml\ndo: 3\n\"\"\"", "want a list of tasks"},
	} {
		scenarios, err := conformance.Read(fstest.MapFS{"a.feature": {Data: []byte("Feature: a\nScenario: b\n" + c.steps)}})
		if err != nil || len(scenarios) != 1 {
			t.Fatalf("%s: %d scenarios, %v", c.steps, len(scenarios), err)
		}
		err = scenarios[0].Check(t.Context(), simulated(false))
		if (c.want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s:\ngot  %v\nwant %s", c.steps, err, c.want)
		}
	}
}

func simulated(remote bool) conformance.Run {
	return func(ctx context.Context, def *dsl.Definition, input json.RawMessage) (conformance.Outcome, error) {
		var history []event.Event
		r, err := sim.Run(ctx, sim.Config{
			Definition: def, Input: input, Mocks: conformance.Services(), Remote: remote,
			Observe: func(events []event.Event) { history = append(history, events...) },
		})
		if err != nil {
			return conformance.Outcome{}, err
		}
		return conformance.Outcome{Status: r.Status, Output: r.Output, Error: r.Error, History: history}, nil
	}
}

// onRedis runs the engine's services on a real Redis, with one tenant for each scenario.
func onRedis(t *testing.T) conformance.Run {
	t.Helper()
	rdb := redistest.Start(t)
	var scenario int
	return func(ctx context.Context, def *dsl.Definition, input json.RawMessage) (conformance.Outcome, error) {
		scenario++
		opts := engine.Defaults()
		opts.Process, opts.Transport = "ctk", httpcall.Outward(conformance.Services().Transport(noSleep, nil))
		opts.Tenants = []string{fmt.Sprintf("ctk-%d", scenario)}
		opts.Block(50 * time.Millisecond)
		e, err := engine.New(rdb, opts)
		if err != nil {
			return conformance.Outcome{}, err
		}
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		if err := e.Prepare(ctx); err != nil {
			return conformance.Outcome{}, err
		}
		if _, err := e.Definitions.Register(ctx, opts.Tenants[0], def); err != nil {
			return conformance.Outcome{}, err
		}
		if err := e.Start(ctx, def, engine.StartRequest{Tenant: opts.Tenants[0], ID: "scenario", Input: input}); err != nil {
			return conformance.Outcome{}, err
		}
		done := make(chan error, 1)
		go func() { done <- e.Run(ctx, slog.New(slog.DiscardHandler)) }()
		history, err := untilEnd(ctx, e, opts.Tenants[0], "scenario")
		if err != nil {
			return conformance.Outcome{}, err
		}
		cancel()
		if err := <-done; err != nil {
			return conformance.Outcome{}, err
		}
		return outcomeOf(history)
	}
}

// untilEnd returns the history of an execution once it has ended.
func untilEnd(ctx context.Context, e *engine.Engine, tenant, id string) ([]event.Event, error) {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	var history []event.Event
	for ; ctx.Err() == nil; time.Sleep(time.Millisecond) {
		more, err := e.Store.History(ctx, tenant, id, int64(len(history)), 1000)
		if err != nil {
			return nil, err
		}
		history = append(history, more...)
		if n := len(history); n > 0 {
			ends := []event.Type{event.WorkflowCompleted, event.WorkflowFailed, event.WorkflowCancelled}
			if slices.Contains(ends, history[n-1].Type) {
				return history, nil
			}
		}
	}
	return nil, fmt.Errorf("execution %s did not end: %w", id, ctx.Err())
}

func outcomeOf(history []event.Event) (conformance.Outcome, error) {
	last := history[len(history)-1]
	var ended event.Ended
	if err := json.Unmarshal(last.Data, &ended); err != nil {
		return conformance.Outcome{}, err
	}
	r := conformance.Outcome{Output: ended.Output, Error: ended.Error, History: history}
	switch last.Type {
	case event.WorkflowCompleted:
		r.Status = decide.Completed
	case event.WorkflowFailed:
		r.Status = decide.Faulted
	default:
		r.Status = decide.Cancelled
	}
	return r, nil
}

func noSleep(context.Context, time.Duration) error { return nil }
