package top_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"flunq.io/flunq/cmd/top"
	"flunq.io/flunq/engine"
	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/redistest"
	"flunq.io/flunq/engine/store/wire"
	"flunq.io/flunq/tui"
)

const tenant = "default"

// environment is an engine on a Redis, and the source of a screen.
type environment struct {
	*testing.T

	rdb    wire.Redis
	store  *store.Store
	engine *engine.Engine
	source tui.Source
	folder string
}

// newEnvironment returns an environment on a new Redis.
func newEnvironment(t *testing.T) *environment {
	t.Helper()
	return environmentOn(t, redistest.Start(t))
}

func environmentOn(t *testing.T, rdb wire.Redis) *environment {
	t.Helper()
	opts := engine.Defaults()
	opts.Process, opts.Command, opts.Transport, opts.Lookahead = "here", "serve", http.DefaultTransport, 0
	opts.Workers, opts.Executors, opts.Timers = 2, 4, 1
	opts.Secrets = map[string]any{"key": "sesame-open-wide"}
	opts.Block(10 * time.Millisecond)
	e, err := engine.New(rdb, opts)
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	w := &environment{T: t, rdb: rdb, store: e.Store, engine: e, folder: t.TempDir()}
	w.source = w.look()
	return w
}

// look returns a new source.
func (w *environment) look() tui.Source {
	w.Helper()
	opts := top.Defaults()
	opts.Place, opts.Folder, opts.Version = "redis://here", w.folder, "1.2.3"
	source, err := top.New(w.Context(), w.rdb, opts)
	if err != nil {
		w.Fatal(err)
	}
	return source
}

// run runs the engine until the test ends or stop is called.
func (w *environment) run() (stop func()) {
	w.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { _ = w.engine.Run(ctx, slog.New(slog.DiscardHandler)) })
	stop = func() { cancel(); wg.Wait() }
	w.Cleanup(stop)
	return stop
}

// start starts an execution of a document that is given without its head.
func (w *environment) start(id, name, do string) {
	w.Helper()
	doc := "document: {dsl: '1.0.3', namespace: test, name: " + name + ", version: '1.0.0'}\n" + do
	def, _, err := dsl.Parse(name+".yaml", []byte(doc))
	if err != nil {
		w.Fatal(err)
	}
	if _, err := w.engine.Definitions.Register(w.Context(), tenant, def); err != nil {
		w.Fatal(err)
	}
	if err := w.engine.Start(w.Context(), def, engine.StartRequest{Tenant: tenant, ID: id, Input: json.RawMessage(`{"order":7}`)}); err != nil {
		w.Fatal(err)
	}
}

// patience is how long a step may take on a busy machine.
const patience = 2 * time.Minute

// until polls until done reports true.
func (w *environment) until(what string, done func() bool) {
	w.Helper()
	for deadline := time.Now().Add(patience); !done(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			w.Fatalf("not within %v: %s", patience, what)
		}
	}
}

// becomes waits until an execution has a status.
func (w *environment) becomes(id string, status tui.State) {
	w.Helper()
	var x store.Execution
	w.until(id+" is "+string(status), func() bool {
		x, _ = w.store.Execution(w.Context(), tenant, id)
		return x.Status == string(status)
	})
}

// must returns a value or fails the test.
func must[T any](value T, err error) func(t testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

func (w *environment) overview() tui.Overview {
	w.Helper()
	return must(w.source.Overview(w.Context()))(w)
}

func (w *environment) page(q tui.Query) tui.Page {
	w.Helper()
	return must(w.source.Page(w.Context(), q))(w)
}

// timerOf returns the first timer of an execution.
func (w *environment) timerOf(execution string) (found tui.Row) {
	w.Helper()
	w.until("timer of "+execution, func() bool {
		page := w.page(tui.Query{Table: tui.Timers, Filter: tui.ParseFilter(tui.Timers, "execution:"+execution), Limit: 1})
		if len(page.Rows) > 0 {
			found = page.Rows[0]
		}
		return len(page.Rows) > 0
	})
	return found
}

// addDeadLetter adds a dead letter with an event from outside.
func (w *environment) addDeadLetter(id, typ, reason string) string {
	w.Helper()
	return must(w.rdb.XAdd(w.Context(), &redis.XAddArgs{Stream: "tenant:" + tenant + ":events:dlq", Values: []string{
		"id", id, "source", "/test", "specversion", "1.0", "type", typ, "time", "2026-01-01T00:00:00Z", "tenantid", tenant,
		"workflowid", "test.letters", "data", `{"n":1}`, "reason", reason, "attempts", "5", "service", store.WorkerGroup,
		"source_stream", "tenant:default:events", "source_id", "1-1",
		"first_failure", "2026-01-01T00:00:00Z", "last_failure", "2026-01-01T00:01:00Z",
	}}).Result())(w)
}

// host starts a server: /hang responds after release is called, /fail with 500.
func (w *environment) host() (url string, release func()) {
	w.Helper()
	proceed := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/hang":
			select {
			case <-proceed:
			case <-r.Context().Done():
			}
		case "/fail":
			out.WriteHeader(http.StatusInternalServerError)
			return
		}
		out.Header().Set("Content-Type", "application/json")
		_, _ = out.Write([]byte(`{"ok":true}`))
	}))
	release = sync.OnceFunc(func() { close(proceed) })
	w.Cleanup(func() { release(); server.Close() })
	return server.URL, release
}
