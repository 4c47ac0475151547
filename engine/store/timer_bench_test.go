package store_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/redistest"
	"flunq.io/flunq/engine/store/stream"
	"flunq.io/flunq/engine/store/timers"
	"flunq.io/flunq/engine/store/wire"
)

// The work of Redis for each of a batch of timers: setting them as their events request,
// and firing them.
func BenchmarkTimers(b *testing.B) {
	rdb := redistest.Start(b)
	st := store.New(rdb, store.Options{})
	if err := stream.New(st).Groups(b.Context(), tenant); err != nil {
		b.Fatal(err)
	}
	var read, set, fire float64
	n := 0
	for b.Loop() {
		b.StopTimer()
		publishTimers(b, rdb, st, n)
		n += batch
		read += redisWork(b, rdb, func(ctx context.Context) error {
			requests := readTimers(ctx, b, st)
			set += redisWork(b, rdb, func(ctx context.Context) error {
				_, _, err := timers.New(st).Apply(ctx, requests...)
				return err
			})
			return nil
		})
		poll, err := timers.New(st).Poll(b.Context(), tenant, batch)
		if err != nil || len(poll.Due) != batch {
			b.Fatal(len(poll.Due), err)
		}
		fire += redisWork(b, rdb, func(ctx context.Context) error {
			_, _, err := timers.New(st).Fire(ctx, tenant, poll, batch)
			return err
		})
		if n%1000 == 0 {
			rdb.XTrimMaxLen(b.Context(), streamKey, 0)
		}
		b.StartTimer()
	}
	b.ReportMetric((read-set)*1e6/float64(n), "redis-µs/read")
	b.ReportMetric(set*1e6/float64(n), "redis-µs/set")
	b.ReportMetric(fire*1e6/float64(n), "redis-µs/fire")
}

// redisWork returns how long Redis works on something, in seconds.
func redisWork(b *testing.B, rdb wire.Redis, do func(context.Context) error) float64 {
	b.Helper()
	before := cpuOf(b.Context(), rdb)
	if err := do(b.Context()); err != nil {
		b.Fatal(err)
	}
	return cpuOf(b.Context(), rdb) - before
}

func publishTimers(b *testing.B, rdb wire.Redis, st *store.Store, from int) {
	b.Helper()
	for i := from; i < from+batch; i++ {
		x := fmt.Sprintf("01hx%010d", i)
		t := event.Timer{
			Tenant: tenant, Workflow: "bench.wait", Execution: x, TaskID: "/do/0/pause", TaskName: "pause",
			FireAt: time.Date(2026, 1, 1, 0, 0, 0, i*1000, time.UTC), DurationMS: time.Hour.Milliseconds(), Kind: event.WaitTimer,
		}
		rdb.HSet(b.Context(), store.Keys{}.Execution(tenant, x), "status", "waiting")
		e := about(i, "2", event.TimerScheduled, t.TaskID, "")
		e.Data = event.Encode(t)
		if err := st.Publish(b.Context(), e); err != nil {
			b.Fatal(err)
		}
	}
}

func readTimers(ctx context.Context, b *testing.B, st *store.Store) []timers.Request {
	b.Helper()
	var out []timers.Request
	for len(out) < batch {
		got, err := stream.New(st).Read(ctx, reader(store.TimerGroup, "t1"), batch, 0)
		msgs := got.Messages
		if err != nil {
			b.Fatal(err)
		}
		for i, m := range msgs {
			if m.Event.Type == event.TimerScheduled {
				var t event.Timer
				if err := json.Unmarshal(m.Event.Data, &t); err != nil {
					b.Fatal(err)
				}
				out = append(out, timers.Request{Message: &msgs[i], Timer: t})
			}
		}
	}
	return out
}
