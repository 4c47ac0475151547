package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// lateness measures the time from due times until the events arrive at a reader of a stream.
type lateness struct {
	name   string // of the measurement
	unit   string // of the cost
	timers timerSeries
	extra  int // additional timers that fill sets

	fill   func(context.Context, timerSeries) error
	start  func(context.Context, timerSeries) (*services, error) // starts what fires the timers
	stream string
	number func(redis.XMessage) (i int, is bool) // returns the timer of an entry
}

// timerSeries is a series of n timers that come due at a steady rate.
type timerSeries struct {
	n      int
	apart  time.Duration
	grain  time.Duration // due times are its multiples, if it is not 0
	first  time.Time     // by Redis' clock
	offset time.Duration // Redis' clock minus that of this machine
}

// seriesOf returns the timers of a measurement of the given length. The measurement sets its first and offset.
func seriesOf(rate int, length time.Duration) timerSeries {
	return timerSeries{n: max(int(float64(rate)*length.Seconds()), 1), apart: time.Second / time.Duration(rate)}
}

func (p timerSeries) due(i int) time.Time {
	return p.first.Add(time.Duration(i) * p.apart).Truncate(p.grain)
}

const (
	// leadTime is how long before the first due time the timers are set. It is extended up to
	// maxLeadTime if setting them takes longer.
	leadTime    = 500 * time.Millisecond
	maxLeadTime = 30 * time.Second

	// setTime is an upper bound of the time to set one timer.
	setTime = 40 * time.Microsecond
)

// lateness sets the timers, starts what fires them, and returns how late their events arrive and
// what one costs.
func (s *scenarioRun) lateness(ctx context.Context, m lateness) (got durations, of *Cost, err error) {
	s.report(m.name, 0)
	p := m.timers
	if p.offset, err = s.clockOffset(ctx); err != nil {
		return nil, nil, err
	}
	for wait := leadTime; p.first.Before(time.Now().Add(p.offset)); wait *= 2 {
		if wait > maxLeadTime {
			return nil, nil, fmt.Errorf("%s: setting %d timers took too long", m.name, p.n+m.extra)
		}
		if err := s.fresh(ctx); err != nil {
			return nil, nil, err
		}
		p.first = time.Now().Add(p.offset + wait + time.Duration(p.n+m.extra)*setTime).Truncate(time.Microsecond)
		if err := m.fill(ctx, p); err != nil {
			return nil, nil, err
		}
	}
	c, err := m.start(ctx, p)
	if err != nil {
		return nil, nil, err
	}
	before := s.read(ctx, c)
	c.begin()
	defer func() { err = errors.Join(err, c.end()) }()
	last, idle := "0", time.Now().Add(time.Duration(p.n)*p.apart+stallTimeout)
	for len(got) < p.n {
		read, err := s.rdb.XRead(ctx, &redis.XReadArgs{Streams: []string{m.stream, last}, Count: 1000, Block: time.Second}).Result()
		at := time.Now().Add(p.offset)
		if errors.Is(err, redis.Nil) && at.Before(idle) {
			continue
		}
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %d of %d: %w", m.name, len(got), p.n, err)
		}
		for _, entry := range read[0].Messages {
			last = entry.ID
			if i, ok := m.number(entry); ok {
				got = append(got, at.Sub(p.due(i)))
			}
		}
		s.report(m.name, float64(len(got))/float64(p.n))
	}
	return got, cost(m.unit, len(got), before, s.read(ctx, c), c), nil
}

// clockOffset returns Redis' clock minus that of this machine, by the fastest of several
// replies.
func (s *scenarioRun) clockOffset(ctx context.Context) (offset time.Duration, err error) {
	if s.opts.Own {
		return 0, nil // the same machine has the same clock
	}
	best := time.Hour
	for range 20 {
		asked := time.Now()
		redisTime, err := s.rdb.Time(ctx).Result()
		if err != nil {
			return 0, fmt.Errorf("ask for the time: %w", err)
		}
		if took := time.Since(asked); took < best {
			best, offset = took, redisTime.Sub(asked.Add(took/2))
		}
	}
	return offset, nil
}
