package executor_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"flunq.io/flunq/engine/decide"
	definitions "flunq.io/flunq/engine/definitions"
	"flunq.io/flunq/engine/delivery"
	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/executor"
	httpcall "flunq.io/flunq/engine/executor/http"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/redistest"
	"flunq.io/flunq/engine/store/stream"
	"flunq.io/flunq/engine/store/wire"
)

const (
	tenant    = "acme"
	streamKey = "tenant:acme:events"
	deadKey   = "tenant:acme:events:dlq"
)

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

// site is the executors of one process and their observations.
type site struct {
	rdb      wire.Redis // not observed by the tap
	store    *store.Store
	inbox    *executor.Inbox
	services []*executor.Service
	hash     string
	tap      tap
	calls    atomic.Int64
	call     func() // runs during each call, if set

	mu   sync.Mutex
	seen map[delivery.What][]string
}

// document has a task that only computes and one that calls.
const document = `
document: {dsl: '1.0.3', namespace: test, name: wf, version: '1.0.0'}
do:
  - t: {set: {n: 1}}
  - ask: {call: http, with: {method: get, endpoint: "http://outside.example/"}}
`

// Tasks of the document.
const (
	setTask  = "/do/0/t"
	callTask = "/do/1/ask"
)

func newSite(t testing.TB, rdb wire.Redis, size int, block time.Duration) *site {
	t.Helper()
	return newSiteWith(t, rdb, size, func(o *delivery.Options) { o.Block, o.Reclaim = block, false })
}

func newSiteWith(t testing.TB, rdb wire.Redis, size int, set func(*delivery.Options)) *site {
	t.Helper()
	s := &site{rdb: rdb, seen: map[delivery.What][]string{}}
	tapped, err := store.Dial(t.Context(), redistest.AddrOf(t, rdb))
	must(t, err)
	tapped.AddHook(&s.tap)
	t.Cleanup(func() { tapped.Close() })
	s.store = store.New(tapped, store.Options{})
	must(t, stream.New(s.store).Groups(t.Context(), tenant))
	def, _, err := dsl.Parse("wf.yaml", []byte(document))
	must(t, err)
	lib := definitions.New(s.store, decide.Options{Remote: true, Limits: decide.DefaultLimits()})
	s.hash, err = lib.Register(t.Context(), tenant, def)
	must(t, err)
	opts := delivery.Defaults("executor", store.ExecutorGroup)
	opts.Consumer, opts.Tenants, opts.Observe = "e1", delivery.NewTenantSet(tenant), s.observe
	set(&opts)
	s.inbox, err = executor.NewInbox(s.store, lib, opts, 0)
	must(t, err)
	caller := &executor.Caller{HTTP: &httpcall.Caller{Transport: s}}
	for range size {
		s.services = append(s.services, executor.New(s.inbox, caller, decide.DefaultLimits()))
	}
	return s
}

// RoundTrip answers calls.
func (s *site) RoundTrip(r *http.Request) (*http.Response, error) {
	s.calls.Add(1)
	if s.call != nil {
		s.call()
	}
	body := io.NopCloser(strings.NewReader(`{"called":true}`))
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Body: body, Request: r}, r.Context().Err()
}

func (s *site) observe(a delivery.Activity) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen[a.What] = append(s.seen[a.What], a.Message.Event.ID)
}

// times returns the number of times that an activity occurred, by message.
func (s *site) times(what delivery.What) map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[string]int{}
	for _, id := range s.seen[what] {
		out[id]++
	}
	return out
}

// request publishes a task request.
func (s *site) request(t testing.TB, id, ref string) {
	t.Helper()
	s.publish(t, s.requested(id, ref))
}

func (s *site) requested(id, ref string) event.Event {
	return event.Event{
		ID: id, Source: "/test", Type: event.TaskRequested, Time: time.Unix(1, 0), Tenant: tenant,
		Workflow: "test.wf", Execution: "x-" + id, Task: ref, Ext: map[string]string{event.DefinitionAttribute: s.hash},
		Data: event.Encode(event.Requested{TaskID: ref, TaskName: "task", Input: []byte(`{}`)}),
	}
}

