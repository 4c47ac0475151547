package bench

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"flunq.io/flunq/engine/store/wire"
)

// trips counts the round trips of a client. A pipeline is one.
type trips struct{ n atomic.Int64 }

// DialHook returns next unchanged.
func (*trips) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook counts each command.
func (t *trips) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		t.n.Add(1)
		return next(ctx, cmd)
	}
}

// ProcessPipelineHook counts each pipeline.
func (t *trips) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		t.n.Add(1)
		return next(ctx, cmds)
	}
}

// counters is a reading of the counters of Redis and of this process.
type counters struct {
	known      bool // Redis reports them
	cpu        time.Duration
	commands   int64
	reads      int64
	trips      int64
	memory     int64
	calls      map[string]Command // totals
	heap       uint64             // bytes allocated by this process so far
	serviceCPU time.Duration      // CPU time of the processes of the services
}

// read reads the counters; on a cluster, the sum over all masters. It is not an error if Redis does
// not report them.
func (s *scenarioRun) read(ctx context.Context, c *services) counters {
	var r counters
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	r.heap = memory.TotalAlloc
	if c != nil {
		r.trips, r.serviceCPU = c.trips.n.Load(), c.worked()
	}
	r.calls = map[string]Command{}
	_ = wire.EachMaster(ctx, s.rdb, func(ctx context.Context, master wire.Redis, _ string) error {
		info, err := master.Info(ctx, "everything").Result()
		r.add(info)
		return err
	})
	return r
}

// add adds the counters of one Redis.
func (r *counters) add(info string) {
	fields := map[string]string{}
	for line := range strings.Lines(info) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if command, ok := strings.CutPrefix(name, "cmdstat_"); ok {
			var calls, used float64
			_, _ = fmt.Sscanf(value, "calls=%g,usec=%g", &calls, &used) // 0 if missing
			before := r.calls[command]
			r.calls[command] = Command{command, calls + before.Calls, used + before.CPU}
			continue
		}
		fields[name] = value
	}
	seconds := func(name string) time.Duration {
		n, _ := strconv.ParseFloat(fields[name], 64) // 0 if missing
		return time.Duration(n * float64(time.Second))
	}
	number := func(name string) int64 {
		n, _ := strconv.ParseInt(fields[name], 10, 64)
		return n
	}
	_, known := fields["used_cpu_user"]
	r.known = r.known || known
	r.cpu += seconds("used_cpu_user") + seconds("used_cpu_sys")
	r.commands, r.reads = r.commands+number("total_commands_processed"), r.reads+number("total_reads_processed")
	r.memory += number("used_memory")
}

// tripsOf returns the round trips of the services. For services in other processes these
// are the reads that Redis has counted.
func (r counters) tripsOf(c *services) int64 {
	if c != nil && c.within() {
		return r.trips
	}
	return r.reads
}

// maxCommands is the maximum number of commands listed in a cost.
const maxCommands = 8

// cost returns the difference of two readings, divided by n.
func cost(of string, n int, before, after counters, c *services) *Cost {
	if n == 0 || !after.known {
		return nil
	}
	each := 1 / float64(n)
	out := &Cost{
		Of:         of,
		RedisCPU:   float64((after.cpu - before.cpu).Nanoseconds()) / 1e3 * each,
		CPU:        float64((after.serviceCPU - before.serviceCPU).Nanoseconds()) / 1e3 * each,
		Commands:   float64(after.commands-before.commands) * each,
		RoundTrips: float64(after.tripsOf(c)-before.tripsOf(c)) * each,
	}
	if c != nil && c.within() {
		out.Allocated = float64(after.heap-before.heap) * each
	}
	for name, now := range after.calls {
		then := before.calls[name]
		if calls := now.Calls - then.Calls; calls > 0 {
			out.Top = append(out.Top, Command{name, calls * each, (now.CPU - then.CPU) * each})
		}
	}
	slices.SortFunc(out.Top, func(a, b Command) int { return cmp.Or(cmp.Compare(b.CPU, a.CPU), strings.Compare(a.Name, b.Name)) })
	out.Top = out.Top[:min(len(out.Top), maxCommands)]
	return out
}

// worked returns the CPU time of the processes of the services, 0 if the system does not report it.
func (s *services) worked() (sum time.Duration) {
	pids := s.pids
	if s.within() {
		pids = []int{os.Getpid()}
	}
	for _, pid := range pids {
		text, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		_, rest, _ := strings.Cut(string(text), ") ")
		const userTime, systemTime, perSecond = 11, 12, 100 // fields after the name, in ticks of USER_HZ
		if fields := strings.Fields(rest); len(fields) > systemTime {
			user, _ := strconv.Atoi(fields[userTime])
			system, _ := strconv.Atoi(fields[systemTime])
			sum += time.Duration(user+system) * time.Second / perSecond
		}
	}
	return sum
}
