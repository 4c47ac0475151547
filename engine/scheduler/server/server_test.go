package server_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"flunq.io/flunq/engine/schedule"
	"flunq.io/flunq/engine/scheduler"
	"flunq.io/flunq/engine/scheduler/schedulerpb"
	"flunq.io/flunq/engine/scheduler/server"
)

// running is a server that responds on a port of this machine.
type running struct {
	*ledger

	address string
	stop    context.CancelFunc // asks it to stop
	ended   chan error         // receives what Run returned
	calls   func() []server.Call
}

// start starts a server on a ledger in memory; change may change its options.
func start(t *testing.T, change func(*server.Options, *ledger)) *running {
	t.Helper()
	l := newLedger()
	r := &running{ledger: l, ended: make(chan error, 1)}
	var mu sync.Mutex
	var calls []server.Call
	opts := server.DefaultOptions()
	opts.Log, opts.CheckEvery = slog.New(slog.DiscardHandler), 10*time.Millisecond
	opts.Check = func(ctx context.Context) error { _, err := l.Now(ctx); return err }
	opts.Observe = func(c server.Call) {
		mu.Lock()
		defer mu.Unlock()
		calls = append(calls, c)
	}
	r.calls = func() []server.Call {
		mu.Lock()
		defer mu.Unlock()
		return append([]server.Call(nil), calls...)
	}
	if change != nil {
		change(&opts, l)
	}
	limits := schedule.DefaultLimits()
	limits.Topics = nil
	api := scheduler.NewAPI(l, scheduler.APIOptions{Limits: limits, Tenant: "default", Now: time.Now})
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r.address = listener.Addr().String()
	ctx, stop := context.WithCancel(t.Context())
	r.stop = stop
	s := server.New(api, opts)
	done := make(chan struct{})
	go func() { defer close(done); r.ended <- s.Run(ctx, listener) }()
	t.Cleanup(func() { stop(); <-done })
	return r
}

