package engine_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"flunq.io/flunq/engine"
	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/redistest"
	"flunq.io/flunq/engine/store/stream"
	"flunq.io/flunq/engine/store/wire"
)

const tenant = "default"

// onBoth runs a test on miniredis and on a real Redis.
func onBoth(t *testing.T, test func(t *testing.T, rdb wire.Redis)) {
	t.Helper()
	t.Run("miniredis", func(t *testing.T) {
		t.Parallel()
		test(t, redistest.Connect(t, miniredis.RunT(t).Addr()))
	})
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		test(t, redistest.Start(t))
	})
}

// lease is short so that the messages of a dead process are soon claimed, but long enough
// that a slow process rarely loses its own.
const lease = time.Second

// patience is how long to wait for something that takes a moment on an idle machine.
const patience = 2 * time.Minute

func newEngine(t *testing.T, rdb wire.Redis, process string) *engine.Engine {
	t.Helper()
	return leasing(t, rdb, process, lease)
}

func leasing(t *testing.T, rdb wire.Redis, process string, lease time.Duration) *engine.Engine {
	t.Helper()
	opts := engine.Defaults()
	opts.Process, opts.Transport = process, http.DefaultTransport
	opts.Workers, opts.Executors, opts.Timers = 2, 2, 1
	opts.Lease, opts.Remote = lease, true
	opts.Block(10 * time.Millisecond)
	return prepared(t, rdb, opts)
}

// prepared returns an engine that is ready to run.
func prepared(t *testing.T, rdb wire.Redis, opts engine.Options) *engine.Engine {
	t.Helper()
	e, err := engine.New(rdb, opts)
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	return e
}

// run runs an engine until the test ends.
func run(t *testing.T, e *engine.Engine) {
	t.Helper()
	runUntil(t, e)
}

func start(t *testing.T, e *engine.Engine, id, do, input string) *dsl.Definition {
	t.Helper()
	def := register(t, e, "case", do)
	if err := e.Start(t.Context(), def, engine.StartRequest{Tenant: tenant, ID: id, Input: json.RawMessage(input)}); err != nil {
		t.Fatal(err)
	}
	return def
}

// register registers a workflow of the test's tenant.
func register(t *testing.T, e *engine.Engine, name, do string) *dsl.Definition {
	t.Helper()
	doc := "document: {dsl: '1.0.3', namespace: test, name: " + name + ", version: '1.0.0'}\n" + do
	def, _, err := dsl.Parse(name+".yaml", []byte(doc))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.Definitions.Register(t.Context(), tenant, def); err != nil {
		t.Fatal(err)
	}
	return def
}

// ended waits until an execution has ended.
func ended(t *testing.T, e *engine.Engine, id string) store.Execution {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for ; ; time.Sleep(time.Millisecond) {
		x, err := e.Store.Execution(ctx, tenant, id)
		if err != nil {
			t.Fatalf("execution %s did not end: %v", id, err)
		}
		if decide.Status(x.Status).Ended() {
			return x
		}
	}
}

// begun waits until an execution has a history.
func begun(t *testing.T, e *engine.Engine, id string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for ; ; time.Sleep(time.Millisecond) {
		x, err := e.Store.Execution(ctx, tenant, id)
		if err != nil {
			t.Fatalf("execution %s did not begin: %v", id, err)
		}
		if x.Version > 0 {
			return
		}
	}
}

// follows checks that a history is valid by replaying it.
func follows(t *testing.T, e *engine.Engine, def *dsl.Definition, id string) {
	t.Helper()
	history, err := e.Store.History(t.Context(), tenant, id, 0, 100_000)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := decide.Rebuild(decide.NewEnv(def, decide.Options{Remote: true}), history); err != nil {
		t.Errorf("execution %s: %v", id, err)
	}
}

const counting = `
do:
  - loop:
      for: {in: "[range(20)]"}
      do:
        - count: {set: {n: "${ (.n // 0) + 1 }"}}
  - both:
      fork:
        branches:
          - a: {wait: PT0.01S}
          - b: {set: "${ .n }"}
`

// Two processes share many executions: each ends once, with the right output and a valid
// history.
func TestProcessesShareTheWork(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, rdb wire.Redis) {
		one, two := newEngine(t, rdb, "one"), newEngine(t, rdb, "two")
		run(t, one)
		run(t, two)
		var def *dsl.Definition
		for i := range 10 {
			def = start(t, one, fmt.Sprintf("x%d", i), counting, "{}")
		}
		for i := range 10 {
			id := fmt.Sprintf("x%d", i)
			if x := ended(t, one, id); string(x.Output) != `[{"n":20},20]` {
				t.Errorf("%s: %s, output %s, error %s", id, x.Status, x.Output, x.Error)
			}
			follows(t, one, def, id)
		}
	})
}

// Messages that a process has read but not handled when it dies are handled by another
// process.
func TestDeadProcess(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, rdb wire.Redis) {
		living := newEngine(t, rdb, "living")
		def := start(t, living, "x", counting, "{}")
		for _, group := range []string{store.WorkerGroup, store.ExecutorGroup, store.TimerGroup} {
			dead := stream.Reader{Group: group, Consumer: "dead", Tenants: []string{tenant}}
			if _, err := stream.New(living.Store).Read(t.Context(), dead, 100, 0); err != nil {
				t.Fatal(err)
			}
		}
		run(t, living)
		if x := ended(t, living, "x"); string(x.Output) != `[{"n":20},20]` {
			t.Errorf("%s, output %s, error %s", x.Status, x.Output, x.Error)
		}
		follows(t, living, def, "x")
	})
}

