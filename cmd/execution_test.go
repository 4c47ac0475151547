package cmd_test

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/rogpeppe/go-internal/testscript"

	"flunq.io/flunq/engine"
	"flunq.io/flunq/engine/event"
	httpcall "flunq.io/flunq/engine/executor/http"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/redistest"
)

// Scripts on a running engine: each has its own, on a real Redis and some on miniredis too.
func TestScriptOnEngine(t *testing.T) {
	t.Parallel()
	pages, err := filepath.Glob("../testdata/script/engine/*.txtar")
	if err != nil || len(pages) == 0 {
		t.Fatalf("no pages: %v", err)
	}
	run := func(kind, page string, addr func(*testing.T) string) {
		t.Run(kind+"/"+strings.TrimSuffix(filepath.Base(page), ".txtar"), func(t *testing.T) {
			t.Parallel()
			url := "redis://" + addr(t)
			serve(t, url)
			onPage(t, url, page)
		})
	}
	for _, page := range pages {
		run("redis", page, func(t *testing.T) string { return redistest.Addr(t) })
	}
	// The suite of engine/store compares the two in detail, so a few pages are enough here.
	for _, name := range []string{"executions", "inputs", "operators"} {
		run("miniredis", "../testdata/script/engine/"+name+".txtar", func(t *testing.T) string { return miniredis.RunT(t).Addr() })
	}
}

func onPage(t *testing.T, url, page string) {
	t.Helper()
	runScripts(t, testscript.Params{
		Files: []string{page},
		Cmds:  map[string]func(*testscript.TestScript, bool, []string){"code": code, "redis": inRedis, "until": until},
		Setup: func(env *testscript.Env) error {
			env.Setenv("LC_ALL", "C.UTF-8")
			env.Setenv("NOT_UTF8", "\xff")
			env.Setenv("TZ", "UTC")
			env.Setenv("FLUNQ_USER", "ada@host")
			env.Setenv("REDIS_URL", url)
			return nil
		},
	})
}

// serve runs an engine until the test ends, for the default tenant or others.
func serve(t *testing.T, url string, tenants ...string) {
	t.Helper()
	rdb, err := store.Dial(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	opts := engine.Defaults()
	opts.Process, opts.Command, opts.Executors = "test", "serve", 2
	if len(tenants) > 0 {
		opts.Tenants = tenants
	}
	opts.Block(200 * time.Millisecond)
	opts.Transport = httpcall.NewTransport(httpcall.PublicNetwork)
	e, err := engine.New(rdb, opts)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx, slog.New(slog.DiscardHandler)) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
		_ = rdb.Close()
	})
}

// until repeats a command until its output contains a string: until waiting flunq show x.
func until(ts *testscript.TestScript, negated bool, args []string) {
	if negated || len(args) < 2 {
		ts.Fatalf("usage: until TEXT COMMAND [ARGUMENT…]")
	}
	for began := time.Now(); ; time.Sleep(200 * time.Millisecond) {
		err := ts.Exec(args[1], args[2:]...)
		if err == nil && strings.Contains(ts.ReadFile("stdout"), args[0]) {
			return
		}
		if time.Since(began) > patience {
			ts.Fatalf("no %q in the output", args[0])
		}
	}
}

// A bridge also learns what a new execution has from the history of another one.
func TestResetWithBridge(t *testing.T) {
	t.Parallel()
	mr := miniredis.RunT(t)
	serve(t, "redis://"+mr.Addr())
	env := map[string]string{"REDIS_URL": "redis://" + mr.Addr()}
	run := func(args ...string) {
		t.Helper()
		if out, errs, code := flunqWith(t.Context(), env, args...); code != 0 {
			t.Fatalf("flunq %v: code %d\n%s%s", args, code, out, errs)
		}
	}
	file := filepath.Join(t.TempDir(), "order.yaml")
	const text = "document: {dsl: '1.0.3', namespace: shop, name: order, version: '1.0.0'}\ndo: [{a: {set: {x: 1}}}, {b: {wait: PT0.01S}}, {c: {wait: PT0.01S}}]"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	run("start", file, "--id", "order-1", "--wait")
	rdb := redistest.Connect(t, mr.Addr())
	if err := rdb.XGroupCreate(t.Context(), "tenant:default:events", store.BridgePrefix+"test", "$").Err(); err != nil {
		t.Fatal(err)
	}
	run("reset", "order-1", "--to", "c", "--id", "order-2")
	entries, err := rdb.XRange(t.Context(), "tenant:default:events", "-", "+").Result()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, entry := range entries {
		if typ, _ := entry.Values["type"].(string); strings.HasPrefix(typ, string(event.LifecyclePrefix)) && entry.Values["executionid"] == "order-2" {
			got = append(got, strings.TrimPrefix(typ, string(event.LifecyclePrefix)))
		}
	}
	const begun = " task.created.v1 task.started.v1"
	want := "workflow.started.v1" + begun + " task.completed.v1" + begun + " task.completed.v1" + begun
	if strings.Join(got, " ") != want {
		t.Errorf("lifecycle events:\n%s\nwant\n%s", strings.Join(got, " "), want)
	}
}

// show says whether an executor has taken a task.
func TestShowRequest(t *testing.T) {
	t.Parallel()
	mr := miniredis.RunT(t)
	env := map[string]string{"REDIS_URL": "redis://" + mr.Addr()}
	run := func(args ...string) (out, errs string) {
		t.Helper()
		out, errs, code := flunqWith(t.Context(), env, args...)
		if code != 0 {
			t.Fatalf("flunq %v: code %d\n%s%s", args, code, out, errs)
		}
		return out, errs
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan int, 1)
	go func() {
		_, _, code := flunqWith(ctx, env, "serve", "--only", "worker,timer", "--http", "")
		ended <- code
	}()
	t.Cleanup(func() {
		stop()
		if code := <-ended; code != 0 {
			t.Errorf("serve: code %d", code)
		}
	})
	file := filepath.Join(t.TempDir(), "order.yaml")
	const text = "document: {dsl: '1.0.3', namespace: shop, name: order, version: '1.0.0'}\ndo: [{charge: {call: http, with: {method: get, endpoint: 'http://shop.example'}}}]"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	run("start", file, "--id", "order-1")
	shows := func(want string) (errs string) {
		t.Helper()
		var out string
		for began := time.Now(); !strings.Contains(out, want); time.Sleep(20 * time.Millisecond) {
			if out, errs = run("show", "order-1"); time.Since(began) > patience {
				t.Fatalf("no %q in\n%s%s", want, out, errs)
			}
		}
		return errs
	}
	if errs := shows("/do/0/charge waits for an executor"); !strings.Contains(errs, "no process runs the executor service") {
		t.Errorf("stderr: %s", errs)
	}
	rdb := redistest.Connect(t, mr.Addr())
	rdb.XGroupCreate(t.Context(), "tenant:default:events", store.ExecutorGroup, "0") // it may exist
	read := &redis.XReadGroupArgs{Group: store.ExecutorGroup, Consumer: "c1", Streams: []string{"tenant:default:events", ">"}, Count: 100}
	if err := rdb.XReadGroup(t.Context(), read).Err(); err != nil {
		t.Fatal(err)
	}
	shows("/do/0/charge was taken by the consumer c1 and has no result yet")
	env["LEASE"] = "1s"
	shows("/do/0/charge was taken by the consumer c1, which has been silent for ")
}
