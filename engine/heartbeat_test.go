package engine_test

import (
	"context"
	"log/slog"
	"net/http"
	"testing"
	"time"

	"flunq.io/flunq/engine"
	"flunq.io/flunq/engine/executor/breaker"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/processes"
	"flunq.io/flunq/engine/store/wire"
)

// A process is registered while it runs, and signs off immediately when it stops.
func TestRunRegisters(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, rdb wire.Redis) {
		opts := engine.Defaults()
		opts.Process, opts.Command, opts.Transport, opts.Timers = "p", "serve", http.DefaultTransport, 1
		breaking := breaker.Defaults()
		breaking.Failures = 1
		breakers, err := breaker.New(breaking)
		if err != nil {
			t.Fatal(err)
		}
		opts.Breakers = breakers
		opts.Block(10 * time.Millisecond)
		e, err := engine.New(rdb, opts)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- e.Run(ctx, slog.New(slog.DiscardHandler)) }()
		read := func() (all []processes.Process, now time.Time) {
			all, now, err := processes.In(e.Store).All(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return all, now
		}
		all, now := read()
		for until := time.Now().Add(patience); len(all) == 0 && time.Now().Before(until); all, now = read() {
			time.Sleep(time.Millisecond)
		}
		if len(all) != 1 || !all[0].Alive(now) || !all[0].Runs("timer", tenant) || all[0].Runs("timer", "another") || all[0].PID == 0 {
			t.Fatalf("the registered processes are %+v, want one that runs a timer service for tenant %s", all, tenant)
		}
		if s := all[0].Service("timer"); s == nil || s.Group != store.TimerGroup || len(s.Consumers) != 1 || s.Consumers[0] != "timer-p-0" {
			t.Errorf("timer service: %+v", s)
		}
		// A circuit breaker that opens or closes is registered before the next heartbeat.
		fail, err := breakers.Begin(breaker.Target{Host: "pay.example"}, now)
		if err != nil {
			t.Fatal(err)
		}
		fail.Fail(breaker.Failure{Reason: "503"})
		circuits := func(want int) {
			t.Helper()
			for until := time.Now().Add(patience); len(all[0].Circuits) != want; all, _ = read() {
				if time.Now().After(until) {
					t.Fatalf("circuits: %+v, want %d", all[0].Circuits, want)
				}
				time.Sleep(10 * time.Millisecond)
			}
		}
		circuits(1)
		if c := all[0].Circuits[0]; c.Host != "pay.example" || c.Failures != 1 || !c.Until.After(now) {
			t.Errorf("circuit: %+v", c)
		}
		restarted, err := breakers.Begin(breaker.Target{Host: "pay.example"}, all[0].Circuits[0].Until.Add(time.Second))
		if err != nil {
			t.Fatal(err)
		}
		restarted.Succeed()
		circuits(0)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if all, now = read(); len(all) != 1 || all[0].Alive(now) || all[0].Stopped.IsZero() {
			t.Errorf("after the end the processes are %+v, want one that has stopped", all)
		}
	})
}
