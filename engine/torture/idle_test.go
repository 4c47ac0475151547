//go:build linux

package torture_test

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
)

// A process that only waits for very many timers uses hardly any CPU.
func TestIdle(t *testing.T) {
	w := begin(t)
	n, span := size(20_000, 1_000_000), size(time.Second, 10*time.Second)
	for part := range n / 20_000 {
		w.put(w.plan(fmt.Sprintf("t%d-", part), 20_000, w.now().Add(time.Hour), 30*24*time.Hour))
	}
	w.run(1, role{Workers: 4, Executors: 16, Timers: 2, Lease: 30 * time.Second, Block: time.Second, Discover: true})
	w.until(func() string {
		info, err := w.rdb.InfoMap(t.Context(), "clients").Result()
		w.must(err)
		if n, _ := strconv.Atoi(info["Clients"]["blocked_clients"]); n < 2 {
			return fmt.Sprintf("%d services wait in a read, want one of the workers and one of the timers", n)
		}
		return ""
	})
	time.Sleep(time.Second) // until the work of the start is over

	engine, server := w.cpuTime(w.pid(0)), w.cpuTime(w.server.PID())
	time.Sleep(span)
	share := func(used time.Duration) float64 { return 100 * used.Seconds() / span.Seconds() }
	ours, theirs := share(w.cpuTime(w.pid(0))-engine), share(w.cpuTime(w.server.PID())-server)
	w.report("timers=%d engine=%.2f%% redis=%.2f%% of a core", n, ours, theirs)
	if *full && ours >= 2 {
		t.Errorf("an idle process takes %.2f%% of a core, want less than 2", ours)
	}
	if left := w.rdb.ZCard(t.Context(), timersKey).Val(); left != int64(n) {
		t.Errorf("%d timers are left, want %d", left, n)
	}
}

// cpuTime returns the CPU time that a process has used.
func (w *environment) cpuTime(pid int) time.Duration {
	w.t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	w.must(err)
	_, rest, _ := strings.Cut(string(text), ") ")
	fields := strings.Fields(rest) // from the third field on
	var ticks int64
	for _, i := range []int{11, 12} { // utime and stime
		n, err := strconv.ParseInt(fields[i], 10, 64)
		w.must(err)
		ticks += n
	}
	const perSecond = 100 // USER_HZ
	return time.Duration(ticks) * time.Second / perSecond
}
