package bench

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"flunq.io/flunq/engine/event"
)

// timerSeries is a series of timers that come due at a steady rate.
type timerSeries struct {
	first  time.Time
	apart  time.Duration
	grain  time.Duration // due times are its multiples, if it is not 0
	n      int
	offset time.Duration // Redis' clock minus that of this machine
	load   int           // timers of another tenant that are due at the same time, in the middle
}

func (p timerSeries) due(i int) time.Time {
	return p.first.Add(time.Duration(i) * p.apart).Truncate(p.grain)
}

// leadTime is how long before the first due time the timers are set. It is extended up to
// maxLeadTime if setting them takes longer.
const (
	leadTime    = 500 * time.Millisecond
	maxLeadTime = 30 * time.Second
)

// lateness measures the time from due times until the events arrive at a reader, and that
// of a bare loop.
func (t timers) lateness(ctx context.Context, rate int) error {
	p := timerSeries{apart: time.Second / time.Duration(rate), n: max(int(float64(rate)*t.opts.Duration.Seconds()), 1)}
	name := fmt.Sprintf("lateness at %d/s", rate)
	bare, err := t.observe(ctx, p, "the limit: "+name, t.rawKey("timers"), t.limits().rawClock)
	if err != nil {
		return err
	}
	got, err := t.observe(ctx, p, name, t.timersKey(), t.services)
	if err != nil {
		return err
	}
	t.add(got.result(name).besideTimes(bare.result(""), "a loop of ZRANGE, XADD, ZREM"))
	return nil
}

// services runs the timer services.
func (t timers) services(ctx context.Context, _ timerSeries) error {
	c, err := t.startServices(ctx, servicesRequest{Timers: true})
	if err != nil {
		return err
	}
	c.begin()
	<-ctx.Done()
	return c.end()
}

// loaded measures lateness while many timers of another tenant are due at the same time,
// and without them.
func (t timers) loaded(ctx context.Context) error {
	rate, load := t.opts.size(1000, 200), t.opts.size(10_000, 500)
	var both [2]Result
	for i, n := range []int{0, load} {
		p := timerSeries{apart: time.Second / time.Duration(rate), n: max(int(float64(rate)*t.opts.Duration.Seconds()/2), 1), load: n}
		name := fmt.Sprintf("lateness at %d/s under load of another tenant", rate)
		got, err := t.observe(ctx, p, name, t.timersKey(), t.services)
		if err != nil {
			return err
		}
		both[i] = got.result(name)
	}
	t.add(both[1].besideTimes(both[0], fmt.Sprintf("without %d timers of another tenant", load)))
	return nil
}

// observe sets the timers, starts fire, and measures when the events arrive.
func (t timers) observe(ctx context.Context, p timerSeries, measuring, key string, fire func(context.Context, timerSeries) error) (got durations, err error) {
	t.report(measuring, 0)
	if p.offset, err = t.clockOffset(ctx); err != nil {
		return nil, err
	}
	late := time.Duration(1)
	for wait := leadTime; late > 0; wait *= 2 {
		if wait > maxLeadTime {
			return nil, fmt.Errorf("setting %d timers took %v too long", p.n, late)
		}
		if late, err = t.schedule(ctx, &p, key, wait); err != nil {
			return nil, err
		}
	}
	firing, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- fire(firing, p) }()
	got, err = t.arrivals(ctx, p, measuring, t.streamKey(), fires)
	stop()
	return got, errors.Join(err, <-done)
}

// schedule sets the timers, the first of which is due after wait. It returns how late it
// was done.
func (t timers) schedule(ctx context.Context, p *timerSeries, key string, wait time.Duration) (late time.Duration, err error) {
	if err := t.fresh(ctx); err != nil {
		return 0, err
	}
	p.first = time.Now().Add(p.offset + wait + time.Duration(p.n+p.load)*setTime).Truncate(time.Microsecond)
	if err := t.set(ctx, key, p.n, p.due); err != nil {
		return 0, err
	}
	others := *t.scenarioRun
	others.tenant = t.tenant + loadSuffix
	if err := others.set(ctx, key, p.load, func(int) time.Time { return p.due(p.n / 2) }); err != nil {
		return 0, err
	}
	return time.Since(p.first.Add(-p.offset)), nil
}

