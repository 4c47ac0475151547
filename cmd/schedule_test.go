package cmd_test

import (
	"context"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"flunq.io/flunq/cmd/cli"
	"flunq.io/flunq/engine/schedule"
	"flunq.io/flunq/engine/scheduler/schedulerpb"
	"flunq.io/flunq/engine/store/redistest"
)

// Scripts with a scheduler: each has a real Redis of its own, and a free address for gRPC.
func TestScriptOnScheduler(t *testing.T) {
	t.Parallel()
	runScripts(t, testscript.Params{
		Dir:  "../testdata/script/scheduler",
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"code": code, "await": await},
		Setup: func(env *testscript.Env) error {
			inner, ok := env.T().(testing.TB)
			if !ok {
				inner = t
			}
			server := redistest.Serve(inner)
			l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
			if err != nil {
				return err
			}
			env.Setenv("SCHEDULER_ADDRESS", l.Addr().String())
			env.Setenv("SCHEDULER_GRPC", l.Addr().String())
			env.Setenv("LC_ALL", "C.UTF-8")
			env.Setenv("NOT_UTF8", "\xff")
			env.Setenv("TZ", "UTC")
			env.Setenv("REDIS_URL", "redis://"+server.Addr())
			return l.Close()
		},
	})
}

// firing is a scheduler whose event fires while it is listed.
type firing struct {
	schedulerpb.UnimplementedSchedulerServiceServer
}

// List implements schedulerpb.SchedulerServiceServer.
func (firing) List(_ *schedulerpb.ListRequest, to grpc.ServerStreamingServer[schedulerpb.Event]) error {
	const id = "00000000-0000-4000-8000-000000000001"
	for _, state := range []schedulerpb.EventStatus{schedulerpb.EventStatus_EVENT_STATUS_SCHEDULED, schedulerpb.EventStatus_EVENT_STATUS_FIRED} {
		if err := to.Send(&schedulerpb.Event{EventId: id, Status: state}); err != nil {
			return err
		}
	}
	return nil
}

// serveScheduler serves a scheduler, and returns its address.
func serveScheduler(t *testing.T, scheduler schedulerpb.SchedulerServiceServer) string {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer()
	schedulerpb.RegisterSchedulerServiceServer(s, scheduler)
	go func() { _ = s.Serve(l) }()
	t.Cleanup(s.Stop)
	return l.Addr().String()
}

// An event that moves to another list meanwhile is listed once.
func TestScheduleListsOnce(t *testing.T) {
	t.Parallel()
	out, errs, code := flunqWith(t.Context(), map[string]string{"SCHEDULER_ADDRESS": serveScheduler(t, firing{})}, "schedule", "ls", "-o", "ids")
	if want := "00000000-0000-4000-8000-000000000001\n"; out != want || code != 0 {
		t.Errorf("%d, %s%s, want %s", code, out, errs, want)
	}
}

// throttled is a scheduler whose table fails in the second call.
type throttled struct {
	schedulerpb.UnimplementedSchedulerServiceServer

	calls atomic.Int64
}

// ScheduleMany implements schedulerpb.SchedulerServiceServer.
func (s *throttled) ScheduleMany(_ context.Context, r *schedulerpb.ScheduleManyRequest) (*schedulerpb.ScheduleManyResponse, error) {
	if s.calls.Add(1) > 1 {
		return nil, status.Error(codes.Unavailable, schedule.StoreUnavailable)
	}
	out := &schedulerpb.ScheduleManyResponse{}
	for range r.GetRequests() {
		out.Responses = append(out.Responses, &schedulerpb.ScheduleResponse{Created: true, Event: &schedulerpb.Event{}})
	}
	return out, nil
}

// If the fate of some lines is unknown, 'schedule add --jsonl' says of which, at the end of the file too.
func TestScheduleLinesOfUnknownFate(t *testing.T) {
	t.Parallel()
	_, errs, code := flunq(t, func(s *cli.Streams) {
		s.In = strings.NewReader(strings.Repeat(`{"topic": "t", "after": "1h", "payload": 1}`+"\n", 1010))
		s.Env = environment(map[string]string{"SCHEDULER_ADDRESS": serveScheduler(t, &throttled{})})
	}, "schedule", "add", "-", "--jsonl")
	want := "try again; lines 1001 to 1010 may have taken effect nevertheless: repeat only those with ids\n1,000 events scheduled before line 1001\n"
	if code != cli.ExitUnreachable || !strings.HasSuffix(errs, want) {
		t.Errorf("exit code %d, %q, want the end %q", code, errs, want)
	}
}
