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
type timers struct{ *stage }

// register measures timers from their events to the set. One limit is the last step, the
// other one all steps in sequence.
func (s timers) register(ctx context.Context) error {
	due := time.Now().Add(24 * time.Hour)
	n := s.opts.size(20_000, 300)
	bare, err := s.limits().measure(ctx, "ZADD", n, limits.rawSet)
	if err != nil {
		return err
	}
	path, err := s.limits().measure(ctx, "XREADGROUP, ZADD, XACK", n, limits.rawRegister)
	if err != nil {
		return err
	}
	got, err := s.drain(ctx, drain{
		measuring: "timers registered", of: "timer", first: s.opts.size(5000, 300), most: 500_000, duty: duty{Timers: true},
		fill: func(ctx context.Context, n int) error {
			return s.publish(ctx, n, func(i int) event.Event { return s.scheduled(i, due.Add(time.Duration(i)*time.Millisecond)) })
		},
		count: func(ctx context.Context, _ int) (int, error) { return s.pending(ctx) },
	})
	if got.n == 0 {
		return err
	}
	r := Result{Name: "registered", Unit: "timers/s", Rate: got.rate(), Count: got.n, Cost: got.cost}
	s.add(r.beside(bare, fmt.Sprintf("ZADD of the same members, %d in a pipeline", batch)))
	r.Name, r.Cost = "registered (whole path)", nil
	s.add(r.beside(path, "XREADGROUP, ZADD, XACK of the same"))
	return err
}

// fire measures timers from the set to their events.
func (s timers) fire(ctx context.Context) error {
	n := s.opts.size(20_000, 300)
	bare, err := s.limits().measure(ctx, "the fire script", n, limits.rawFire)
	if err != nil {
		return err
	}
	now := time.Now()
	got, err := s.drain(ctx, drain{
		measuring: "timers fired", of: "timer", first: s.opts.size(5000, 300), most: 300_000, duty: duty{Timers: true},
		fill: func(ctx context.Context, n int) error {
			return s.set(ctx, timersKey, n, func(i int) time.Time { return now.Add(time.Duration(i-n)*time.Microsecond - clockSlack) })
		},
		// A timer that has left the set has fired, since one script does both.
		count: func(ctx context.Context, n int) (int, error) {
			left, err := s.pending(ctx)
			return n - left, err
		},
	})
	if got.n == 0 {
		return err
	}
	s.add(Result{Name: "overdue, fired", Unit: "timers/s", Rate: got.rate(), Count: got.n, Cost: got.cost}.beside(bare, "a script of ZSCORE, XADD, ZREM"))
	for _, rate := range []int{s.opts.size(1000, 200), s.opts.size(10_000, 1000)} {
		if err == nil {
			err = s.lateness(ctx, rate)
		}
	}
	if err == nil {
		err = s.loaded(ctx)
	}
	return err
}

// clockSlack is the assumed maximum difference between the clocks of two machines.
const clockSlack = time.Minute