// dial connects to a server, without encryption unless other credentials are given.
func dial(t testing.TB, address string, with ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	with = append([]grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials())}, with...)
	c, err := grpc.NewClient(address, with...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func (r *running) client(t testing.TB) schedulerpb.SchedulerServiceClient {
	t.Helper()
	return schedulerpb.NewSchedulerServiceClient(dial(t, r.address))
}

// id returns the UUID with a number.
func id(n int) string { return fmt.Sprintf("00000000-0000-4000-a000-%012d", n) }

// request asks for an event that is due in an hour.
func request(n int) *schedulerpb.ScheduleRequest {
	return &schedulerpb.ScheduleRequest{
		EventId: id(n), ExecuteAt: time.Now().Add(time.Hour).Unix(), Topic: "orders", Payload: []byte(`{"n":1}`),
	}
}

// Each outcome that a client can get has the documented code, and says what is wanted.
func TestOutcomes(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	c := r.client(t)
	asked := request(1)
	type response interface {
		GetStatus() *schedulerpb.Status
		GetEvent() *schedulerpb.Event
	}
	type ask = func() (response, error)
	send := func(change func(*schedulerpb.ScheduleRequest)) ask {
		return func() (response, error) {
			again := &schedulerpb.ScheduleRequest{EventId: asked.EventId, ExecuteAt: asked.ExecuteAt, Topic: asked.Topic, Payload: asked.Payload}
			change(again)
			return c.Schedule(t.Context(), again)
		}
	}
	cancel := func(n int, s schedule.Status) ask {
		return func() (response, error) {
			r.mu.Lock()
			e := r.events[id(n)]
			e.Status = s
			r.events[id(n)] = e
			r.mu.Unlock()
			return c.Cancel(t.Context(), &schedulerpb.CancelRequest{EventId: id(n)})
		}
	}
	for _, one := range []struct {
		name    string
		ask     ask
		code    schedulerpb.StatusCode
		message string
		state   schedulerpb.EventStatus
	}{
		{"new", send(func(*schedulerpb.ScheduleRequest) {}), schedulerpb.StatusCode_SUCCESS, "", schedulerpb.EventStatus_EVENT_STATUS_SCHEDULED},
		{"again", send(func(*schedulerpb.ScheduleRequest) {}), schedulerpb.StatusCode_SUCCESS, "", schedulerpb.EventStatus_EVENT_STATUS_SCHEDULED},
		{"again, in upper case", send(func(r *schedulerpb.ScheduleRequest) { r.EventId = strings.ToUpper(r.EventId) }), schedulerpb.StatusCode_SUCCESS, "", schedulerpb.EventStatus_EVENT_STATUS_SCHEDULED},
		{"with the default key", send(func(r *schedulerpb.ScheduleRequest) { r.EventId, r.Key = strings.ToUpper(r.EventId), r.EventId }), schedulerpb.StatusCode_SUCCESS, "", schedulerpb.EventStatus_EVENT_STATUS_SCHEDULED},
		{"other key", send(func(r *schedulerpb.ScheduleRequest) {
			r.EventId = strings.ToUpper(r.EventId)
			r.Key = r.EventId
		}), schedulerpb.StatusCode_CONFLICT, "different content", schedulerpb.EventStatus_EVENT_STATUS_SCHEDULED},
		{"other payload", send(func(r *schedulerpb.ScheduleRequest) { r.Payload = []byte("2") }), schedulerpb.StatusCode_CONFLICT, "different content", schedulerpb.EventStatus_EVENT_STATUS_SCHEDULED},
		{"other header", send(func(r *schedulerpb.ScheduleRequest) { r.Headers = map[string]string{"a": "b"} }), schedulerpb.StatusCode_CONFLICT, "different content", schedulerpb.EventStatus_EVENT_STATUS_SCHEDULED},
		{"replaced", send(func(r *schedulerpb.ScheduleRequest) { r.Replace, r.Payload = true, []byte("2") }), schedulerpb.StatusCode_SUCCESS, "", schedulerpb.EventStatus_EVENT_STATUS_SCHEDULED},
		{"no id", send(func(r *schedulerpb.ScheduleRequest) { r.EventId = "" }), schedulerpb.StatusCode_BAD_REQUEST, "event_id is missing: want a UUID", 0},
		{"no UUID", send(func(r *schedulerpb.ScheduleRequest) { r.EventId = "order-7" }), schedulerpb.StatusCode_BAD_REQUEST, `event_id "order-7" is not a UUID`, 0},
		{"no time", send(func(r *schedulerpb.ScheduleRequest) { r.ExecuteAt = 0 }), schedulerpb.StatusCode_BAD_REQUEST, "execute_at is missing", 0},
		{"past", send(func(r *schedulerpb.ScheduleRequest) { r.ExecuteAt = 1 }), schedulerpb.StatusCode_BAD_REQUEST, "1970-01-01T00:00:01Z has passed", 0},
		{"before 1970", send(func(r *schedulerpb.ScheduleRequest) { r.ExecuteAt = -1 << 62 }), schedulerpb.StatusCode_BAD_REQUEST, "has passed", 0},
		{"never", send(func(r *schedulerpb.ScheduleRequest) { r.ExecuteAt = 1<<63 - 1 }), schedulerpb.StatusCode_BAD_REQUEST, "want at most", 0},
		{"negative delay", send(func(r *schedulerpb.ScheduleRequest) { r.ExecuteAt, r.After = 0, durationpb.New(-time.Hour) }), schedulerpb.StatusCode_BAD_REQUEST, "has passed", 0},
		{"soon", send(func(r *schedulerpb.ScheduleRequest) { r.ExecuteAt, r.After = 0, durationpb.New(time.Second) }), schedulerpb.StatusCode_BAD_REQUEST, "want at least 1m00s from now", 0},
		{"late", send(func(r *schedulerpb.ScheduleRequest) {
			r.EventId, r.ExecuteAt, r.After = id(9), 0, durationpb.New(361*time.Hour)
		}), schedulerpb.StatusCode_BAD_REQUEST, "want at most 15d00h from now", 0},
		{"no topic", send(func(r *schedulerpb.ScheduleRequest) { r.Topic = "" }), schedulerpb.StatusCode_BAD_REQUEST, "topic is missing", 0},
		{"bad topic", send(func(r *schedulerpb.ScheduleRequest) { r.Topic = "a b" }), schedulerpb.StatusCode_BAD_REQUEST, "want [a-zA-Z0-9._-]{1,249}", 0},
		{"no payload", send(func(r *schedulerpb.ScheduleRequest) { r.Payload = nil }), schedulerpb.StatusCode_BAD_REQUEST, "payload is missing", 0},
		{"large payload", send(func(r *schedulerpb.ScheduleRequest) { r.Payload = make([]byte, 256<<10+1) }), schedulerpb.StatusCode_BAD_REQUEST, "want at most 262144", 0},
		{"all at once", send(func(r *schedulerpb.ScheduleRequest) { r.EventId, r.Topic = "x", "" }), schedulerpb.StatusCode_BAD_REQUEST, "not a UUID: want 8-4-4-4-12 hexadecimal digits; topic is missing", 0},
		{"cancel", cancel(1, schedule.Scheduled), schedulerpb.StatusCode_SUCCESS, "", schedulerpb.EventStatus_EVENT_STATUS_CANCELLED},
		{"cancelled", cancel(1, schedule.Cancelled), schedulerpb.StatusCode_NO_CONTENT, "cancelled before", schedulerpb.EventStatus_EVENT_STATUS_CANCELLED},
		{"cancel while firing", cancel(1, schedule.Firing), schedulerpb.StatusCode_CONFLICT, "FIRING", schedulerpb.EventStatus_EVENT_STATUS_FIRING},
		{"cancel fired", cancel(1, schedule.Fired), schedulerpb.StatusCode_CONFLICT, "FIRED", schedulerpb.EventStatus_EVENT_STATUS_FIRED},
		{"cancel dead", cancel(1, schedule.Dead), schedulerpb.StatusCode_CONFLICT, "DEAD", schedulerpb.EventStatus_EVENT_STATUS_DEAD},
		{"cancel unknown", func() (response, error) {
			return c.Cancel(t.Context(), &schedulerpb.CancelRequest{EventId: id(404)})
		}, schedulerpb.StatusCode_NOT_FOUND, "there is no event", 0},
		{"replay", func() (response, error) {
			return c.Replay(t.Context(), &schedulerpb.ReplayRequest{EventId: id(1)})
		}, schedulerpb.StatusCode_SUCCESS, "", schedulerpb.EventStatus_EVENT_STATUS_SCHEDULED},
		{"drop", func() (response, error) {
			return c.Drop(t.Context(), &schedulerpb.DropRequest{EventId: id(1)})
		}, schedulerpb.StatusCode_CONFLICT, "only a DEAD event", schedulerpb.EventStatus_EVENT_STATUS_SCHEDULED},
		{"move", func() (response, error) {
			return c.Reschedule(t.Context(), &schedulerpb.RescheduleRequest{EventId: id(1), After: durationpb.New(2 * time.Hour)})
		}, schedulerpb.StatusCode_SUCCESS, "", schedulerpb.EventStatus_EVENT_STATUS_SCHEDULED},
		{"move nowhere", func() (response, error) {
			return c.Reschedule(t.Context(), &schedulerpb.RescheduleRequest{EventId: id(1)})
		}, schedulerpb.StatusCode_BAD_REQUEST, "execute_at is missing", 0},
		{"get", func() (response, error) {
			return c.Get(t.Context(), &schedulerpb.GetRequest{EventId: id(1)})
		}, schedulerpb.StatusCode_RECORD_FOUND, "", schedulerpb.EventStatus_EVENT_STATUS_SCHEDULED},
	} {
		out, err := one.ask()
		if err != nil {
			t.Fatalf("%s: %v", one.name, err)
		}
		got, e := out.GetStatus(), out.GetEvent()
		if got.GetCode() != one.code || !strings.Contains(got.GetMessage(), one.message) || e.GetStatus() != one.state {
			t.Errorf("%s: %v %q, event %v; want %v %q, event %v", one.name, got.GetCode(), got.GetMessage(), e.GetStatus(), one.code, one.message, one.state)
		}
	}
}

// The finer time and the delay are honoured, and a repeated delay is the same request.
func TestTimes(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	c := r.client(t)
	at := time.Now().Add(time.Hour).Truncate(time.Millisecond)
	one := request(1)
	one.ExecuteTime = timestamppb.New(at)
	out, err := c.Schedule(t.Context(), one)
	if err != nil || !out.GetCreated() || !out.GetEvent().GetExecuteTime().AsTime().Equal(at) || out.GetEvent().GetPayload() != nil {
		t.Errorf("execute_time %v: %v, %v", at, out, err)
	}
	between := request(3)
	between.ExecuteTime = timestamppb.New(at.Add(time.Nanosecond)) // rounded down, it would be early
	if out, err = c.Schedule(t.Context(), between); err != nil || !out.GetEvent().GetExecuteTime().AsTime().Equal(at.Add(time.Millisecond)) {
		t.Errorf("execute_time %v and 1 ns: %v, %v, want the next millisecond", at, out, err)
	}
	two := request(2)
	two.ExecuteAt, two.After = 0, durationpb.New(time.Minute)
	for n := range 2 {
		out, err := c.Schedule(t.Context(), two)
		if err != nil || out.GetStatus().GetCode() != 0 || out.GetCreated() != (n == 0) {
			t.Errorf("after 1m, request %d: %v, %v", n, out, err)
		}
	}
}

// ScheduleMany answers each request separately, in order, and accepts 1000 of them.
func TestScheduleMany(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	c := r.client(t)
	bad := request(2)
	bad.Topic = ""
	out, err := c.ScheduleMany(t.Context(), &schedulerpb.ScheduleManyRequest{Requests: []*schedulerpb.ScheduleRequest{request(1), bad, request(1), request(3)}})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, one := range out.GetResponses() {
		got = append(got, fmt.Sprint(one.GetStatus().GetCode(), " ", one.GetCreated()))
	}
	if want := "SUCCESS true,BAD_REQUEST false,SUCCESS false,SUCCESS true"; strings.Join(got, ",") != want {
		t.Errorf("got %v, want %v", got, want)
	}
	var many schedulerpb.ScheduleManyRequest
	for n := range 1001 {
		many.Requests = append(many.Requests, request(n+10))
	}
	if _, err := c.ScheduleMany(t.Context(), &many); status.Code(err) != codes.InvalidArgument {
		t.Errorf("1001 requests: %v, want INVALID_ARGUMENT", err)
	}
	many.Requests = many.Requests[:1000]
	if out, err := c.ScheduleMany(t.Context(), &many); err != nil || len(out.GetResponses()) != 1000 {
		t.Errorf("1000 requests: %d responses, %v", len(out.GetResponses()), err)
	}
}

// list receives all events of a request.
func list(t *testing.T, c schedulerpb.SchedulerServiceClient, r *schedulerpb.ListRequest) (found []*schedulerpb.Event, err error) {
	t.Helper()
	stream, err := c.List(t.Context(), r)
	if err != nil {
		return nil, err
	}
	for {
		e, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return found, nil
		}
		if err != nil {
			return found, err
		}
		found = append(found, e)
	}
}

