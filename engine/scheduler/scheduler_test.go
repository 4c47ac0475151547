package scheduler_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"flunq.io/flunq/engine/agenda"
	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/schedule"
	"flunq.io/flunq/engine/scheduler"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/redistest"
	"flunq.io/flunq/engine/store/registry"
)

// site is a real Redis, and the scheduler of a process on it.
type site struct {
	store *store.Store
	api   *scheduler.API
	sched *scheduler.Scheduler

	mu   sync.Mutex
	ends []scheduler.Publication
}

func newSite(t *testing.T, change func(*scheduler.Options)) *site {
	t.Helper()
	return newSiteWith(t, true, change)
}

// newSiteWith returns a site on which claims publish to streams or, if streams is false, the sink does.
func newSiteWith(t *testing.T, streams bool, change func(*scheduler.Options)) *site {
	t.Helper()
	s := &site{store: store.New(redistest.Start(t), store.Options{})}
	opts := scheduler.DefaultOptions()
	opts.Process, opts.Clock, opts.Partitions, opts.Poll = "p-1", time.Now, 4, 100*time.Millisecond
	opts.Observe = func(a scheduler.Publication) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.ends = append(s.ends, a)
	}
	if change != nil {
		change(&opts)
	}
	keep := agenda.Defaults()
	keep.Streams = streams
	ledger := agenda.NewLedger(s.store.Redis(), keep)
	sink := scheduler.TopicSink{Store: s.store, Plain: scheduler.StreamSink{Redis: s.store.Redis()}}
	var err error
	if s.sched, err = scheduler.New(ledger, sink, opts); err != nil {
		t.Fatal(err)
	}
	if err := s.sched.Prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	limits := schedule.DefaultLimits()
	limits.MinDelay = 0
	s.api = scheduler.NewAPI(ledger, scheduler.APIOptions{Limits: limits, Tenant: "default", Now: s.sched.Now})
	return s
}

// run runs the scheduler until stop is called.
func (s *site) run(t *testing.T) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.sched.Run(ctx, slog.New(slog.DiscardHandler)) }()
	return func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// A process that cannot start, as without a free address, owns no partitions: their events would fire
// late until its registration expired.
func TestNotRegisteredBeforeRun(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil) // it is prepared and does not run
	members, err := agenda.NewLedger(s.store.Redis(), agenda.Defaults()).Members(t.Context(), "", 0)
	if err != nil || members.Count != 4 || len(members.Processes) > 0 {
		t.Errorf("%+v, %v, want 4 partitions and no processes", members, err)
	}
}

func uuidOf(n int) string { return fmt.Sprintf("00000000-0000-4000-8000-%012d", n) }

// schedule schedules events of a topic, one each millisecond.
func (s *site) schedule(t *testing.T, topic string, n int, after time.Duration) {
	t.Helper()
	var requests []scheduler.Request
	for i := range n {
		requests = append(requests, scheduler.Request{
			ID: uuidOf(i), After: after + time.Duration(i)*time.Millisecond,
			Content: schedule.Content{Topic: topic, Payload: fmt.Appendf(nil, `{"n":%d}`, i), Headers: map[string]string{"n": strconv.Itoa(i)}},
		})
	}
	out, err := s.api.Schedule(t.Context(), requests)
	if err != nil {
		t.Fatal(err)
	}
	for i, o := range out {
		if o.Code != schedule.Success || !o.Created {
			t.Fatalf("event %d: %+v", i, o)
		}
	}
}

// await polls until a condition holds.
func await(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !is(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not within 20 s", what)
		}
	}
}

// Each event arrives once in the stream of its topic, not before it is due by the clock of Redis, and
// unchanged, whether the claim or the sink publishes it.
func TestStreams(t *testing.T) {
	t.Parallel()
	for _, claims := range []bool{true, false} {
		t.Run(fmt.Sprintf("claims publish %v", claims), func(t *testing.T) {
			t.Parallel()
			checkStreams(t, newSiteWith(t, claims, nil))
		})
	}
}

