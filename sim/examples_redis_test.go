package sim_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"flunq.io/flunq/engine"
	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/event"
	httpcall "flunq.io/flunq/engine/executor/http"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/inspect"
	"flunq.io/flunq/engine/store/redistest"
	"flunq.io/flunq/engine/store/timers"
	"flunq.io/flunq/engine/store/wire"
	"flunq.io/flunq/sim"
	"flunq.io/flunq/sim/mock"
	cases "flunq.io/flunq/sim/spec"
)

// The examples end on a real Redis as they do in the simulator. An operator replaces the
// clock: whenever nothing else is left to do, the operator fires the next timer, releases the
// next answer, or sends the next event.
func TestExamplesOnRedis(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t)
	files, err := filepath.Glob("../workflows/*.test.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		suite, _, err := cases.NewLoader(os.ReadFile).Load(file)
		if err != nil {
			t.Fatal(err)
		}
		for i, c := range suite.Cases {
			name := strings.TrimSuffix(filepath.Base(file), ".test.yaml")
			t.Run(name+"/"+c.Name, func(t *testing.T) {
				t.Parallel()
				o := &operated{Case: c, def: suite.Workflow.Definition, tenant: fmt.Sprintf("%s-%d", name, i)}
				for _, d := range suite.With {
					o.with = append(o.with, d.Definition)
				}
				o.compare(t, rdb)
			})
		}
	}
}

// operated is a case in which an operator makes time pass.
type operated struct {
	*cases.Case

	def    *dsl.Definition
	with   []*dsl.Definition
	tenant string
	engine *engine.Engine

	mu      sync.Mutex // held while a mock answers
	now     time.Duration
	answers []*pending
	events  []mock.Event
	due     map[string]time.Duration // timers that are set
}

// pending is a delayed answer.
type pending struct {
	at       time.Duration
	released chan struct{}
}

// one serializes the mocks' answers.
func (o *operated) one(next http.RoundTripper) http.RoundTripper {
	return transport(func(req *http.Request) (*http.Response, error) {
		o.mu.Lock()
		defer o.mu.Unlock()
		return next.RoundTrip(req)
	})
}

// transport is a function as http.RoundTripper.
type transport func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (t transport) RoundTrip(req *http.Request) (*http.Response, error) { return t(req) }