// A List over many pages returns each event once, and continues after any cursor.
func TestList(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	c := r.client(t)
	var many schedulerpb.ScheduleManyRequest
	for n := range 250 {
		many.Requests = append(many.Requests, request(n))
	}
	if _, err := c.ScheduleMany(t.Context(), &many); err != nil {
		t.Fatal(err)
	}
	all, err := list(t, c, &schedulerpb.ListRequest{})
	if err != nil || len(all) != 250 || all[0].Payload != nil || all[249].Cursor != "" {
		t.Fatalf("%d events, %v", len(all), err)
	}
	some, err := list(t, c, &schedulerpb.ListRequest{Limit: 120, Payloads: true})
	if err != nil || len(some) != 120 || string(some[0].Payload) != `{"n":1}` {
		t.Fatalf("%d events, %v", len(some), err)
	}
	rest, err := list(t, c, &schedulerpb.ListRequest{Cursor: some[119].GetCursor()})
	if err != nil || len(rest) != 130 || rest[0].EventId != all[120].EventId {
		t.Errorf("behind the cursor %q: %d events, %v", some[119].GetCursor(), len(rest), err)
	}
	for _, wrong := range []*schedulerpb.ListRequest{{Limit: -1}, {Status: 17}, {Cursor: "no cursor"}} {
		if _, err := list(t, c, wrong); status.Code(err) != codes.InvalidArgument {
			t.Errorf("%v: %v, want INVALID_ARGUMENT", wrong, err)
		}
	}
}