func checkStreams(t *testing.T, s *site) {
	t.Helper()
	stop := s.run(t)
	const n = 300
	s.schedule(t, "orders", n, 100*time.Millisecond)
	key := agenda.StreamKey(s.store.Redis(), "orders")
	await(t, "the events", func() bool { return s.store.Redis().XLen(t.Context(), key).Val() >= n })
	stop()
	for _, a := range s.ends {
		if a.Status != schedule.Fired || a.Unrecorded || a.Event.Topic != "orders" || a.Lateness < 0 {
			t.Errorf("%s ended as %+v", a.Event.ID, a)
		}
	}
	if len(s.ends) != n {
		t.Errorf("%d ends were observed, want %d", len(s.ends), n)
	}
	seen := map[string]bool{}
	for _, entry := range s.store.Redis().XRange(t.Context(), key, "-", "+").Val() {
		id := entry.Values["id"].(string)
		if seen[id] {
			t.Errorf("%s was published twice", id)
		}
		seen[id] = true
		found, err := s.api.Get(t.Context(), id)
		if err != nil || found.Event == nil || found.Event.Status != schedule.Fired {
			t.Fatalf("%s: %+v, %v", id, found, err)
		}
		var ms int64
		_, _ = fmt.Sscanf(entry.ID, "%d-", &ms)
		if at := time.UnixMilli(ms); at.Before(found.Event.Due) {
			t.Errorf("%s was published at %s, before %s", id, at, found.Event.Due)
		}
		want := map[string]any{
			"id": id, "source": "/flunq/scheduler", "specversion": "1.0", "type": "io.flunq.schedule.fired",
			"time": found.Event.Due.Format(time.RFC3339Nano), "key": id, "attempt": "1",
			"data": string(found.Event.Payload), "header:n": found.Event.Headers["n"],
		}
		if diff := cmp.Diff(want, entry.Values); diff != "" {
			t.Errorf("%s: %s", id, diff)
		}
	}
	if len(seen) != n {
		t.Errorf("%d events are in the stream, want %d", len(seen), n)
	}
	if left := s.store.Redis().ZCard(t.Context(), "scheduler:members").Val(); left != 0 {
		t.Errorf("%d processes are registered after the end", left)
	}
}

// A workflow topic starts an execution, and an event topic reaches listening executions. An event for an
// unregistered workflow is dead, and can be replayed.
func TestTopicsOfTenants(t *testing.T) {
	t.Parallel()
	s := newSite(t, func(o *scheduler.Options) { o.Retry.Attempts, o.Retry.Longest = 2, 10*time.Millisecond })
	defer s.run(t)()
	text := []byte("document: {dsl: '1.0.3', namespace: shop, name: order, version: '0.1.0'}\ndo: [{a: {set: {x: 1}}}]\n")
	def, _, err := dsl.Parse("order.yaml", text)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := registry.New(s.store).Define(t.Context(), "default", def.ID(), "0.1.0", string(text)); err != nil {
		t.Fatal(err)
	}
	for i, topic := range []string{"workflow:order", "workflow:shop.order:0.1.0", "event:com.shop.paid", "workflow:missing", "workflow:order:9.9.9"} {
		request := scheduler.Request{ID: uuidOf(i), After: time.Millisecond, Content: schedule.Content{
			Topic: topic, Payload: []byte(`{"order":7}`), Headers: map[string]string{"traceparent": "00-1-2-01", "other": "x"},
		}}
		if out, err := s.api.Schedule(t.Context(), []scheduler.Request{request}); err != nil || out[0].Code != schedule.Success {
			t.Fatalf("%s: %+v, %v", topic, out, err)
		}
	}
	status := func(i int) schedule.Status {
		found, err := s.api.Get(t.Context(), uuidOf(i))
		if err != nil || found.Event == nil {
			t.Fatalf("event %d: %+v, %v", i, found, err)
		}
		return found.Event.Status
	}
	for i, want := range []schedule.Status{schedule.Fired, schedule.Fired, schedule.Fired, schedule.Dead, schedule.Dead} {
		await(t, fmt.Sprintf("event %d %s", i, want), func() bool { return status(i) == want })
	}
	for i := range 2 {
		x, err := s.store.Execution(t.Context(), "default", uuidOf(i))
		if err != nil || x.Workflow != "shop.order" {
			t.Errorf("event %d started %+v, %v; want an execution of shop.order", i, x, err)
		}
	}
	entries := s.store.Redis().XRange(t.Context(), "tenant:default:events", "-", "+").Val()
	last := entries[len(entries)-1].Values
	for _, entry := range entries {
		if v := entry.Values; v["type"] == string(event.ExecutionStarted) && (v["traceparent"] != "00-1-2-01" || v["other"] != nil) {
			t.Errorf("an execution was started by %v, want the traceparent and no other header", v)
		}
		if entry.Values["type"] == "com.shop.paid" {
			last = entry.Values
		}
	}
	if last["id"] != uuidOf(2) || last["source"] != "/flunq/scheduler" || !json.Valid([]byte(last["data"].(string))) {
		t.Errorf("the event is %v", last)
	}
	// The workflow is registered now.
	if _, err := registry.New(s.store).Define(t.Context(), "default", "shop.missing", "0.1.0", string(text)); err != nil {
		t.Fatal(err)
	}
	if out, err := s.api.Change(t.Context(), uuidOf(3), schedule.Change{Kind: schedule.Replay}); err != nil || out.Code != schedule.Success {
		t.Fatalf("replay: %+v, %v", out, err)
	}
	await(t, "the replay", func() bool { return status(3) == schedule.Fired })
}

