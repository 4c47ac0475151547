package cmd_test

import (
	"net"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

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