// The number of partitions changes only from the number that the client knows.
func TestPartitions(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	c := r.client(t)
	for _, one := range []struct {
		from, count, after int32
		code               schedulerpb.StatusCode
	}{
		{0, 0, 16, schedulerpb.StatusCode_SUCCESS},
		{16, 32, 32, schedulerpb.StatusCode_SUCCESS},
		{16, 8, 32, schedulerpb.StatusCode_CONFLICT},
		{32, 1025, 0, schedulerpb.StatusCode_BAD_REQUEST},
		{32, -1, 0, schedulerpb.StatusCode_BAD_REQUEST},
	} {
		out, err := c.Partitions(t.Context(), &schedulerpb.PartitionsRequest{From: one.from, Count: one.count})
		if err != nil || out.GetStatus().GetCode() != one.code || out.GetCount() != one.after {
			t.Errorf("from %d to %d: %v, %v; want %d, %v", one.from, one.count, out, err, one.after, one.code)
		}
		if one.code == schedulerpb.StatusCode_CONFLICT && out.GetStatus().GetMessage() != "from is 16: the number of partitions is 32" {
			t.Errorf("message %q", out.GetStatus().GetMessage())
		}
	}
}

// check asks for the health of both names, which are the same.
func check(t *testing.T, c *grpc.ClientConn) healthpb.HealthCheckResponse_ServingStatus {
	t.Helper()
	var last healthpb.HealthCheckResponse_ServingStatus
	for i, name := range []string{"", "scheduler.v1.SchedulerService"} {
		out, err := healthpb.NewHealthClient(c).Check(t.Context(), &healthpb.HealthCheckRequest{Service: name})
		if err != nil {
			t.Fatal(err)
		}
		if i > 0 && out.GetStatus() != last {
			return check(t, c) // it has just changed
		}
		last = out.GetStatus()
	}
	return last
}