func (s *site) publish(t testing.TB, e event.Event) {
	t.Helper()
	must(t, store.New(s.rdb, store.Options{}).Publish(t.Context(), e))
}

// step makes one executor do one step.
func (s *site) step(t testing.TB, i int) {
	t.Helper()
	if _, err := s.services[i].Step(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// replies returns the events that report tasks, in order.
func (s *site) replies(t testing.TB) (out []event.Event) {
	t.Helper()
	entries, err := s.rdb.XRange(t.Context(), streamKey, "-", "+").Result()
	must(t, err)
	for _, entry := range entries {
		e, err := event.FromAttributes(entry.Values)
		must(t, err)
		if e.Type == event.TaskCompleted {
			out = append(out, e)
		}
	}
	return out
}

// wantReplies fails the test unless exactly these requests were answered, each once.
func (s *site) wantReplies(t testing.TB, want ...string) {
	t.Helper()
	var got []string
	for _, e := range s.replies(t) {
		got = append(got, strings.TrimSuffix(e.ID, "/done"))
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("answered %v, want %v", got, want)
	}
}

// pending returns how many entries are not acknowledged.
func (s *site) pending(t testing.TB) int64 {
	t.Helper()
	p, err := s.rdb.XPending(t.Context(), streamKey, store.ExecutorGroup).Result()
	must(t, err)
	return p.Count
}

// work runs all executors until the test ends, as the engine does.
func (s *site) work(t testing.TB) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for _, x := range s.services {
		wg.Go(func() {
			for ctx.Err() == nil {
				if _, err := x.Step(ctx); err != nil && ctx.Err() == nil {
					t.Error(err)
				}
			}
		})
	}
	t.Cleanup(func() {
		s.inbox.Close()
		cancel()
		wg.Wait()
	})
}

// held returns the ids of the requests that were read and not answered yet.
func (s *site) held() (ids []string) {
	for _, m := range s.inbox.Held() {
		if m.Event.Type == event.TaskRequested {
			ids = append(ids, m.Event.ID)
		}
	}
	return ids
}

// wantNothingLeft fails the test unless everything is answered and acknowledged.
func (s *site) wantNothingLeft(t testing.TB) {
	t.Helper()
	for range 2 { // the replies are read too
		s.step(t, 0)
	}
	if n := s.pending(t); n != 0 || len(s.inbox.Held()) != 0 {
		t.Errorf("%d pending, %v held", n, s.inbox.Held())
	}
}

// until waits for a condition.
func until(t testing.TB, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !done(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

func names(kind string, n int) (out []string) {
	for i := range n {
		out = append(out, fmt.Sprint(kind, i))
	}
	return out
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// errDown is the error of a Redis that is down.
var errDown = &net.OpError{Op: "read", Err: errors.New("connection reset by peer")}

// tap observes the commands sent to Redis and may reject them.
type tap struct {
	mu     sync.Mutex
	sent   map[string]int
	before func(name string) error // of each command or pipeline
	after  func(name string) error
}

// set replaces the hooks before and after commands.
func (h *tap) set(before, after func(name string) error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.before, h.after = before, after
}

// counts returns the number of times that each command was sent since the last call.
func (h *tap) counts() map[string]int {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := maps.Clone(h.sent)
	clear(h.sent)
	return out
}

func (h *tap) pass(name string, next func() error) error {
	h.mu.Lock()
	if h.sent == nil {
		h.sent = map[string]int{}
	}
	h.sent[name]++
	before, after := h.before, h.after
	h.mu.Unlock()
	if before != nil {
		if err := before(name); err != nil {
			return err
		}
	}
	err := next()
	if after != nil && err == nil {
		err = after(name)
	}
	return err
}

func (h *tap) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h *tap) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := h.pass(cmd.Name(), func() error { return next(ctx, cmd) })
		if err != nil {
			cmd.SetErr(err)
		}
		return err
	}
}

func (h *tap) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		return h.pass("pipeline", func() error { return next(ctx, cmds) })
	}
}