// lossy loses the reply to one of the commands that a client sends.
type lossy struct{ in atomic.Int64 }

func (l *lossy) pass(err error) error {
	if l.in.Add(-1) == 0 {
		return &net.OpError{Op: "read", Net: "tcp", Err: io.EOF}
	}
	return err
}

func (l *lossy) DialHook(next redis.DialHook) redis.DialHook { return next }

func (l *lossy) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if cmd.Name() != "hello" { // of a new connection
			err = l.pass(err)
		}
		cmd.SetErr(err)
		return err
	}
}

func (l *lossy) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error { return l.pass(next(ctx, cmds)) }
}

// If a reply is lost, it is unknown whether the workflow was started only if the command could have
// started it. After a lost reply to a read, the process knows that it was not.
func TestLostReplies(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t)
	var replies lossy
	rdb.AddHook(&replies)
	st := store.New(rdb, store.Options{})
	text := "document: {dsl: '1.0.3', namespace: shop, name: order, version: '0.1.0'}\ndo: [{a: {set: {x: 1}}}]\n"
	if _, err := registry.New(st).Define(t.Context(), "default", "shop.order", "0.1.0", text); err != nil {
		t.Fatal(err)
	}
	reads := 0
	for lost := 0; ; lost++ { // 0: none is lost, and Redis gets to know the scripts
		e := schedule.Event{ID: uuidOf(lost), Content: schedule.Content{Topic: "workflow:order:0.1.0", Tenant: "default", Payload: []byte("{}")}}
		replies.in.Store(int64(lost))
		err := scheduler.TopicSink{Store: st}.Publish(t.Context(), []schedule.Event{e})[0]
		replies.in.Store(0)
		if err == nil && lost > 0 {
			break
		}
		_, known := schedule.DefaultRetry().Settle(&e, err, time.Now())
		_, none := st.Execution(t.Context(), "default", e.ID)
		if err != nil && (known != (none != nil) || known && !errors.Is(err, schedule.ErrUnavailable)) {
			t.Errorf("reply %d was lost: %v, and the execution: %v", lost, err, none)
		}
		if err != nil && known {
			reads++
		}
	}
	if reads < 4 {
		t.Errorf("%d replies to reads were lost, want at least 4", reads)
	}
}

// A payload that is not JSON reaches an event topic as a string, in base64 if it is not text.
func TestEventPayload(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	e := schedule.Event{ID: uuidOf(1), Content: schedule.Content{Topic: "event:x", Tenant: "default"}}
	for _, test := range []struct{ payload, want string }{{`{"a":1}`, `{"a":1}`}, {"hi", `"hi"`}, {"\xff\x00", `"/wA="`}, {"\"\xff\"", `"Iv8i"`}} {
		e.Payload = []byte(test.payload)
		if err := (scheduler.TopicSink{Store: s.store}).Publish(t.Context(), []schedule.Event{e})[0]; err != nil {
			t.Fatal(err)
		}
		last := s.store.Redis().XRevRangeN(t.Context(), "tenant:default:events", "+", "-", 1).Val()
		if len(last) != 1 || last[0].Values["data"] != test.want {
			t.Errorf("the payload %q became %v, want the data %s", test.payload, last, test.want)
		}
	}
}