func awaitHealth(t *testing.T, c *grpc.ClientConn, want healthpb.HealthCheckResponse_ServingStatus) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); check(t, c) != want; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("the health is not %v within 10s", want)
		}
	}
}

// A store that is away is UNAVAILABLE and NOT_SERVING until it is back, and its address is not
// revealed.
func TestAway(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	conn := dial(t, r.address)
	c := schedulerpb.NewSchedulerServiceClient(conn)
	awaitHealth(t, conn, healthpb.HealthCheckResponse_SERVING)
	r.fail(errors.New("dial tcp 10.1.2.3:6379: connection refused"))
	awaitHealth(t, conn, healthpb.HealthCheckResponse_NOT_SERVING)
	for name, ask := range map[string]func() error{
		"Schedule": func() error { _, err := c.Schedule(t.Context(), request(1)); return err },
		"Cancel":   func() error { _, err := c.Cancel(t.Context(), &schedulerpb.CancelRequest{EventId: id(1)}); return err },
		"Get":      func() error { _, err := c.Get(t.Context(), &schedulerpb.GetRequest{EventId: id(1)}); return err },
		"List":     func() error { _, err := list(t, c, &schedulerpb.ListRequest{}); return err },
		"Partitions": func() error {
			_, err := c.Partitions(t.Context(), &schedulerpb.PartitionsRequest{From: 16, Count: 8})
			return err
		},
	} {
		if err := ask(); status.Code(err) != codes.Unavailable || strings.Contains(err.Error(), "10.1.2.3") {
			t.Errorf("%s: %v, want UNAVAILABLE", name, err)
		}
	}
	r.fail(nil)
	awaitHealth(t, conn, healthpb.HealthCheckResponse_SERVING)
	if out, err := c.Schedule(t.Context(), request(1)); err != nil || !out.GetCreated() {
		t.Errorf("%v, %v", out, err)
	}
}

// An idle server rarely checks its store.
func TestIdle(t *testing.T) {
	t.Parallel()
	const every, rarely = time.Millisecond, 15
	var checks atomic.Int64
	began := time.Now()
	r := start(t, func(o *server.Options, _ *ledger) {
		o.CheckEvery = every
		o.Check = func(context.Context) error { checks.Add(1); return nil }
	})
	time.Sleep(100 * every)
	if n := checks.Load(); n > 2+int64(time.Since(began)/(rarely*every)) {
		t.Errorf("%d checks in %s", n, time.Since(began))
	}
	conn := dial(t, r.address)
	for n := checks.Load(); checks.Load() < n+2*rarely; { // after each call there is one soon
		awaitHealth(t, conn, healthpb.HealthCheckResponse_SERVING)
	}
}

// A full store rejects new events, and only these.
func TestFull(t *testing.T) {
	t.Parallel()
	r := start(t, func(o *server.Options, _ *ledger) {
		o.Check = func(context.Context) error { return fmt.Errorf("%w: 95 %% used", schedule.ErrFull) }
	})
	conn := dial(t, r.address)
	awaitHealth(t, conn, healthpb.HealthCheckResponse_SERVING)
	c := schedulerpb.NewSchedulerServiceClient(conn)
	if _, err := c.Schedule(t.Context(), request(1)); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("Schedule: %v, want RESOURCE_EXHAUSTED", err)
	}
	if _, err := c.Cancel(t.Context(), &schedulerpb.CancelRequest{EventId: id(1)}); err != nil {
		t.Errorf("Cancel: %v", err)
	}
}

// The more events a call has, the more time.
func TestTimeout(t *testing.T) {
	t.Parallel()
	var left atomic.Int64
	r := start(t, func(o *server.Options, l *ledger) {
		o.Timeout = time.Minute
		l.before = func(ctx context.Context) {
			if end, _ := ctx.Deadline(); time.Until(end) > time.Minute { // not that of a health check
				left.Store(int64(time.Until(end)))
			}
		}
	})
	many := &schedulerpb.ScheduleManyRequest{}
	for n := range 500 {
		many.Requests = append(many.Requests, request(n))
	}
	_, err := r.client(t).ScheduleMany(t.Context(), many)
	if got := time.Duration(left.Load()); err != nil || got < 5*time.Minute || got > 6*time.Minute {
		t.Errorf("500 events have %s, want 6 minutes: %v", got, err)
	}
}

