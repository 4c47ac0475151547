package workload

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"time"

	"flunq.io/flunq/engine"
	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/event"
	httpcall "flunq.io/flunq/engine/executor/http"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/redistest"
	"flunq.io/flunq/sim"
	"flunq.io/flunq/sim/mock"
)

// locked serializes calls to a transport that is not safe for concurrent use.
type locked struct {
	mu   sync.Mutex
	next http.RoundTripper
}

func (l *locked) RoundTrip(req *http.Request) (*http.Response, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.next.RoundTrip(req)
}

// Generated documents end on a real Redis, where two processes share the work and one of
// them is replaced repeatedly, as they do in the simulator.
func TestGeneratedOnRedis(t *testing.T) {
	rdb := redistest.Start(t)
	const count = 40
	mocks, err := mock.Parse("mocks.yaml", []byte("http: [{respond: [{status: 200, body: {n: 1}}]}]"))
	if err != nil {
		t.Fatal(err)
	}
	with := children()
	defs, tenants := make([]*dsl.Definition, count), make([]string, count)
	for n := range defs {
		w := &writer{Rand: rand.New(rand.NewPCG(uint64(n), 2)), short: true}
		if defs[n], _, err = dsl.Parse("generated.yaml", []byte(w.document())); err != nil {
			t.Fatal(err)
		}
		tenants[n] = fmt.Sprintf("generated-%d", n)
	}
	process := func(name string) *engine.Engine {
		opts := engine.Defaults()
		opts.Process, opts.Tenants, opts.Lease = name, tenants, 2*time.Second
		opts.Transport = httpcall.Outward(&locked{next: mocks.Transport(func(context.Context, time.Duration) error { return nil }, nil)})
		opts.Block(50 * time.Millisecond)
		e, err := engine.New(rdb, opts)
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	log := slog.New(slog.DiscardHandler)
	first := process("first")
	if err := first.Prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	for n, def := range defs {
		for _, d := range append([]*dsl.Definition{def}, with...) {
			if _, err := first.Definitions.Register(t.Context(), tenants[n], d); err != nil {
				t.Fatal(err)
			}
		}
		if err := first.Start(t.Context(), def, engine.StartRequest{Tenant: tenants[n], ID: "x"}); err != nil {
			t.Fatal(err)
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { _ = first.Run(ctx, log) })
	wg.Go(func() {
		for incarnation := 0; ctx.Err() == nil; incarnation++ {
			part, end := context.WithTimeout(ctx, 300*time.Millisecond)
			_ = process(fmt.Sprintf("second-%d", incarnation)).Run(part, log)
			end()
		}
	})
	for n, def := range defs {
		x := untilEnded(t, first.Store, tenants[n])
		want := tried(t, sim.Config{Definition: def, With: with, ID: "x", Mocks: mocks}, sim.Plan{})
		if x.Status != string(want.Status) || string(x.Output) != string(want.Output) || fmt.Sprint(problemIn(x.Error)) != fmt.Sprint(want.Error) {
			t.Errorf("document %d: %s %s %s, in the simulator %s %s %v\n%s", n, x.Status, x.Output, x.Error, want.Status, want.Output, want.Error, def.Source)
		}
		rebuilt(t, first, x)
	}
	stop()
	wg.Wait()
}

// untilEnded returns an execution once it has ended.
func untilEnded(t *testing.T, st *store.Store, tenant string) store.Execution {
	t.Helper()
	for deadline := time.Now().Add(3 * time.Minute); ; time.Sleep(5 * time.Millisecond) {
		x, err := st.Execution(t.Context(), tenant, "x")
		if err != nil {
			t.Fatal(err)
		}
		if decide.Status(x.Status).Ended() {
			return x
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: it is still %s", tenant, x.Status)
		}
	}
}

// rebuilt expects the history of an execution to lead to its stored state.
func rebuilt(t *testing.T, e *engine.Engine, x store.Execution) {
	t.Helper()
	env, err := e.Definitions.Hash(t.Context(), x.Tenant, x.Workflow, x.Definition)
	if err != nil {
		t.Fatal(err)
	}
	history, err := e.Store.History(t.Context(), x.Tenant, x.ID, 0, int(x.Version))
	if err != nil {
		t.Fatal(err)
	}
	state, err := decide.Rebuild(env, history)
	if err != nil || string(state.Status) != x.Status {
		t.Errorf("%s: it is %s, but its history says %v %v", x.Tenant, x.Status, state, err)
	}
}

// problemIn decodes an error from Redis; nil if there is none.
func problemIn(text []byte) *event.Problem {
	var p *event.Problem
	_ = json.Unmarshal(text, &p) // anything else is not an error
	return p
}