// An event that can never be handled is dead-lettered immediately; its execution faults with
// the reason in the same commit.
func TestDeadLetter(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, rdb wire.Redis) {
		e := newEngine(t, rdb, "one")
		start(t, e, "x", "do:\n  - ear: {listen: {to: {one: {with: {type: never}}}}}\n", "{}")
		run(t, e)
		begun(t, e, "x") // an event before its execution begins is ignored
		broken := event.Event{
			ID: "broken", Source: "/test", Type: event.TimerFired, Tenant: tenant, Execution: "x",
			Data: []byte(`{"task_id": 7}`), Time: time.Unix(0, 0),
		}
		if err := e.Store.Publish(t.Context(), broken); err != nil {
			t.Fatal(err)
		}
		x := ended(t, e, "x")
		if x.Status != string(decide.Faulted) || !strings.Contains(string(x.Error), "gave up at the first attempt") {
			t.Errorf("status %s, error %s", x.Status, x.Error)
		}
		deadLetters, err := rdb.XRange(t.Context(), "tenant:default:events:dlq", "-", "+").Result()
		if err != nil || len(deadLetters) != 1 {
			t.Fatalf("%d dead letters, %v", len(deadLetters), err)
		}
		for name, want := range map[string]string{"id": "broken", "attempts": "1", "service": "worker-service", "data": `{"task_id": 7}`} {
			if got := deadLetters[0].Values[name]; got != want {
				t.Errorf("%s of the dead letter is %v, want %s", name, got, want)
			}
		}
	})
}

// The execution ends even if its listeners cannot be removed.
func TestDeadLetterOfListeners(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, rdb wire.Redis) {
		e := newEngine(t, rdb, "one")
		for _, id := range []string{"x", "y"} {
			start(t, e, id, "do:\n  - ear: {listen: {to: {one: {with: {type: never}}}}}\n", "{}")
		}
		run(t, e)
		begun(t, e, "x")
		begun(t, e, "y")
		const key = "tenant:default:listen:never"
		fault := func(id string) {
			t.Helper()
			broken := event.Event{
				ID: "broken-" + id, Source: "/test", Type: event.TimerFired, Tenant: tenant, Execution: id,
				Data: []byte(`{"task_id": 7}`), Time: time.Unix(0, 0),
			}
			if err := e.Store.Publish(t.Context(), broken); err != nil {
				t.Fatal(err)
			}
			if x := ended(t, e, id); x.Status != string(decide.Faulted) {
				t.Errorf("%s is %s", id, x.Status)
			}
		}
		fault("x")
		if ids, err := rdb.SMembers(t.Context(), key).Result(); err != nil || len(ids) != 1 || ids[0] != "y" {
			t.Errorf("%v listen, %v, want y", ids, err)
		}
		if err := rdb.Set(t.Context(), key, "mine", 0).Err(); err != nil {
			t.Fatal(err)
		}
		fault("y")
	})
}

// A child without a definition faults, and its parent with it.
func TestUnknownChild(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, rdb wire.Redis) {
		e := newEngine(t, rdb, "one")
		run(t, e)
		start(t, e, "x", "do:\n  - child: {run: {workflow: {namespace: test, name: nobody, version: latest}}}\n", "{}")
		x := ended(t, e, "x")
		if x.Status != string(decide.Faulted) || !strings.Contains(string(x.Error), "test.nobody") {
			t.Errorf("status %s, error %s", x.Status, x.Error)
		}
	})
}

// stopping is a hook that ends a context at the first command, as a signal may.
type stopping struct{ stop context.CancelFunc }

func (*stopping) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h *stopping) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if h.stop != nil {
			h.stop()
		}
		if err := ctx.Err(); err != nil {
			cmd.SetErr(err)
			return err
		}
		return next(ctx, cmd)
	}
}

func (h *stopping) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if h.stop != nil {
			h.stop()
		}
		if err := ctx.Err(); err != nil {
			for _, cmd := range cmds {
				cmd.SetErr(err)
			}
			return err
		}
		return next(ctx, cmds)
	}
}

// A process that is asked to stop while it starts logs no failure.
func TestStopAtStart(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, rdb wire.Redis) {
		var h stopping
		rdb.AddHook(&h)
		e := newEngine(t, rdb, "stopping")
		ctx, cancel := context.WithCancel(t.Context())
		h.stop = cancel
		var log bytes.Buffer
		if err := e.Run(ctx, slog.New(slog.NewTextHandler(&log, nil))); err != nil || log.Len() > 0 {
			t.Errorf("error %v, log %q", err, log.String())
		}
	})
}

// A process that stops releases its messages so that no other process has to wait for its
// leases.
func TestStop(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, rdb wire.Redis) {
		stopping, staying := leasing(t, rdb, "stopping", time.Hour), leasing(t, rdb, "staying", time.Hour)
		for i := range 20 {
			start(t, staying, fmt.Sprintf("x%d", i), counting, "{}")
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- stopping.Run(ctx, slog.New(slog.DiscardHandler)) }()
		ended(t, staying, "x0")
		cancel()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		run(t, staying)
		for i := range 20 {
			if x := ended(t, staying, fmt.Sprintf("x%d", i)); x.Status != string(decide.Completed) {
				t.Errorf("%s: %s, error %s", x.ID, x.Status, x.Error)
			}
		}
	})
}