// An event that is due before the next poll fires in time if the scheduler is notified of it.
func TestNotifiedEventFiresBeforeTheNextPoll(t *testing.T) {
	t.Parallel()
	s := newSite(t, func(o *scheduler.Options) { o.Poll = time.Hour })
	defer s.run(t)()
	key := agenda.StreamKey(s.store.Redis(), "soon")
	request := scheduler.Request{ID: uuidOf(1), After: 50 * time.Millisecond, Content: schedule.Content{Topic: "soon", Payload: []byte("x")}}
	time.Sleep(100 * time.Millisecond) // until the workers have polled
	out, err := s.api.Schedule(t.Context(), []scheduler.Request{request})
	if err != nil {
		t.Fatal(err)
	}
	s.sched.Notify(out[0].Event.ID, out[0].Event.Next)
	await(t, "the event", func() bool { return s.store.Redis().XLen(t.Context(), key).Val() == 1 })
}

// A stopping process finishes its publications; events claimed by a process that died are published by
// another one after the lease.
func TestLease(t *testing.T) {
	t.Parallel()
	s := newSite(t, func(o *scheduler.Options) { o.Retry.Lease = time.Second })
	const n = 50
	s.schedule(t, "orders", n, time.Millisecond)
	time.Sleep(n * time.Millisecond)
	ledger := agenda.NewLedger(s.store.Redis(), agenda.Defaults())
	leases := map[string]time.Time{}
	for p := range 4 { // by a process that dies now
		got, err := ledger.Claim(t.Context(), schedule.Claim{Partition: p, Limit: n, Owner: "dead", Lease: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range got.Events {
			leases[e.ID] = e.Lease
		}
	}
	if len(leases) != n {
		t.Fatalf("claimed %d of %d", len(leases), n)
	}
	defer s.run(t)()
	key := agenda.StreamKey(s.store.Redis(), "orders")
	await(t, "the events", func() bool { return s.store.Redis().XLen(t.Context(), key).Val() >= n })
	for _, entry := range s.store.Redis().XRange(t.Context(), key, "-", "+").Val() {
		if entry.Values["attempt"] != "2" {
			t.Errorf("attempt %v, want 2: the outcome of the first one is unknown", entry.Values["attempt"])
		}
		var ms int64
		_, _ = fmt.Sscanf(entry.ID, "%d-", &ms)
		if lease := leases[entry.Values["id"].(string)]; time.UnixMilli(ms).Before(lease) {
			t.Errorf("published at %s, before its lease ended at %s", time.UnixMilli(ms), lease)
		}
	}
}

// A process that publishes nothing owns no partitions, even if no other one does.
func TestProcessWithoutWorkersOwnsNoPartitions(t *testing.T) {
	t.Parallel()
	for workers, want := range map[int]int{0: 0, 2: 4} {
		s := newSite(t, func(o *scheduler.Options) { o.Workers = workers })
		for _, actor := range s.sched.Actors() {
			if actor.Name != "membership" {
				continue
			}
			if _, err := actor.Step(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if got := s.sched.Owned(); got != want {
			t.Errorf("with %d workers it owns %d partitions, want %d", workers, got, want)
		}
	}
}

// Without work, a process sends Redis at most one command a second.
func TestIdleProcessSendsFewCommands(t *testing.T) {
	t.Parallel()
	s := newSite(t, func(o *scheduler.Options) { o.Poll, o.Partitions = scheduler.PollFor(time.Minute), 16 })
	defer s.run(t)()
	s.schedule(t, "later", 100, time.Hour)
	time.Sleep(500 * time.Millisecond) // until all partitions have been polled
	count := func() (n int) {
		for line := range strings.Lines(s.store.Redis().Info(t.Context(), "stats").Val()) {
			_, _ = fmt.Sscanf(line, "total_commands_processed:%d", &n)
		}
		return n
	}
	before := count()
	time.Sleep(3 * time.Second)
	if sent := count() - before - 1; sent > 3 {
		t.Errorf("%d commands were sent in 3 s, want at most 3", sent)
	}
}
