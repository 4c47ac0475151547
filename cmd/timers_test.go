package cmd_test

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/rogpeppe/go-internal/testscript"

	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/redistest"
	"flunq.io/flunq/engine/store/timers"
)

// redisKey is the key of the Redis in the environment of a script.
const redisKey = "redis"

// Scripts on data in Redis: each has its own, whose clock stands still at the beginning of
// 2026. The command redis fills it.
func TestScriptOnRedis(t *testing.T) {
	t.Parallel()
	runScripts(t, testscript.Params{
		Dir: "../testdata/script/redis",
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"code": code, "redis": inRedis, "clock": setClock,
		},
		Setup: func(env *testscript.Env) error {
			mini := miniredis.NewMiniRedis()
			if err := mini.Start(); err != nil {
				return err
			}
			env.Defer(mini.Close)
			mini.SetTime(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
			env.Values[redisKey] = mini
			env.Setenv("LC_ALL", "C.UTF-8")
			env.Setenv("TZ", "UTC")
			env.Setenv("FLUNQ_USER", "ada@host")
			env.Setenv("REDIS_URL", "redis://"+mini.Addr())
			return nil
		},
	})
}

// inRedis runs a command of Redis: redis XADD tenant:acme:events '*' id 1. It replaces
// @FILE with the content of a file, without the final line break.
func inRedis(ts *testscript.TestScript, negated bool, args []string) {
	if negated || len(args) == 0 {
		ts.Fatalf("usage: redis COMMAND [ARGUMENT…]")
	}
	words := make([]any, len(args))
	for i, arg := range args {
		words[i] = arg
		if len(arg) > 1 && arg[0] == '@' {
			text := ts.ReadFile(arg[1:])
			words[i] = text[:len(text)-1]
		}
	}
	rdb, err := store.Dial(context.Background(), ts.Getenv("REDIS_URL"))
	ts.Check(err)
	defer func() { _ = rdb.Close() }()
	reply, err := rdb.Do(context.Background(), words...).Result()
	ts.Check(err)
	fmt.Fprintf(ts.Stdout(), "%v\n", reply)
}

// setClock sets the time of Redis: clock 2026-01-01T01:00:00Z.
func setClock(ts *testscript.TestScript, negated bool, args []string) {
	mini, ok := ts.Value(redisKey).(*miniredis.Miniredis)
	if !ok || negated || len(args) != 1 {
		ts.Fatalf("usage: clock TIME")
	}
	at, err := time.Parse(time.RFC3339Nano, args[0])
	ts.Check(err)
	mini.SetTime(at)
}

// A million timers do not slow down the list of the next ones. The test runs only on
// request, since setting them takes long.
func TestTimersOfAMillion(t *testing.T) {
	t.Parallel()
	if os.Getenv("FLUNQ_TEST_MILLION") == "" {
		t.Skip("FLUNQ_TEST_MILLION is not set")
	}
	rdb := redistest.Start(t)
	const count, batch = 1_000_000, 10_000
	start := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	for i := 0; i < count; i += batch {
		members := make([]redis.Z, 0, batch)
		for n := range batch {
			at := start.Add(time.Duration(i+n) * time.Millisecond)
			one := event.Timer{
				Tenant: "default", Workflow: "shop.order", Execution: fmt.Sprintf("order-%07d", i+n),
				TaskID: "/do/0/wait", TaskName: "wait", FireAt: at, DurationMS: 5000, Kind: event.WaitTimer,
			}
			members = append(members, redis.Z{Score: float64(at.UnixMilli()) / 1000, Member: string(event.Encode(one))})
		}
		if err := rdb.ZAdd(t.Context(), "flunq:timers:all", members...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	st := store.New(rdb, store.Options{})
	for name, filter := range map[string]timers.Filter{
		"next 20": {Tenant: "default"}, "of one execution": {Execution: "order-0999999"}, "of another tenant": {Tenant: "acme"},
	} {
		began := time.Now()
		found, next, err := timers.New(st).List(t.Context(), filter, "", 20)
		t.Logf("%s: %d found in %v", name, len(found), time.Since(began))
		if took := time.Since(began); err != nil || filter.Tenant == "default" && (took > 100*time.Millisecond || next == "") {
			t.Errorf("%s took %v, %v", name, took, err)
		}
	}
	began := time.Now()
	url := "redis://" + redistest.AddrOf(t, rdb)
	if stdout, stderr, code := flunq(t, nil, "timers", "ls", "--limit", "20", "--redis-url", url, "-o", "ids"); code != 0 || len(stdout) < 20*20 {
		t.Errorf("code %d, %s%s", code, stdout, stderr)
	}
	took := time.Since(began)
	t.Logf("timers ls --limit 20: %v", took)
	if took > 100*time.Millisecond {
		t.Errorf("timers ls --limit 20 took %v, want less than 100ms", took)
	}
}
