//go:build unix

package torture_test

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/store/redistest"
)

// The master dies and its replica replaces it: all executions that were replicated continue
// and end.
func TestFailover(t *testing.T) {
	w := begin(t, "--repl-diskless-sync-delay", "0")
	n := size(20, 300)
	w.reach(w.watched())
	w.run(2, role{Workers: 2, Executors: 4, Timers: 2, Remote: true})
	do, want := counting(2, 20)
	defs := []*dsl.Definition{w.define("resting", resting), w.define("counting", do)}
	wanted := []string{`{"n":10}`, want}
	ids := names("x", n)
	for i, id := range ids {
		w.start(id, defs[i%2], struct{}{})
	}
	w.replicated()
	time.Sleep(time.Duration(w.rand.Int64N(int64(500 * time.Millisecond))))
	w.server.Kill()
	began := time.Now()
	w.until(func() string {
		if err := w.rdb.Set(t.Context(), markKey, "2", 0).Err(); err != nil {
			return "a failover: " + err.Error()
		}
		return ""
	})
	outage := time.Since(began)
	w.settle(allGroups()...)

	wrong := 0
	for i, id := range ids {
		s, err := w.ended(id)
		if err == nil && (s.Status != string(decide.Completed) || string(s.Output) != wanted[i%2]) {
			err = fmt.Errorf("execution %s is %s with output %s and error %s", id, s.Status, s.Output, s.Error)
		}
		if err != nil {
			if wrong++; wrong <= 5 {
				t.Error(err)
			}
		}
	}
	w.report("executions=%d wrong=%d without a master=%v from its death to the end=%v",
		n, wrong, outage.Round(time.Millisecond), time.Since(began).Round(time.Millisecond))
	w.want("wrong", wrong, 0)
	w.noDeadLetters()
}

const (
	markKey = "torture:mark"
	master  = "torture"
)

// watched adds a replica and a sentinel to the Redis, and returns an address that leads to
// the current master.
func (w *environment) watched() string {
	w.t.Helper()
	_, port, err := net.SplitHostPort(w.address)
	w.must(err)
	redistest.Serve(w.t, "--replicaof", "127.0.0.1", port)
	w.replicated()

	addr := w.sentinel(port)
	ask := redis.NewSentinelClient(&redis.Options{Addr: addr, MaxRetries: -1, DisableIdentity: true})
	w.t.Cleanup(func() { ask.Close() })
	w.until(func() string {
		if known, err := ask.Replicas(w.t.Context(), master).Result(); err != nil || len(known) == 0 {
			return fmt.Sprintf("a replica that the sentinel knows, %v", err)
		}
		return ""
	})
	return "redis-sentinel://" + addr + "/" + master
}

// sentinel starts a sentinel that watches the master at a port, and returns its address.
// A master that is only slow for a moment must not be failed over: writes that the
// replica does not have yet would be lost.
func (w *environment) sentinel(port string) (addr string) {
	w.t.Helper()
	addr = redistest.FreeAddr(w.t)
	_, own, err := net.SplitHostPort(addr)
	w.must(err)
	file := filepath.Join(w.t.TempDir(), "sentinel.conf")
	w.must(os.WriteFile(file, []byte(strings.Join([]string{
		"port " + own, "bind 127.0.0.1", "sentinel monitor " + master + " 127.0.0.1 " + port + " 1",
		fmt.Sprintf("sentinel down-after-milliseconds %s %d", master, size(3*time.Second, 500*time.Millisecond).Milliseconds()),
		"sentinel failover-timeout " + master + " 3000", "",
	}, "\n")), 0o600))
	sentinel := exec.Command("redis-server", file, "--sentinel")
	w.must(sentinel.Start())
	w.t.Cleanup(func() {
		_ = sentinel.Process.Kill()
		_ = sentinel.Wait()
	})
	return addr
}

// replicated waits until a replica has all writes.
func (w *environment) replicated() {
	w.t.Helper()
	ctx := w.t.Context()
	w.until(func() string {
		pipe := w.rdb.Pipeline()
		pipe.Set(ctx, markKey, "1", 0)
		copies := pipe.Do(ctx, "WAIT", 1, 1000)
		if _, err := pipe.Exec(ctx); err != nil || copies.Val() != any(int64(1)) {
			return fmt.Sprintf("a replica that is up to date, %v", err)
		}
		return ""
	})
}
