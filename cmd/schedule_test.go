package cmd_test

import (
	"net"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"google.golang.org/grpc"

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
	for _, status := range []schedulerpb.EventStatus{schedulerpb.EventStatus_EVENT_STATUS_SCHEDULED, schedulerpb.EventStatus_EVENT_STATUS_FIRED} {
		if err := to.Send(&schedulerpb.Event{EventId: id, Status: status}); err != nil {
			return err
		}
	}
	return nil
}

// An event that moves to another list meanwhile is listed once.
func TestScheduleListsOnce(t *testing.T) {
	t.Parallel()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer()
	schedulerpb.RegisterSchedulerServiceServer(s, firing{})
	go func() { _ = s.Serve(l) }()
	t.Cleanup(s.Stop)
	out, errs, code := flunqWith(t.Context(), map[string]string{"SCHEDULER_ADDRESS": l.Addr().String()}, "schedule", "ls", "-o", "ids")
	if want := "00000000-0000-4000-8000-000000000001\n"; out != want || code != 0 {
		t.Errorf("%d, %s%s, want %s", code, out, errs, want)
	}
}