// A message of more than 1 MiB, a store that hangs and a panic each end one call, with its own code.
func TestRefused(t *testing.T) {
	t.Parallel()
	hang := make(chan func(context.Context), 1)
	r := start(t, func(o *server.Options, l *ledger) {
		o.Timeout = 50 * time.Millisecond
		o.Check = func(context.Context) error { return nil }
		l.before = func(ctx context.Context) {
			select {
			case do := <-hang:
				do(ctx)
			default:
			}
		}
	})
	c := r.client(t)
	large := request(1)
	large.Payload = make([]byte, server.MostBytes)
	if _, err := c.Schedule(t.Context(), large); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("large: %v, want RESOURCE_EXHAUSTED", err)
	}
	hang <- func(ctx context.Context) { <-ctx.Done() }
	if _, err := c.Schedule(t.Context(), request(1)); status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("slow: %v, want DEADLINE_EXCEEDED", err)
	}
	hang <- func(context.Context) { panic("boom") }
	if _, err := c.Schedule(t.Context(), request(1)); status.Code(err) != codes.Internal || strings.Contains(err.Error(), "boom") {
		t.Errorf("panic: %v, want INTERNAL", err)
	}
	if out, err := c.Schedule(t.Context(), request(1)); err != nil || !out.GetCreated() {
		t.Errorf("afterwards: %v, %v", out, err)
	}
	var got []codes.Code
	for _, call := range r.calls() {
		if call.Method == "/scheduler.v1.SchedulerService/Schedule" {
			got = append(got, call.Code)
		}
	}
	// gRPC itself rejects the large message.
	if want := fmt.Sprint([]codes.Code{codes.DeadlineExceeded, codes.Internal, codes.OK}); fmt.Sprint(got) != want {
		t.Errorf("observed %v, want %v", got, want)
	}
}

