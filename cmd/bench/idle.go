package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"
)

// idle measures the cost of idle services.
type idle struct{ *stage }

// measure measures the cost of waiting for many timers, none of which is due.
func (s idle) measure(ctx context.Context) error {
	if err := s.fresh(ctx); err != nil {
		return err
	}
	due := time.Now().Add(24 * time.Hour)
	n, measuring := s.opts.Timers, fmt.Sprintf("%d pending timers", s.opts.Timers)
	const part = 20_000
	for from := 0; from < n; from += part {
		s.report(measuring, float64(from)/float64(n))
		at := func(i int) time.Time { return due.Add(time.Duration(from+i) * 10 * time.Millisecond) }
		if err := s.set(ctx, timersKey, min(part, n-from), at); err != nil {
			return err
		}
	}
	none, err := s.waiting(ctx, "the limit: no services", duty{})
	if err != nil {
		return err
	}
	timers, err := s.waiting(ctx, "timer services", duty{Timers: true, Idle: true})
	if err != nil {
		return err
	}
	all, err := s.waiting(ctx, "all services", duty{Workers: true, Executors: true, Timers: true, Idle: true})
	if err != nil {
		return err
	}
	services := max(s.opts.Engine.Timers*max(s.opts.Processes, 1), 1)
	s.add(Result{lessIsBetter: true, Name: "a timer service", Unit: "commands/s", Rate: timers.commands / float64(services), Count: n}.
		beside(1, "one check of the timers a second"))
	s.add(Result{lessIsBetter: true, Name: "a timer service", Unit: "round trips/s", Rate: timers.trips / float64(services), Count: n}.
		beside(1, "one check of the timers a second"))
	s.add(Result{lessIsBetter: true, Name: "all services", Unit: "commands/s", Rate: all.commands, Count: n})
	s.add(Result{lessIsBetter: true, Name: "Redis", Unit: "% of a core", Rate: all.redis, Count: n}.beside(none.redis, "without services"))
	if all.services > 0 {
		s.add(Result{lessIsBetter: true, Name: "the services", Unit: "% of a core", Rate: all.services, Count: n}.beside(none.services, "this process without services"))
	}
	return nil
}

// waited is the cost of waiting, per second.
type waited struct {
	commands, trips float64
	redis, services float64 // percent of a core
}

// waiting measures services while nothing happens.
func (s idle) waiting(ctx context.Context, measuring string, d duty) (w waited, err error) {
	s.report(measuring, 0)
	c := &services{begin: func() {}, end: func() error { return nil }}
	if d.Timers {
		if c, err = s.startServices(ctx, d); err != nil {
			return w, err
		}
	}
	defer func() { err = errors.Join(err, c.end()) }()
	c.begin()
	settle, span := time.Second, s.opts.Duration
	if s.opts.Quick {
		settle = 0
	}
	if err := pause(ctx, settle); err != nil { // for one-time work
		return w, err
	}
	before, began := s.read(ctx, c), time.Now()
	ours := c.worked()
	if err := pause(ctx, span); err != nil {
		return w, err
	}
	used, took := c.worked()-ours, time.Since(began)
	after := s.read(ctx, c)
	share := func(d time.Duration) float64 { return 100 * d.Seconds() / took.Seconds() }
	return waited{
		commands: max(float64(after.commands-before.commands-1), 0) / took.Seconds(), // without the command that reads the counters
		trips:    max(float64(after.tripsOf(c)-before.tripsOf(c)), 0) / took.Seconds(),
		redis:    share(after.cpu - before.cpu), services: share(used),
	}, nil
}

// worked returns the CPU time of the processes of the services.
func (c *services) worked() (sum time.Duration) {
	pids := c.pids
	if c.within() {
		pids = []int{os.Getpid()}
	}
	for _, pid := range pids {
		used, _ := worked(pid)
		sum += used
	}
	return sum
}
