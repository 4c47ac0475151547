package bench

import (
	"context"
	"fmt"
	"time"

	"flunq.io/flunq/engine/event"
)

// batch is the number of commands in a pipeline of the limits, as in the services.
const batch = 100

// timers measures how fast timers are registered and fired, and how late they are.
type timers struct{ *scenarioRun }

// register measures timers from their events to the set. One limit is the last step alone, the
// other is all steps in sequence.
func (t timers) register(ctx context.Context) error {
	due := time.Now().Add(24 * time.Hour)
	n := t.opts.size(20_000, 300)
	bare, err := t.limits().measure(ctx, "ZADD", n, limits.rawSet)
	if err != nil {
		return err
	}
	path, err := t.limits().measure(ctx, "XREADGROUP, ZADD, XACK", n, limits.rawRegister)
	if err != nil {
		return err
	}
	got, err := t.drain(ctx, drain{
		measuring: "timers registered", of: "timer", first: t.opts.size(5000, 300), most: 500_000, services: servicesRequest{Timers: true},
		fill: func(ctx context.Context, n int) error {
			return t.publish(ctx, n, func(i int) event.Event { return t.scheduled(i, due.Add(time.Duration(i)*time.Millisecond)) })
		},
		count: func(ctx context.Context, _ int) (int, error) { return t.pending(ctx) },
	})
	if got.n == 0 {
		return err
	}
	r := Result{Name: "registered", Unit: "timers/s", Rate: got.rate(), Count: got.n, Cost: got.cost}
	t.add(r.beside(bare, fmt.Sprintf("ZADD of the same members, %d in a pipeline", batch)))
	r.Name, r.Cost = "registered (whole path)", nil
	t.add(r.beside(path, "XREADGROUP, ZADD, XACK of the same"))
	return err
}

// fire measures timers from the set to their events.
func (t timers) fire(ctx context.Context) error {
	n := t.opts.size(20_000, 300)
	bare, err := t.limits().measure(ctx, "the fire script", n, limits.rawFire)
	if err != nil {
		return err
	}
	now := time.Now()
	got, err := t.drain(ctx, drain{
		measuring: "timers fired", of: "timer", first: t.opts.size(5000, 300), most: 300_000, services: servicesRequest{Timers: true},
		fill: func(ctx context.Context, n int) error {
			return t.set(ctx, t.timersKey(), n, func(i int) time.Time { return now.Add(time.Duration(i-n)*time.Microsecond - clockSlack) })
		},
		// A timer that has left the set has fired, since one script does both.
		count: func(ctx context.Context, n int) (int, error) {
			left, err := t.pending(ctx)
			return n - left, err
		},
	})
	if got.n == 0 {
		return err
	}
	t.add(Result{Name: "overdue, fired", Unit: "timers/s", Rate: got.rate(), Count: got.n, Cost: got.cost}.beside(bare, "a script of ZSCORE, XADD, ZREM"))
	for _, rate := range []int{t.opts.size(1000, 200), t.opts.size(10_000, 1000)} {
		if err == nil {
			err = t.lateness(ctx, rate)
		}
	}
	if err == nil {
		err = t.loaded(ctx)
	}
	return err
}

// clockSlack is the assumed maximum difference between the clocks of two machines.
const clockSlack = time.Minute
