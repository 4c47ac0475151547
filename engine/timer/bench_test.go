package timer_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"flunq.io/flunq/engine/delivery"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/redistest"
	"flunq.io/flunq/engine/store/stream"
	"flunq.io/flunq/engine/store/wire"
	"flunq.io/flunq/engine/timer"
)

// many is how many timers a benchmark uses.
const many = 20_000

// bench is a real Redis and the timer services of one process.
type bench struct {
	rdb      wire.Redis
	services []*timer.Service
}

func newBench(b testing.TB, services int) *bench {
	b.Helper()
	addr := redistest.Addr(b)
	rdb, err := store.Dial(b.Context(), addr)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = rdb.Close() })
	st := store.New(rdb, store.Options{})
	if err := stream.New(st).Groups(b.Context(), tenant, store.TimerGroup); err != nil {
		b.Fatal(err)
	}
	opts := timer.Defaults()
	opts.Tenants, opts.Block, opts.Watch = delivery.NewTenantSet(tenant), 10*time.Millisecond, timer.NewWatch()
	w := &bench{rdb: rdb}
	for i := range services {
		opts.Consumer = fmt.Sprint("t", i)
		svc, err := timer.New(st, opts)
		if err != nil {
			b.Fatal(err)
		}
		w.services = append(w.services, svc)
	}
	return w
}

func timerRequest(i int, at time.Time) event.Timer {
	return event.Timer{
		Tenant: tenant, Workflow: "bench.wait", Execution: fmt.Sprintf("x%07d", i), TaskID: "/do/0/pause", TaskName: "pause",
		FireAt: at.Add(time.Duration(i) * time.Microsecond).UTC(), DurationMS: 3_600_000, Kind: event.WaitTimer,
	}
}

// fill sends commands in pipelines.
func (w *bench) fill(b *testing.B, each func(redis.Pipeliner, int)) {
	b.Helper()
	for from := 0; from < many; from += 1000 {
		pipe := w.rdb.Pipeline()
		for i := from; i < from+1000; i++ {
			each(pipe, i)
		}
		if _, err := pipe.Exec(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}

// until steps the services until the set holds want timers.
func (w *bench) until(b *testing.B, want int64) {
	b.Helper()
	w.run(b, func() bool { return w.rdb.ZCard(b.Context(), timersKey).Val() == want })
}

// run steps the services until a condition holds.
func (w *bench) run(b testing.TB, is func() bool) {
	b.Helper()
	var done atomic.Bool
	var wg sync.WaitGroup
	for _, s := range w.services {
		wg.Go(func() {
			for !done.Load() {
				if _, err := s.Step(b.Context()); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	for !is() && !b.Failed() {
		time.Sleep(time.Millisecond)
	}
	done.Store(true)
	wg.Wait()
}

// cpu returns the CPU seconds that Redis has used.
func (w *bench) cpu(ctx context.Context) (sum float64) {
	for line := range strings.Lines(w.rdb.Info(ctx, "cpu").Val()) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if name == "used_cpu_user" || name == "used_cpu_sys" {
			n, _ := strconv.ParseFloat(value, 64)
			sum += n
		}
	}
	return sum
}

// measure runs fill, untimed, and work in a loop.
func (w *bench) measure(b *testing.B, fill, work func()) {
	b.Helper()
	var used float64
	for b.Loop() {
		b.StopTimer()
		if err := w.rdb.Del(b.Context(), timersKey).Err(); err != nil {
			b.Fatal(err)
		}
		w.rdb.XTrimMaxLen(b.Context(), streamKey, 0)
		fill()
		before := w.cpu(b.Context())
		b.StartTimer()
		work()
		b.StopTimer()
		used += w.cpu(b.Context()) - before
		b.StartTimer()
	}
	n := float64(b.N * many)
	b.ReportMetric(n/b.Elapsed().Seconds(), "timers/s")
	b.ReportMetric(b.Elapsed().Seconds()*1e6/n, "µs/timer")
	b.ReportMetric(used*1e6/n, "redis-µs/timer")
}

// withServices runs a benchmark with one, two and four services.
func withServices(b *testing.B, run func(*testing.B, *bench)) {
	b.Helper()
	for _, n := range []int{1, 2, 4} {
		b.Run(strconv.Itoa(n), func(b *testing.B) { run(b, newBench(b, n)) })
	}
}

// BenchmarkRegister measures how fast events become timers in the set.
func BenchmarkRegister(b *testing.B) {
	withServices(b, func(b *testing.B, w *bench) {
		b.Helper()
		due := time.Now().Add(24 * time.Hour)
		w.measure(b, func() {
			w.fill(b, func(pipe redis.Pipeliner, i int) {
				t := timerRequest(i, due)
				e := event.Event{
					ID: t.Execution + "/2", Source: "/flunq/worker", Type: event.TimerScheduled, Time: due.UTC(),
					Tenant: tenant, Workflow: t.Workflow, Execution: t.Execution, Task: t.TaskID, Data: event.Encode(t),
				}
				pipe.XAdd(b.Context(), &redis.XAddArgs{Stream: streamKey, Values: e.Fields()})
			})
		}, func() { w.until(b, many) })
	})
}

// BenchmarkFire measures how fast overdue timers of the set become events.
func BenchmarkFire(b *testing.B) {
	withServices(b, func(b *testing.B, w *bench) {
		b.Helper()
		w.measure(b, func() {
			due := time.Now().Add(-time.Minute)
			w.fill(b, func(pipe redis.Pipeliner, i int) {
				t := timerRequest(i, due)
				pipe.ZAdd(b.Context(), timersKey, redis.Z{Score: float64(t.FireAt.UnixMicro()) / 1e6, Member: event.Encode(t)})
			})
		}, func() { w.until(b, 0) })
	})
}