// sleep delays a mock's answer until the operator releases it.
func (o *operated) sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	p := &pending{o.now + d, make(chan struct{})}
	o.answers = append(o.answers, p)
	o.mu.Unlock()
	defer o.mu.Lock()
	select {
	case <-p.released:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (o *operated) compare(t *testing.T, rdb wire.Redis) {
	t.Helper()
	mocks := o.Mocks
	if mocks == nil {
		mocks = &mock.Set{}
	}
	want, err := sim.Run(t.Context(), sim.Config{Definition: o.def, With: o.with, ID: "x", Input: o.Input, Mocks: mocks, Secrets: o.Secrets})
	if err != nil {
		t.Fatal(err)
	}
	o.events, o.due = mocks.Events, map[string]time.Duration{}
	opts := engine.Defaults()
	opts.Process, opts.Tenants, opts.Secrets = o.tenant, []string{o.tenant}, o.Secrets
	opts.Transport = httpcall.Outward(o.one(mocks.Transport(o.sleep, nil)))
	opts.Block(10 * time.Millisecond)
	if o.engine, err = engine.New(rdb, opts); err != nil {
		t.Fatal(err)
	}
	got := o.run(t)
	if string(want.Status) != got.Status {
		t.Fatalf("it is %s %s, in the simulator %s %v", got.Status, got.Error, want.Status, want.Error)
	}
	if diff := gocmp.Diff(string(want.Output), string(got.Output)); diff != "" {
		t.Errorf("output, -simulator +redis:\n%s", diff)
	}
	var problem *event.Problem
	if len(got.Error) > 0 && json.Unmarshal(got.Error, &problem) != nil {
		t.Errorf("error %s", got.Error)
	}
	if problem != nil { // an operator made the time pass
		problem.Detail = strings.Replace(problem.Detail, "ada fired the timeout of", "the task did not end within", 1)
	}
	if diff := gocmp.Diff(want.Error, problem); diff != "" {
		t.Errorf("error, -simulator +redis:\n%s", diff)
	}
}

// run returns the execution once it has ended or waits forever.
func (o *operated) run(t *testing.T) store.Execution {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	if err := o.engine.Prepare(ctx); err != nil {
		t.Fatal(err)
	}
	for _, d := range append([]*dsl.Definition{o.def}, o.with...) {
		if _, err := o.engine.Definitions.Register(ctx, o.tenant, d); err != nil {
			t.Fatal(err)
		}
	}
	var wg sync.WaitGroup
	defer func() {
		stop()
		o.mu.Lock()
		for _, p := range o.answers { // no task waits for these now
			close(p.released)
		}
		o.mu.Unlock()
		wg.Wait()
	}()
	wg.Go(func() { _ = o.engine.Run(ctx, slog.New(slog.DiscardHandler)) })
	if err := o.engine.Start(ctx, o.def, engine.StartRequest{Tenant: o.tenant, ID: "x", Input: o.Input}); err != nil {
		t.Fatal(err)
	}
	stuck := int64(-1) // the version at which nothing was left to do
	for deadline := time.Now().Add(3 * time.Minute); time.Now().Before(deadline); time.Sleep(2 * time.Millisecond) {
		idle := o.idle(t)
		x, err := o.engine.Store.Execution(ctx, o.tenant, "x")
		if err != nil {
			t.Fatal(err)
		}
		if decide.Status(x.Status).Ended() || idle && x.Version == stuck {
			return x
		}
		if idle && !o.pass(t) {
			stuck = x.Version // a timer that fired by itself may be under way
		}
	}
	t.Fatal("it does not end")
	return store.Execution{}
}

// idle reports whether nothing is under way except delayed answers.
func (o *operated) idle(t *testing.T) bool {
	t.Helper()
	o.mu.Lock()
	answers := len(o.answers)
	o.mu.Unlock()
	streams, err := inspect.New(o.engine.Store).Streams(t.Context(), []string{o.tenant})
	if err != nil {
		t.Fatal(err)
	}
	busy := int64(0)
	for _, g := range streams[0].Groups {
		// A group acknowledges events that do not concern it at its next read.
		busy += g.Pending + g.Lag
	}
	return busy == int64(answers)
}

// pass makes time pass until something happens. It returns false if nothing is left to happen.
func (o *operated) pass(t *testing.T) bool {
	t.Helper()
	set, _, err := timers.New(o.engine.Store).List(t.Context(), timers.Filter{Tenant: o.tenant}, "", 1000)
	if err != nil {
		t.Fatal(err)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	moment := func(p timers.Pending) time.Duration {
		if _, known := o.due[p.Member]; !known {
			o.due[p.Member] = o.now + time.Duration(p.DurationMS)*time.Millisecond
		}
		return o.due[p.Member]
	}
	slices.SortStableFunc(set, func(a, b timers.Pending) int { return int(moment(a) - moment(b)) })
	slices.SortStableFunc(o.answers, func(a, b *pending) int { return int(a.at - b.at) })
	next, do := time.Duration(-1), func() {}
	sooner := func(at time.Duration, what func()) {
		if next < 0 || at < next {
			next, do = at, what
		}
	}
	if len(o.answers) > 0 {
		sooner(o.answers[0].at, func() {
			close(o.answers[0].released)
			o.answers = o.answers[1:]
		})
	}
	if len(o.events) > 0 {
		sooner(o.events[0].After, func() {
			e := o.events[0].Event(len(o.Mocks.Events)-len(o.events), time.Now().UTC())
			e.Tenant, o.events = o.tenant, o.events[1:]
			if err := o.engine.Store.Publish(t.Context(), e); err != nil {
				t.Error(err)
			}
		})
	}
	if len(set) > 0 {
		sooner(moment(set[0]), func() {
			if _, err := timers.New(o.engine.Store).FireNow(t.Context(), set[0], "ada"); err != nil {
				t.Error(err)
			}
		})
	}
	if next >= 0 {
		o.now = max(o.now, next)
	}
	do()
	return next >= 0
}
