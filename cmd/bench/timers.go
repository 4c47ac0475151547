package bench

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

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
		measuring: "timers registered", of: "timer", first: t.opts.size(5000, 300), limit: 500_000, start: t.starter(servicesRequest{Timers: true}),
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
		measuring: "timers fired", of: "timer", first: t.opts.size(5000, 300), limit: 300_000, start: t.starter(servicesRequest{Timers: true}),
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
			err = t.late(ctx, rate)
		}
	}
	if err == nil {
		err = t.loaded(ctx)
	}
	return err
}

// clockSlack is the assumed maximum difference between the clocks of two machines.
const clockSlack = time.Minute

// late measures how late timers fire at a rate, and how late a bare loop fires them.
func (t timers) late(ctx context.Context, rate int) error {
	name, p := fmt.Sprintf("lateness at %d/s", rate), seriesOf(rate, t.opts.Duration)
	bare, err := t.fireSeries(ctx, "the limit: "+name, p, 0, t.rawKey("timers"), func(ctx context.Context, p timerSeries) (*services, error) {
		return background(ctx, func(ctx context.Context) error { return t.limits().rawClock(ctx, p) }), nil
	})
	if err != nil {
		return err
	}
	got, err := t.fireSeries(ctx, name, p, 0, t.timersKey(), t.start)
	if err != nil {
		return err
	}
	t.add(got.result(name).besideTimes(bare.result(""), "a loop of ZRANGE, XADD, ZREM"))
	return nil
}

// start starts the timer services.
func (t timers) start(ctx context.Context, _ timerSeries) (*services, error) {
	return t.startServices(ctx, servicesRequest{Timers: true})
}

// loaded measures lateness while many timers of another tenant are due at the same time,
// and without them.
func (t timers) loaded(ctx context.Context) error {
	rate, load := t.opts.size(1000, 200), t.opts.size(10_000, 500)
	name := fmt.Sprintf("lateness at %d/s under load of another tenant", rate)
	var both [2]Result
	for i, n := range []int{0, load} {
		got, err := t.fireSeries(ctx, name, seriesOf(rate, t.opts.Duration/2), n, t.timersKey(), t.start)
		if err != nil {
			return err
		}
		both[i] = got.result(name)
	}
	t.add(both[1].besideTimes(both[0], fmt.Sprintf("without %d timers of another tenant", load)))
	return nil
}

// fireSeries measures how late timers in a set fire, while other timers of another tenant are due in the
// middle.
func (t timers) fireSeries(ctx context.Context, name string, p timerSeries, others int, key string, start func(context.Context, timerSeries) (*services, error)) (durations, error) {
	other := *t.scenarioRun
	other.tenant += loadSuffix
	got, _, err := t.lateness(ctx, lateness{
		name: name, unit: "timer", timers: p, extra: others, start: start, stream: t.streamKey(), number: timerNumber,
		fill: func(ctx context.Context, p timerSeries) error {
			if err := t.set(ctx, key, p.n, p.due); err != nil {
				return err
			}
			return other.set(ctx, key, others, func(int) time.Time { return p.due(p.n / 2) })
		},
	})
	return got, err
}

// timerNumber returns the number of the timer whose event an entry is.
func timerNumber(entry redis.XMessage) (int, bool) {
	if entry.Values["type"] != string(event.TimerFired) {
		return 0, false
	}
	id, _ := entry.Values["executionid"].(string)
	i, err := strconv.Atoi(strings.TrimPrefix(id, "x"))
	return i, err == nil
}
