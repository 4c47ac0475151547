package bench

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// idle measures the cost of idle services.
type idle struct{ *scenarioRun }

// measure measures the cost of waiting for many timers, none of which is due.
func (i idle) measure(ctx context.Context) error {
	if err := i.fresh(ctx); err != nil {
		return err
	}
	due := time.Now().Add(24 * time.Hour)
	n, measuring := i.opts.Timers, fmt.Sprintf("%d pending timers", i.opts.Timers)
	const part = 20_000
	for from := 0; from < n; from += part {
		i.report(measuring, float64(from)/float64(n))
		at := func(n int) time.Time { return due.Add(time.Duration(from+n) * 10 * time.Millisecond) }
		if err := i.set(ctx, i.timersKey(), min(part, n-from), at); err != nil {
			return err
		}
	}
	none, err := i.waiting(ctx, "the limit: no services", noServices)
	if err != nil {
		return err
	}
	timers, err := i.waiting(ctx, "timer services", i.starter(servicesRequest{Timers: true, Idle: true}))
	if err != nil {
		return err
	}
	all, err := i.waiting(ctx, "all services", i.starter(servicesRequest{Workers: true, Executors: true, Timers: true, Idle: true}))
	if err != nil {
		return err
	}
	services := max(i.opts.Engine.Timers*max(i.opts.Processes, 1), 1)
	i.add(Result{lessIsBetter: true, Name: "a timer service", Unit: "commands/s", Rate: timers.commands / float64(services), Count: n}.
		beside(1, "one check of the timers a second"))
	i.add(Result{lessIsBetter: true, Name: "a timer service", Unit: "round trips/s", Rate: timers.trips / float64(services), Count: n}.
		beside(1, "one check of the timers a second"))
	i.add(Result{lessIsBetter: true, Name: "all services", Unit: "commands/s", Rate: all.commands, Count: n})
	i.add(Result{lessIsBetter: true, Name: "Redis", Unit: "% of a core", Rate: all.redis, Count: n}.beside(none.redis, "without services"))
	if all.services > 0 {
		i.add(Result{lessIsBetter: true, Name: "the services", Unit: "% of a core", Rate: all.services, Count: n}.beside(none.services, "this process without services"))
	}
	return nil
}

// idleCost is the cost of waiting, per second.
type idleCost struct {
	commands, trips float64
	redis, services float64 // percent of a core
}

func noServices(context.Context) (*services, error) {
	return &services{begin: func() {}, end: func() error { return nil }}, nil
}

// waiting measures services while nothing happens.
func (i idle) waiting(ctx context.Context, measuring string, start func(context.Context) (*services, error)) (w idleCost, err error) {
	i.report(measuring, 0)
	c, err := start(ctx)
	if err != nil {
		return w, err
	}
	defer func() { err = errors.Join(err, c.end()) }()
	c.begin()
	settle, span := time.Second, i.opts.Duration
	if i.opts.Quick {
		settle = 0
	}
	if err := pause(ctx, settle); err != nil { // for one-time work
		return w, err
	}
	before, began := i.read(ctx, c), time.Now()
	if err := pause(ctx, span); err != nil {
		return w, err
	}
	after, took := i.read(ctx, c), time.Since(began)
	share := func(d time.Duration) float64 { return 100 * d.Seconds() / took.Seconds() }
	return idleCost{
		commands: max(float64(after.commands-before.commands-1), 0) / took.Seconds(), // without the command that reads the counters
		trips:    max(float64(after.tripsOf(c)-before.tripsOf(c)), 0) / took.Seconds(),
		redis:    share(after.cpu - before.cpu), services: share(after.serviceCPU - before.serviceCPU),
	}, nil
}
