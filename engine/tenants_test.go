package engine_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"flunq.io/flunq/engine"
	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/wire"
)

// With enough tenants that all are read only at intervals, all executions end: those that begin while
// others are busy, and the first one of a quiet tenant.
func TestManyTenants(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, rdb wire.Redis) {
		const text = "document: {dsl: '1.0.3', namespace: test, name: case, version: '1.0.0'}\ndo:\n  - one: {set: {n: 1}}\n"
		def, _, err := dsl.Parse("case.yaml", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		opts := engine.Defaults()
		opts.Process, opts.Transport, opts.Remote, opts.Tenants = "many", http.DefaultTransport, true, nil
		for i := range 150 {
			opts.Tenants = append(opts.Tenants, fmt.Sprintf("t%03d", i))
		}
		e, err := engine.New(rdb, opts)
		if err != nil {
			t.Fatal(err)
		}
		run(t, e)
		for i, tenant := range e.Tenants() {
			if _, err := e.Definitions.Register(t.Context(), tenant, def); err != nil {
				t.Fatal(err)
			}
			for n := range 1 + i%3 {
				if err := e.Start(t.Context(), def, engine.StartRequest{Tenant: tenant, ID: fmt.Sprint("x", n)}); err != nil {
					t.Fatal(err)
				}
			}
		}
		for i, tenant := range e.Tenants() {
			for n := range 1 + i%3 {
				ends(t, e, tenant, fmt.Sprint("x", n))
			}
		}
		if err := e.Start(t.Context(), def, engine.StartRequest{Tenant: "t149", ID: "late"}); err != nil {
			t.Fatal(err)
		}
		ends(t, e, "t149", "late")
	})
}

// Tenants may use the same names for documents, executions, children and events; each sees
// only its own.
func TestTenantsMayUseTheSameNames(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, rdb wire.Redis) {
		opts := engine.Defaults()
		opts.Process, opts.Transport, opts.Remote, opts.Tenants = "alike", http.DefaultTransport, true, []string{"one", "two", "three"}
		e, err := engine.New(rdb, opts)
		if err != nil {
			t.Fatal(err)
		}
		run(t, e)
		const executions = 20
		for _, tenant := range opts.Tenants {
			registerAlike(t, e, tenant)
		}
		for i := range executions {
			for _, tenant := range opts.Tenants {
				start := engine.StartRequest{Tenant: tenant, ID: fmt.Sprint("x", i), Namespace: "test", Name: "case", Input: fmt.Appendf(nil, `{"in":%q}`, tenant)}
				if err := engine.StartExecution(t.Context(), e.Store, start); err != nil {
					t.Fatal(err)
				}
			}
		}
		for _, tenant := range opts.Tenants {
			listens(t, e, tenant, executions)
			heard := event.Event{ID: "1", Source: "/test", Type: "com.example.x", Tenant: tenant, Time: time.Now(), Data: fmt.Appendf(nil, "%q", tenant)}
			if err := e.Store.Publish(t.Context(), heard); err != nil {
				t.Fatal(err)
			}
		}
		for i := range executions {
			for _, tenant := range opts.Tenants {
				id := fmt.Sprint("x", i)
				ends(t, e, tenant, id)
				x, err := e.Store.Execution(t.Context(), tenant, id)
				if want := fmt.Sprintf(`{"child":%[1]q,"heard":%[1]q,"in":%[1]q,"is":%[1]q}`, tenant); err != nil || string(x.Output) != want {
					t.Errorf("%s of %s: %s, %v", id, tenant, x.Output, err)
				}
			}
		}
	})
}

// registerAlike registers a workflow and a child whose outputs name their tenant.
func registerAlike(t *testing.T, e *engine.Engine, tenant string) {
	t.Helper()
	for _, text := range []string{`document: {dsl: '1.0.3', namespace: test, name: child, version: '1.0.0'}
do:
  - rest: {wait: PT0.1S}
  - say: {set: {child: %s}}
`, `document: {dsl: '1.0.3', namespace: test, name: case, version: '1.0.0'}
do:
  - all:
      fork:
        branches:
          - hear: {listen: {to: {one: {with: {type: com.example.x}}}}}
          - run: {run: {workflow: {namespace: test, name: child, version: '1.0.0', input: {}}}}
          - remote: {set: {in: "${ $workflow.input.in }"}}
  - end: {set: '${ { is: %q, heard: .[0][0], child: .[1].child, in: .[2].in } }'}
`} {
		def, _, err := dsl.Parse("case.yaml", fmt.Appendf(nil, text, tenant))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := e.Definitions.Register(t.Context(), tenant, def); err != nil {
			t.Fatal(err)
		}
	}
}