// A stopping server informs those who watch its health, answers calls in progress, and ends its
// streams.
func TestDrain(t *testing.T) {
	t.Parallel()
	entered, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	r := start(t, func(o *server.Options, l *ledger) {
		o.Check = func(context.Context) error { return nil }
		l.before = func(context.Context) { once.Do(func() { close(entered); <-release }) }
	})
	conn := dial(t, r.address)
	awaitHealth(t, conn, healthpb.HealthCheckResponse_SERVING)
	watch, err := healthpb.NewHealthClient(conn).Watch(t.Context(), &healthpb.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if first, err := watch.Recv(); err != nil || first.GetStatus() != healthpb.HealthCheckResponse_SERVING {
		t.Fatalf("%v, %v", first, err)
	}
	answered := make(chan error, 1)
	go func() {
		_, err := schedulerpb.NewSchedulerServiceClient(conn).Schedule(t.Context(), request(1))
		answered <- err
	}()
	<-entered
	r.stop()
	if then, err := watch.Recv(); err != nil || then.GetStatus() != healthpb.HealthCheckResponse_NOT_SERVING {
		t.Errorf("while it stops: %v, %v; want NOT_SERVING", then, err)
	}
	if _, err := watch.Recv(); status.Code(err) != codes.Unavailable {
		t.Errorf("the watch ends with %v, want UNAVAILABLE", err)
	}
	close(release)
	if err := <-answered; err != nil {
		t.Errorf("a call that had begun: %v", err)
	}
	if err := <-r.ended; err != nil {
		t.Errorf("Run: %v", err)
	}
	if _, err := r.client(t).Schedule(t.Context(), request(2)); status.Code(err) != codes.Unavailable {
		t.Errorf("afterwards: %v, want UNAVAILABLE", err)
	}
}

// Only clients with a token from the file may call, except for health checks. The file is read again
// when it changes; an invalid file changes nothing, and is logged once.
func TestTokens(t *testing.T) {
	t.Parallel()
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	file := filepath.Join(t.TempDir(), "tokens")
	write := func(text string, age time.Duration) {
		t.Helper()
		if err := errors.Join(os.WriteFile(file, []byte(text), 0o600), os.Chtimes(file, time.Time{}, time.Now().Add(-age))); err != nil {
			t.Fatal(err)
		}
	}
	write("# of the shop\nold-token-of-the-shop\n\nold-token-of-others\n", time.Hour)
	r := start(t, func(o *server.Options, _ *ledger) {
		tokens, err := server.ReadTokens(file)
		if err != nil {
			t.Fatal(err)
		}
		o.Tokens = tokens
		o.Log = slog.New(slog.NewTextHandler(log, nil))
	})
	conn := dial(t, r.address)
	awaitHealth(t, conn, healthpb.HealthCheckResponse_SERVING)
	c := schedulerpb.NewSchedulerServiceClient(conn)
	get := func(authorization string) codes.Code {
		ctx := t.Context()
		if authorization != "" {
			ctx = metadata.AppendToOutgoingContext(ctx, "authorization", authorization)
		}
		_, err := c.Get(ctx, &schedulerpb.GetRequest{EventId: id(1)})
		return status.Code(err)
	}
	for given, want := range map[string]codes.Code{
		"":                             codes.Unauthenticated,
		"Bearer":                       codes.Unauthenticated,
		"Bearer wrong":                 codes.Unauthenticated,
		"Basic old-token-of-the-shop":  codes.Unauthenticated,
		"Bearer # of the shop":         codes.Unauthenticated,
		"Bearer old-token-of-the-shop": codes.OK,
		"bearer old-token-of-others":   codes.OK,
	} {
		if got := get(given); got != want {
			t.Errorf("%q: %v, want %v", given, got, want)
		}
	}
	if _, err := list(t, c, &schedulerpb.ListRequest{}); status.Code(err) != codes.Unauthenticated {
		t.Errorf("List: %v, want UNAUTHENTICATED", err)
	}
	write("short\n", time.Minute)
	time.Sleep(50 * time.Millisecond)
	if got := get("Bearer old-token-of-the-shop"); got != codes.OK {
		t.Errorf("after a bad file: %v", got)
	}
	logged, err := os.ReadFile(log.Name())
	if n := strings.Count(string(logged), "tokens not read"); err != nil || n > 1 {
		t.Errorf("a bad file was logged %d times, want once", n)
	}
	write("new-token-of-the-shop\n", 0)
	for deadline := time.Now().Add(10 * time.Second); get("Bearer new-token-of-the-shop") != codes.OK; {
		if time.Now().After(deadline) {
			t.Fatal("the new token is not accepted within 10s")
		}
	}
	if got := get("Bearer old-token-of-the-shop"); got != codes.Unauthenticated {
		t.Errorf("the old token: %v, want UNAUTHENTICATED", got)
	}
}

// A repeated request with a delay is the same one, although the delay ends later. With replace it moves the
// event as long as that is possible.
func TestRepeatedDelay(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	c := r.client(t)
	call := func(delay time.Duration, replace bool) *schedulerpb.ScheduleResponse {
		t.Helper()
		one := request(1)
		one.ExecuteAt, one.After, one.Replace = 0, durationpb.New(delay), replace
		out, err := c.Schedule(t.Context(), one)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	first := call(time.Hour, false).GetEvent().GetExecuteTime().AsTime()
	if again := call(time.Hour, false); again.GetStatus().GetCode() != schedulerpb.StatusCode_SUCCESS || !again.GetEvent().GetExecuteTime().AsTime().Equal(first) {
		t.Errorf("again: %v, want the event at %v", again, first)
	}
	moved := call(3*time.Hour, true)
	if due := moved.GetEvent().GetExecuteTime().AsTime(); moved.GetStatus().GetCode() != schedulerpb.StatusCode_SUCCESS || due.Sub(first) < 2*time.Hour {
		t.Errorf("replaced: %v, want it two hours after %v", moved, first)
	}
	r.mu.Lock()
	e := r.events[id(1)]
	e.Status = "FIRED"
	r.events[id(1)] = e
	r.mu.Unlock()
	if late := call(4*time.Hour, true); late.GetStatus().GetCode() != schedulerpb.StatusCode_CONFLICT {
		t.Errorf("replaced after it fired: %v, want CONFLICT", late)
	}
}

// With a client CA, only clients with a certificate signed by it may connect.
func TestMutualTLS(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t, "ca")
	cert, key := ca.issue(t, "server")
	other := newAuthority(t, "other")
	r := start(t, func(o *server.Options, _ *ledger) {
		var err error
		if o.TLS, err = server.ReadCertificate(cert, key, ca.file); err != nil {
			t.Fatal(err)
		}
	})
	for name, one := range map[string]struct {
		with grpc.DialOption
		want codes.Code
	}{
		"its client":       {grpc.WithTransportCredentials(credentials.NewTLS(ca.client(t, ca))), codes.OK},
		"another's client": {grpc.WithTransportCredentials(credentials.NewTLS(ca.client(t, other))), codes.Unavailable},
		"no certificate":   {grpc.WithTransportCredentials(credentials.NewTLS(ca.client(t, nil))), codes.Unavailable},
		"no TLS":           {grpc.WithTransportCredentials(insecure.NewCredentials()), codes.Unavailable},
	} {
		c := schedulerpb.NewSchedulerServiceClient(dial(t, r.address, one.with))
		if _, err := c.Get(t.Context(), &schedulerpb.GetRequest{EventId: id(1)}); status.Code(err) != one.want {
			t.Errorf("%s: %v, want %v", name, err, one.want)
		}
	}
	if _, err := server.ReadCertificate(cert, key, key); err == nil || !strings.Contains(err.Error(), "CA of the clients: "+key) {
		t.Errorf("a client CA without a certificate: %v", err)
	}
	if _, err := server.ReadCertificate(cert, ca.file, filepath.Join(t.TempDir(), "none")); err == nil || strings.Count(err.Error(), "\n") != 1 {
		t.Errorf("two bad files: %v", err)
	}
}

// A renewed certificate and client CA are used without a restart. While only one of two files has been
// replaced, the previous pair stays in use, and the log says so, as it does when a certificate expires.
func TestRenewedCertificate(t *testing.T) {
	t.Parallel()
	ca, next := newAuthority(t, "ca"), newAuthority(t, "next")
	cert, key := ca.issue(t, "server")
	served, err := server.ReadCertificate(cert, key, ca.file)
	if err != nil {
		t.Fatal(err)
	}
	r := start(t, func(o *server.Options, _ *ledger) { o.TLS = served })
	call := func(trusted, by *authority) codes.Code {
		c := schedulerpb.NewSchedulerServiceClient(dial(t, r.address, grpc.WithTransportCredentials(credentials.NewTLS(trusted.client(t, by)))))
		_, err := c.Get(t.Context(), &schedulerpb.GetRequest{EventId: id(1)})
		return status.Code(err)
	}
	replace := func(old, by string) {
		text, err := os.ReadFile(by)
		if err == nil {
			err = os.WriteFile(old, text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	newCert, newKey := next.issue(t, "server")
	replace(cert, newCert)
	if got := call(ca, ca); got != codes.OK {
		t.Errorf("between two files: %v, want OK with the previous certificate", got)
	}
	if err := served.Check(time.Now()); err == nil || !strings.Contains(err.Error(), "the previous certificate stays in use: certificate "+cert) {
		t.Errorf("between two files: %v", err)
	}
	replace(key, newKey)
	if got := call(next, ca); got != codes.OK {
		t.Errorf("with the new certificate: %v, want OK", got)
	}
	if got := call(ca, ca); got != codes.Unavailable {
		t.Errorf("a client that trusts the old CA only: %v, want UNAVAILABLE", got)
	}
	replace(ca.file, next.file)
	if got := call(next, next); got != codes.OK {
		t.Errorf("with the new client CA: %v, want OK", got)
	}
	if err := served.Check(time.Now()); err != nil {
		t.Error(err)
	}
	for _, at := range []time.Duration{-2 * time.Hour, 2 * time.Hour} {
		if err := served.Check(time.Now().Add(at)); err == nil || !strings.Contains(err.Error(), "so clients refuse it") {
			t.Errorf("in %s: %v", at, err)
		}
	}
}

// An event gets the trace context of the call, unless it has its own. A repeated request may come from
// another span.
func TestTraceContext(t *testing.T) {
	t.Parallel()
	const span, other = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01"
	c := start(t, nil).client(t)
	ask := func(n int, parent string, headers map[string]string) *schedulerpb.ScheduleResponse {
		t.Helper()
		asked := request(n)
		asked.ExecuteAt, asked.Headers = time.Now().Add(time.Hour).Truncate(time.Hour).Unix()+3600, headers
		out, err := c.Schedule(metadata.AppendToOutgoingContext(t.Context(), "traceparent", parent, "tracestate", "a=1"), asked)
		if err != nil || out.GetStatus().GetCode() != schedulerpb.StatusCode_SUCCESS {
			t.Fatalf("Schedule: %v, %v", out, err)
		}
		return out
	}
	if h := ask(1, span, nil).GetEvent().GetHeaders(); h["traceparent"] != span || h["tracestate"] != "a=1" {
		t.Errorf("the event has the headers %v", h)
	}
	if again := ask(1, other, nil); again.GetCreated() || again.GetEvent().GetHeaders()["traceparent"] != span {
		t.Errorf("the repeated request: %v", again)
	}
	for n, malformed := range []string{"00-1-2-01", strings.ToUpper(span), "x"} {
		if h := ask(10+n, malformed, nil).GetEvent().GetHeaders(); len(h) > 0 {
			t.Errorf("with the malformed context %s, the event has the headers %v", malformed, h)
		}
	}
	if h := ask(2, span, map[string]string{"traceparent": other}).GetEvent().GetHeaders(); h["traceparent"] != other || len(h) != 1 {
		t.Errorf("the event with a context of its own has the headers %v", h)
	}
}
