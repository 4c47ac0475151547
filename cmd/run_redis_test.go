package cmd_test

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"flunq.io/flunq/cmd"
	"flunq.io/flunq/cmd/cli"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/inspect"
	"flunq.io/flunq/engine/store/redistest"
	"flunq.io/flunq/engine/store/wire"
)

// written writes a file for a test and returns its path.
func written(t *testing.T, name, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// waits waits until an execution has set its timer, and returns the tenant.
func waits(t *testing.T, rdb wire.Redis) (tenant string) {
	t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if n, err := rdb.ZCard(t.Context(), "flunq:timers:all").Result(); err == nil && n > 0 {
			names, err := rdb.SMembers(t.Context(), "flunq:tenants").Result()
			if err != nil || len(names) == 0 {
				t.Fatal(names, err)
			}
			for _, name := range names {
				if name != "default" {
					return name
				}
			}
			return names[0]
		}
	}
	t.Fatal("no timer was set")
	return ""
}

// interruptedRun runs a command until an execution waits, and interrupts it.
func interruptedRun(t *testing.T, rdb wire.Redis, args ...string) (tenant, stderr string, code int) {
	t.Helper()
	ctx, interrupt := context.WithCancel(t.Context())
	var out, errOut bytes.Buffer
	done := make(chan int, 1)
	go func() {
		done <- cmd.Execute(ctx, args, cli.Streams{In: strings.NewReader(""), Out: &out, Err: &errOut, Env: environment(nil)})
	}()
	tenant = waits(t, rdb)
	interrupt()
	code = <-done
	return tenant, errOut.String(), code
}

// A run with mocks beside a process that serves all tenants makes no real calls and leaves
// no data, whether it ends or is interrupted.
func TestMockedRunOnRedis(t *testing.T) {
	t.Parallel()
	server := redistest.Serve(t)
	rdb := server.Client(t)
	url := "redis://" + server.Addr()
	var calls atomic.Int32
	simulation := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { calls.Add(1); w.WriteHeader(http.StatusNoContent) }))
	t.Cleanup(simulation.Close)
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan int, 1)
	go func() {
		served <- cmd.Execute(ctx, []string{"serve", "--redis-url", url, "--allow-private", "--http", ""}, cli.Streams{
			In: strings.NewReader(""), Out: &bytes.Buffer{}, Err: &bytes.Buffer{}, Env: environment(nil),
		})
	}()
	st := store.New(rdb, store.Options{})
	for deadline := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		missing, err := inspect.New(st).Unserved(ctx, "default", map[string]string{"worker": store.WorkerGroup})
		if err == nil && len(missing) == 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the process did not register", err)
		}
	}
	head := "document: {dsl: '1.0.3', namespace: test, name: calls, version: '1.0.0'}\n"
	each := "  - each:\n      for: {each: n, in: '[range(40)]'}\n      do: [{ask: {call: http, with: {method: get, endpoint: " + simulation.URL + "}}}]\n"
	mocks := written(t, "m.yaml", "http: [{respond: {body: {ok: true}, latency: PT0.02S}}]\n")
	short := written(t, "short.yaml", head+"do:\n"+each)
	if _, stderr, code := flunq(t, nil, "run", short, "--mocks", mocks, "--redis-url", url); code != 0 {
		t.Errorf("code %d: %s", code, stderr)
	}
	long := written(t, "long.yaml", head+"do:\n  - nap: {wait: PT1H}\n"+each)
	_, stderr, code := interruptedRun(t, rdb, "run", long, "--mocks", mocks, "--redis-url", url)
	if code != 130 || !strings.Contains(stderr, "interrupted\nthe execution was removed with its tenant\n") {
		t.Errorf("interrupted: code %d: %s", code, stderr)
	}
	stop()
	if code := <-served; code != 0 && code != 130 {
		t.Errorf("serve: code %d", code)
	}
	if n := calls.Load(); n > 0 {
		t.Errorf("%d calls were really made", n)
	}
	keys, err := rdb.Keys(context.WithoutCancel(ctx), "*").Result()
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range keys {
		if key != "flunq:tenants" && key != "flunq:turn:sweep" && key != store.ProcessesKey && !strings.HasPrefix(key, "tenant:default:") {
			t.Errorf("left behind: %s", key)
		}
	}
}

// A run that is interrupted prints that its execution continues and how to end it.
func TestInterruptedRunOnRedis(t *testing.T) {
	t.Parallel()
	server := redistest.Serve(t)
	url := "redis://" + server.Addr()
	file := written(t, "nap.yaml", "document: {dsl: '1.0.3', namespace: test, name: nap, version: '1.0.0'}\ndo: [{nap: {wait: PT1H}}]\n")
	_, stderr, code := interruptedRun(t, server.Client(t), "run", file, "--id", "nap-1", "--redis-url", url)
	end := "flunq cancel nap-1 --yes --tenant default --redis-url " + url
	if code != 130 || !strings.Contains(stderr, "execution nap-1 has not ended: it continues when a process serves tenant default") || !strings.Contains(stderr, "to end it: "+end+"\n") {
		t.Errorf("code %d: %s", code, stderr)
	}
	if _, stderr, code := flunq(t, nil, strings.Fields(end)[1:]...); code != 0 {
		t.Errorf("code %d: %s", code, stderr)
	}
	_, stderr, code = flunq(t, nil, "run", file, "--id", "nap-2", "--redis-url", url, "--max-time", "PT3S")
	if code != 7 || !strings.Contains(stderr, "stopped while waiting  1 task, ") || !strings.Contains(stderr, "stopped by --max-time after 1 task") || !strings.Contains(stderr, "flunq cancel nap-2 --yes") {
		t.Errorf("code %d: %s", code, stderr)
	}
}