// listens waits until a number of a tenant's executions listen.
func listens(t *testing.T, e *engine.Engine, tenant string, executions int) {
	t.Helper()
	for until := time.Now().Add(patience); ; time.Sleep(2 * time.Millisecond) {
		ids, err := e.Store.Listeners(t.Context(), tenant, "com.example.x")
		if err != nil {
			t.Fatal(err)
		}
		if len(ids) == executions {
			return
		}
		if time.Now().After(until) {
			t.Fatalf("%d executions of %s listen", len(ids), tenant)
		}
	}
}

// A tenant with many concurrent executions delays no other tenant and loses none of them.
func TestCrowd(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, rdb wire.Redis) {
		const text = "document: {dsl: '1.0.3', namespace: test, name: case, version: '1.0.0'}\ndo:\n  - one: {set: {n: 1}}\n  - two: {set: {n: 2}}\n"
		def, _, err := dsl.Parse("case.yaml", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		opts := engine.Defaults()
		opts.Process, opts.Transport, opts.Remote, opts.Tenants = "crowd", http.DefaultTransport, true, []string{"many", "few"}
		e, err := engine.New(rdb, opts)
		if err != nil {
			t.Fatal(err)
		}
		for _, tenant := range opts.Tenants {
			if _, err := e.Definitions.Register(t.Context(), tenant, def); err != nil {
				t.Fatal(err)
			}
		}
		const crowd = 600
		for i := range crowd {
			if err := e.Start(t.Context(), def, engine.StartRequest{Tenant: "many", ID: fmt.Sprint("x", i)}); err != nil {
				t.Fatal(err)
			}
		}
		run(t, e)
		for i := range 5 {
			if err := e.Start(t.Context(), def, engine.StartRequest{Tenant: "few", ID: fmt.Sprint("x", i)}); err != nil {
				t.Fatal(err)
			}
			ends(t, e, "few", fmt.Sprint("x", i))
		}
		for i := range crowd {
			ends(t, e, "many", fmt.Sprint("x", i))
		}
	})
}

// hosts answers calls one by one, and records their hosts.
type hosts struct {
	called chan string
	answer chan struct{}
}

// RoundTrip answers when the test allows it.
func (h *hosts) RoundTrip(r *http.Request) (*http.Response, error) {
	h.called <- r.URL.Hostname()
	<-h.answer
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader("{}")), Request: r,
	}, nil
}

// The waiting calls of one tenant do not delay another tenant's call.
func TestCrowdOfCalls(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, rdb wire.Redis) {
		h := &hosts{called: make(chan string), answer: make(chan struct{})}
		services := func(name string, workers, executors int) *engine.Engine {
			opts := engine.Defaults()
			opts.Process, opts.Transport, opts.Tenants = name, h, []string{"few", "many"}
			opts.Workers, opts.Executors, opts.Timers = workers, executors, 0
			e, err := engine.New(rdb, opts)
			if err != nil {
				t.Fatal(err)
			}
			run(t, e)
			return e
		}
		deciding := services("deciding", 2, 0)
		begin := func(tenant string, n int) {
			const text = "document: {dsl: '1.0.3', namespace: test, name: case, version: '1.0.0'}\ndo:\n  - ask: {call: http, with: {method: get, endpoint: 'http://%s.test/'}}\n"
			def, _, err := dsl.Parse("case.yaml", fmt.Appendf(nil, text, tenant))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := deciding.Definitions.Register(t.Context(), tenant, def); err != nil {
				t.Fatal(err)
			}
			for i := range n {
				if err := deciding.Start(t.Context(), def, engine.StartRequest{Tenant: tenant, ID: fmt.Sprint("x", i)}); err != nil {
					t.Fatal(err)
				}
			}
			asked(t, rdb, tenant, n)
		}
		const crowd = 30
		begin("many", crowd)
		services("calling", 0, 1)
		if got := <-h.called; got != "many.test" {
			t.Fatalf("the first call is to %s", got)
		}
		begin("few", 1)
		if got := <-h.called; got != "few.test" {
			t.Fatalf("with a call of the other tenant under way, the next call is to %s", got)
		}
		close(h.answer)
		for range crowd - 1 {
			<-h.called
		}
		ends(t, deciding, "few", "x0")
	})
}

