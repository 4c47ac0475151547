package timer_test

import (
	"context"
	"errors"
	"fmt"
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
	"flunq.io/flunq/engine/timer"
)

// reads counts the reads of a client, and how many of them block at the same time.
type reads struct{ begun, waiting, peak atomic.Int64 }

func (r *reads) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (r *reads) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (r *reads) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		for _, cmd := range cmds {
			if cmd.Name() == "xreadgroup" {
				r.begun.Add(1)
				r.peak.Store(max(r.peak.Load(), r.waiting.Add(1)))
				defer r.waiting.Add(-1)
			}
		}
		return next(ctx, cmds)
	}
}

// services runs the services of one process on a real Redis until the test ends.
func services(t *testing.T, services int, block time.Duration) (w *environment, r *reads) {
	t.Helper()
	rdb, err := store.Dial(t.Context(), redistest.Addr(t))
	must(t, err)
	w, r = &environment{st: store.New(rdb, store.Options{}), rdb: rdb}, &reads{}
	rdb.AddHook(r)
	must(t, stream.New(w.st).Groups(t.Context(), tenant))
	ctx, stop := context.WithCancel(t.Context())
	watch := timer.NewWatch()
	var wg sync.WaitGroup
	for i := range services {
		opts := timer.Defaults()
		opts.Consumer, opts.Tenants = fmt.Sprint("t", i), delivery.NewTenantSet(tenant)
		opts.Block, opts.MaxSleep, opts.Watch = block, max(block, opts.MaxSleep), watch
		s, err := timer.New(w.st, opts)
		must(t, err)
		wg.Go(func() {
			for ctx.Err() == nil {
				if _, err := s.Step(t.Context()); err != nil && ctx.Err() == nil && !errors.Is(err, context.Canceled) {
					t.Error(err)
					return
				}
			}
		})
	}
	t.Cleanup(func() {
		stop()
		watch.Close()
		_ = rdb.Close() // blocking reads end
		wg.Wait()
	})
	return w, r
}

// eventually waits for a condition.
func eventually(t *testing.T, what string, so func() bool) {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); !so(); {
		if time.Now().After(end) {
			t.Fatalf("timed out waiting until %s", what)
		}
		time.Sleep(time.Millisecond)
	}
}

// While there is nothing to do, one service of a process blocks for all.
func TestIdleServicesRest(t *testing.T) {
	t.Parallel()
	const block = 100 * time.Millisecond
	w, r := services(t, 4, block)
	w.send(t, event.TimerScheduled, at(1000*24*time.Hour))
	eventually(t, "the timer is set", func() bool { return w.rdb.ZCard(t.Context(), timersKey).Val() == 1 })
	eventually(t, "only one waits", func() bool {
		before := r.begun.Load()
		r.peak.Store(0)
		time.Sleep(3 * block)
		return r.begun.Load()-before <= 4 && r.peak.Load() == 1
	})
	w.send(t, event.TimerScheduled, at(999*24*time.Hour))
	eventually(t, "the second timer is set", func() bool { return w.rdb.ZCard(t.Context(), timersKey).Val() == 2 })
}

// A delayed message is delivered on time, even if the timer services would sleep longer.
func TestServicesWakeForDelayedMessages(t *testing.T) {
	t.Parallel()
	const sleep = time.Minute
	w, r := services(t, 2, sleep)
	must(t, stream.New(w.st).Groups(t.Context(), tenant))
	eventually(t, "they wait", func() bool { return r.waiting.Load() > 0 })
	must(t, w.st.Publish(t.Context(), event.Event{ID: "e", Source: "/test", Type: "com.x", Tenant: tenant}))
	worker := stream.Reader{Group: store.WorkerGroup, Consumer: "w1", Tenants: []string{tenant}}
	got, err := stream.New(w.st).Read(t.Context(), worker, 1, 0)
	msgs, began := got.Messages, got.Now
	must(t, err)
	const delay = 150 * time.Millisecond
	if mine, err := stream.New(w.st).Retry(t.Context(), msgs[0], delay); !mine || err != nil {
		t.Fatal(mine, err)
	}
	for {
		got, err := stream.New(w.st).Read(t.Context(), worker, 10, time.Second)
		msgs, now := got.Messages, got.Now
		must(t, err)
		for _, m := range msgs {
			if m.Event.ID != "e" {
				continue
			}
			if late := now.Sub(began) - delay; late < 0 || late > sleep/2 {
				t.Errorf("it came %v late", late)
			}
			return
		}
		if now.Sub(began) > 2*sleep {
			t.Fatal("it did not come")
		}
	}
}
