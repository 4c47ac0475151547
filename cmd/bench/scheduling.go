package bench

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"flunq.io/flunq/engine/agenda"
	"flunq.io/flunq/engine/schedule"
	"flunq.io/flunq/engine/scheduler"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/wire"
)

// scheduling measures the scheduler, whose events and settings are those of its deployments.
type scheduling struct{ *scenarioRun }

// measure measures requests, firing, lateness, and the cost of pending events.
func (s scheduling) measure(ctx context.Context) error {
	if !s.opts.Own {
		s.add(Result{Name: "not measured on a shared Redis: it would fire others' events", Unit: "events/s"})
		return nil
	}
	steps := []func(context.Context) error{s.requests, s.fire, s.fireToKafka, s.late, s.bytes, s.pending}
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// schedulerProcess is a scheduler process.
type schedulerProcess struct {
	services

	ledger agenda.Ledger
	sched  *scheduler.Scheduler
	api    *scheduler.API
	fired  atomic.Int64 // events recorded as FIRED
}

// process connects a process of the scheduler. When its services begin, it fires to the sink or, if
// that is nil, to Redis streams.
func (s scheduling) process(ctx context.Context, sink scheduler.Sink) (*schedulerProcess, error) {
	rdb, err := store.Dial(ctx, s.opts.URL)
	if err != nil {
		return nil, err
	}
	p := &schedulerProcess{}
	rdb.AddHook(&p.trips)
	client, keeping := wire.NewClient(rdb), agenda.Defaults()
	keeping.Streams = sink == nil
	p.ledger = agenda.NewLedger(client, keeping)
	opts := scheduler.DefaultOptions()
	opts.Process, opts.Clock = s.tenant, time.Now
	opts.Observe = func(a scheduler.Publication) {
		if a.Status == schedule.Fired && !a.Unrecorded {
			p.fired.Add(1)
		}
	}
	if sink == nil {
		sink = scheduler.StreamSink{Redis: client}
	}
	if p.sched, err = scheduler.New(p.ledger, scheduler.TopicSink{Plain: sink}, opts); err == nil {
		err = p.sched.Prepare(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, rdb.Close())
	}
	p.api = scheduler.NewAPI(p.ledger, scheduler.APIOptions{Limits: schedule.DefaultLimits(), Now: p.sched.Now})
	p.runs(ctx, func(ctx context.Context) error { return p.sched.Run(ctx, s.opts.Log) }, rdb.Close)
	return p, nil
}

// start starts a process of the scheduler.
func (s scheduling) start(ctx context.Context) (*services, error) {
	p, err := s.process(ctx, nil)
	if err != nil {
		return nil, err
	}
	return &p.services, nil
}

// The events of the bench.
const (
	schedulerTopic = "flunq-bench"
	payloadBytes   = 200
)

// scheduledID returns the id of an event.
func scheduledID(i int) string {
	// The first digits differ most, as in random ids.
	return fmt.Sprintf("%08x-0000-4000-8000-%012x", uint32(i)*2654435761, i) // a hash
}

// schedule stores n events, numbered from first.
func (s scheduling) schedule(ctx context.Context, first, n int, due func(int) time.Time) error {
	ledger := agenda.NewLedger(wire.NewClient(s.rdb), agenda.Defaults())
	if err := ledger.SetPartitions(ctx, 0, scheduler.DefaultOptions().Partitions); err != nil {
		return err
	}
	payload, now := make([]byte, payloadBytes), time.Now().UTC()
	for from := 0; from < n; from += scheduler.MaxBatch {
		events := make([]schedule.Event, min(scheduler.MaxBatch, n-from))
		for i := range events {
			at := due(from + i).UTC().Truncate(time.Millisecond)
			events[i] = schedule.Event{
				ID: scheduledID(first + from + i), Content: schedule.Content{Due: at, Topic: schedulerTopic, Payload: payload},
				Status: schedule.Scheduled, Version: 1, Next: at, Created: now, Updated: now,
			}
		}
		if _, err := ledger.Place(ctx, events); err != nil {
			return err
		}
	}
	return nil
}

// fire measures how fast a backlog is fired to a Redis stream.
func (s scheduling) fire(ctx context.Context) error {
	bare, err := s.limits().measure(ctx, "claim, XADD, finish", s.opts.size(20_000, 300), limits.rawSchedule)
	if err != nil {
		return err
	}
	n := s.opts.size(100_000, 500)
	got, err := s.drainBacklog(ctx, drain{measuring: "events fired", of: "event", start: s.start, fill: s.overdue, count: s.fired}, n)
	if got.n == 0 {
		return err
	}
	s.add(Result{Name: "overdue, fired to a stream", Unit: "events/s", Rate: got.rate(), Count: got.n, Cost: got.cost}.
		beside(bare, fmt.Sprintf("%d loops of a claim script, XADD and a finish script", rawPartitions)))
	return err
}

// overdue stores events that are due.
func (s scheduling) overdue(ctx context.Context, n int) error {
	now := time.Now()
	return s.schedule(ctx, 0, n, func(i int) time.Time { return now.Add(time.Duration(i-n) * time.Millisecond) })
}

// fired counts the events in the stream.
func (s scheduling) fired(ctx context.Context, _ int) (int, error) {
	n, err := s.rdb.XLen(ctx, agenda.StreamKey(s.rdb, schedulerTopic)).Result()
	if err != nil {
		return 0, fmt.Errorf("count the events: %w", err)
	}
	return int(n), nil
}

// late measures lateness at two rates, from due times until events arrive at a reader.
func (s scheduling) late(ctx context.Context) error {
	for _, rate := range []int{s.opts.size(1000, 200), s.opts.size(10_000, 1000)} {
		name := fmt.Sprintf("lateness at %d/s", rate)
		m := lateness{
			name: "the limit: " + name, unit: "event", timers: seriesOf(rate, s.opts.Duration),
			stream: agenda.StreamKey(s.rdb, schedulerTopic), number: scheduledNumber,
			fill: func(ctx context.Context, p timerSeries) error { return s.limits().rawEvents(ctx, p.n, p.due) },
			start: func(ctx context.Context, _ timerSeries) (*services, error) {
				return background(ctx, func(ctx context.Context) error { return s.limits().rawLoops(ctx, s.limits().rawAppend) }), nil
			},
		}
		m.timers.grain = time.Millisecond
		bare, _, err := s.lateness(ctx, m)
		if err != nil {
			return err
		}
		m.name = name
		m.fill = func(ctx context.Context, p timerSeries) error { return s.schedule(ctx, 0, p.n, p.due) }
		m.start = func(ctx context.Context, _ timerSeries) (*services, error) { return s.start(ctx) }
		got, cost, err := s.lateness(ctx, m)
		if err != nil {
			return err
		}
		r := got.result(name)
		r.Cost = cost
		s.add(r.besideTimes(bare.result(""), "those loops"))
	}
	return nil
}

// scheduledNumber returns the number of the event of an entry.
func scheduledNumber(entry redis.XMessage) (int, bool) {
	id, _ := entry.Values["id"].(string)
	n, err := strconv.ParseInt(id[strings.LastIndexByte(id, '-')+1:], 16, 64)
	return int(n), err == nil
}
