package bench

import (
	"context"
	"fmt"
	"time"

	"flunq.io/flunq/engine/event"
)

// batch is how many commands the limits send at once, as the services do.
const batch = 100

// register is timers from their events into the set. The limits are the last step of
// that alone, and all of its steps one after the other.
func (s *stage) register(ctx context.Context) error {
	due := time.Now().Add(24 * time.Hour)
	n := s.opts.size(20_000, 300)
	bare, err := s.raw(ctx, "ZADD", n, (*stage).rawSet)
	if err != nil {
		return err
	}
	path, err := s.raw(ctx, "XREADGROUP, ZADD, XACK", n, (*stage).rawRegister)
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

// fire is timers from the set into their events.
func (s *stage) fire(ctx context.Context) error {
	n := s.opts.size(20_000, 300)
	bare, err := s.raw(ctx, "the fire script", n, (*stage).rawFire)
	if err != nil {
		return err
	}
	now := time.Now()
	got, err := s.drain(ctx, drain{
		measuring: "timers fired", of: "timer", first: s.opts.size(5000, 300), most: 300_000, duty: duty{Timers: true},
		fill: func(ctx context.Context, n int) error {
			return s.set(ctx, timersKey, n, func(i int) time.Time { return now.Add(time.Duration(i-n)*time.Microsecond - clockSlack) })
		},
		// What is not in the set any more has fired: both are one script.
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
		err = s.crowded(ctx)
	}
	return err
}

// clockSlack is how far the clocks of two machines may be apart.
const clockSlack = time.Minute