// loadSuffix ends the name of the tenant that causes load.
const loadSuffix = "-load"

// setTime is an upper bound of the time to set one timer.
const setTime = 40 * time.Microsecond

// arrivals reads a stream until all timers have fired; which returns the timer of an entry.
func (s *scenarioRun) arrivals(ctx context.Context, p timerSeries, measuring, key string, which func(redis.XMessage) (int, bool)) (durations, error) {
	out := make(durations, 0, p.n)
	last, idle := "0", time.Now().Add(time.Duration(p.n)*p.apart+stallTimeout)
	for len(out) < p.n {
		read, err := s.rdb.XRead(ctx, &redis.XReadArgs{Streams: []string{key, last}, Count: 1000, Block: time.Second}).Result()
		at := time.Now().Add(p.offset)
		if errors.Is(err, redis.Nil) && at.Before(idle) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %d of %d: %w", measuring, len(out), p.n, err)
		}
		for _, entry := range read[0].Messages {
			last = entry.ID
			if i, ok := which(entry); ok {
				out = append(out, at.Sub(p.due(i)))
			}
		}
		s.report(measuring, float64(len(out))/float64(p.n))
	}
	return out, nil
}

// fires returns the timer of an entry.
func fires(entry redis.XMessage) (int, bool) {
	if entry.Values["type"] != string(event.TimerFired) {
		return 0, false
	}
	id, _ := entry.Values["executionid"].(string)
	i, err := strconv.Atoi(strings.TrimPrefix(id, "x"))
	return i, err == nil
}

// rawClock fires timers with bare commands: it waits for the next one and fires all that
// are due.
func (l limits) rawClock(ctx context.Context, p timerSeries) error {
	key := l.rawKey("timers")
	for fired := 0; fired < p.n; {
		if err := pause(ctx, time.Until(p.due(fired).Add(-p.offset))); err != nil {
			return err
		}
		now := strconv.FormatFloat(score(time.Now().Add(p.offset)), 'f', -1, 64)
		due, err := l.rdb.ZRangeByScoreWithScores(ctx, key, &redis.ZRangeBy{Min: "-inf", Max: now, Count: batch}).Result()
		if err != nil {
			return err
		}
		if err := l.rawNamed(ctx, key, due, fired); err != nil {
			return err
		}
		fired += len(due)
	}
	return nil
}

// rawNamed fires timers with events that identify them.
func (l limits) rawNamed(ctx context.Context, key string, due []redis.Z, from int) error {
	if len(due) == 0 {
		return nil
	}
	pipe := l.rdb.TxPipeline()
	for i, entry := range due {
		e := l.fired()
		e.Execution = l.timer(from+i, e.Time).Execution
		pipe.XAdd(ctx, &redis.XAddArgs{Stream: l.streamKey(), Values: e.Fields()})
		pipe.ZRem(ctx, key, entry.Member)
	}
	_, err := pipe.Exec(ctx)
	return err
}

// clockOffset returns Redis' clock minus that of this machine, by the fastest of several
// replies.
func (t timers) clockOffset(ctx context.Context) (offset time.Duration, err error) {
	if t.opts.Own {
		return 0, nil // the same machine has the same clock
	}
	best := time.Hour
	for range 20 {
		asked := time.Now()
		redisTime, err := t.rdb.Time(ctx).Result()
		if err != nil {
			return 0, fmt.Errorf("ask for the time: %w", err)
		}
		if took := time.Since(asked); took < best {
			best, offset = took, redisTime.Sub(asked.Add(took/2))
		}
	}
	return offset, nil
}