// asked waits until a number of a tenant's tasks have been requested.
func asked(t *testing.T, rdb wire.Redis, tenant string, n int) {
	t.Helper()
	for until := time.Now().Add(patience); ; time.Sleep(2 * time.Millisecond) {
		entries, err := rdb.XRange(t.Context(), "tenant:"+tenant+":events", "-", "+").Result()
		if err != nil {
			t.Fatal(err)
		}
		got := 0
		for _, entry := range entries {
			if entry.Values["type"] == string(event.TaskRequested) {
				got++
			}
		}
		if got >= n {
			return
		}
		if time.Now().After(until) {
			t.Fatalf("%d of %d tasks of %s have been asked for", got, n, tenant)
		}
	}
}

// ends waits until an execution has completed.
func ends(t *testing.T, e *engine.Engine, tenant, id string) {
	t.Helper()
	for until := time.Now().Add(patience); ; time.Sleep(2 * time.Millisecond) {
		x, err := e.Store.Execution(t.Context(), tenant, id)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			t.Fatal(err)
		}
		if x.Status == "completed" {
			return
		}
		if x.Status == "faulted" || time.Now().After(until) {
			t.Fatalf("%s of %s is %q: %s", id, tenant, x.Status, x.Error)
		}
	}
}

// Calls that never return occupy only some of the executors: another tenant's calls are made
// immediately, and no tenant exceeds its share.
func TestHangingCallsHoldOnlyTheirTenant(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, rdb wire.Redis) {
		const each, hang = 4, 20
		hostile := []string{"a", "c", "d"}
		release := make(chan struct{})
		var mu sync.Mutex
		under, peak := map[string]int{}, map[string]int{}
		var all sync.WaitGroup
		opts := engine.Defaults()
		opts.Process, opts.Tenants, opts.Executors, opts.ExtraExecutors = "hanging", append(hostile, "b"), each, 7*each
		opts.Transport = roundTripper(func(req *http.Request) (*http.Response, error) {
			if tenant := req.URL.Query().Get("tenant"); tenant != "b" {
				mu.Lock()
				under[tenant]++
				peak[tenant] = max(peak[tenant], under[tenant])
				mu.Unlock()
				<-release
				mu.Lock()
				under[tenant]--
				mu.Unlock()
				all.Done()
			}
			return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody, Header: http.Header{}}, nil
		})
		e, err := engine.New(rdb, opts)
		if err != nil {
			t.Fatal(err)
		}
		run(t, e)
		def, _, err := dsl.Parse("case.yaml", []byte(`document: {dsl: '1.0.3', namespace: test, name: case, version: '1.0.0'}
do:
  - ask: {call: http, with: {method: get, endpoint: "${ \"http://outside.example/?tenant=\" + .tenant }"}}
`))
		if err != nil {
			t.Fatal(err)
		}
		begin := func(tenant, id string) {
			if _, err := e.Definitions.Register(t.Context(), tenant, def); err != nil {
				t.Fatal(err)
			}
			if err := e.Start(t.Context(), def, engine.StartRequest{Tenant: tenant, ID: id, Input: fmt.Appendf(nil, `{"tenant":%q}`, tenant)}); err != nil {
				t.Fatal(err)
			}
		}
		all.Add(len(hostile) * hang)
		for i := range hang {
			for _, tenant := range hostile {
				begin(tenant, fmt.Sprint("x", i))
			}
		}
		for i := range 10 {
			id := fmt.Sprint("y", i)
			begin("b", id)
			ends(t, e, "b", id)
		}
		close(release)
		all.Wait()
		for _, tenant := range hostile {
			ends(t, e, tenant, fmt.Sprint("x", hang-1))
			if peak[tenant] != each {
				t.Errorf("tenant %s had %d calls under way at most, want %d", tenant, peak[tenant], each)
			}
		}
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }
