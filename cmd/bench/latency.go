package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/store/stream"
)

// latency measures how long a workflow of one task takes, and the minimum.
type latency struct{ *scenarioRun }

// measure measures the duration of a one-task workflow: one at a time, many at a time, and
// under load of another tenant.
func (l latency) measure(ctx context.Context) error {
	def, _, err := dsl.Parse("bench.yaml", []byte(one().text))
	if err != nil {
		return err
	}
	for _, concurrency := range []int{1, l.opts.size(50, 5)} {
		bare, err := l.relayed(ctx, concurrency)
		if err != nil {
			return err
		}
		if err := l.fresh(ctx); err != nil {
			return err
		}
		name := fmt.Sprintf("%d at a time", concurrency)
		got, err := l.executions(ctx, def, name, nil, clients(concurrency))
		if err != nil {
			return err
		}
		l.add(got.result(name).besideTimes(bare.result(""), "four hops of bare commands"))
	}
	return l.loaded(ctx, def)
}

// startsPerSecond is the start rate of the measured tenant beside another one.
const startsPerSecond = 100

// loaded measures executions that start at a steady rate while another tenant has a backlog, and
// without that load.
func (l latency) loaded(ctx context.Context, def *dsl.Definition) error {
	n, name := l.opts.size(20_000, 300), fmt.Sprintf("%d/s under load of another tenant", startsPerSecond)
	others := *l.scenarioRun
	others.tenant = l.tenant + loadSuffix
	var both [2]Result
	for i, backlog := range []int{0, n} {
		if err := l.fresh(ctx); err != nil {
			return err
		}
		if err := stream.New(others.store).Groups(ctx, others.tenant); err != nil {
			return err
		}
		if err := others.start(ctx, def, backlog); err != nil {
			return err
		}
		got, err := l.executions(ctx, def, name, []string{others.tenant}, steady(func(took time.Duration) (float64, error) {
			if backlog == 0 {
				return float64(took) / float64(l.opts.Duration), nil
			}
			counts, err := l.store.Counts(ctx, others.tenant)
			return float64(counts.Completed) / float64(backlog), err
		}))
		if err != nil {
			return err
		}
		both[i] = got.result(name)
	}
	l.add(both[1].besideTimes(both[0], fmt.Sprintf("without %d executions of another tenant", n)))
	return nil
}

// executions measures executions from their start until a reader receives their end.
func (l latency) executions(ctx context.Context, def *dsl.Definition, name string, others []string, load load) (got durations, err error) {
	if err := l.define(ctx, def); err != nil {
		return nil, err
	}
	c, err := l.startServices(ctx, servicesRequest{Others: others, Workers: true, Executors: true, Remote: true})
	if err != nil {
		return nil, err
	}
	c.begin()
	defer func() { err = errors.Join(err, c.end()) }()
	o := &operations{
		scenario: l.scenarioRun, name: name, stream: l.streamKey(),
		start: func(ctx context.Context, id string) error { return l.begin(ctx, def, id) },
		ends:  func(e redis.XMessage) bool { return e.Values["type"] == string(event.WorkflowCompleted) },
	}
	return o.measure(ctx, load)
}

// operations measures how long operations take, from the start of each until a reader of a stream
// receives the entry that ends it.
type operations struct {
	scenario *scenarioRun
	name     string // of the measurement
	stream   string
	start    func(ctx context.Context, id string) error
	ends     func(redis.XMessage) bool // reports whether an entry ends the operation of its execution id

	running sync.WaitGroup
	fail    context.CancelCauseFunc // ends the measurement

	mu    sync.Mutex // guards what follows
	ended map[string]chan struct{}
	times durations
}

// load runs operations, and returns when it has started the last one.
type load func(context.Context, *operations)

// measure returns the durations of the operations of a load.
func (o *operations) measure(ctx context.Context, load load) (durations, error) {
	limit := o.scenario.opts.Duration + stallTimeout
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("%s: not ended after %v", o.name, limit))
	defer cancel()
	ctx, o.fail = context.WithCancelCause(ctx)
	defer o.fail(nil)
	o.ended = map[string]chan struct{}{}
	reading, stop := context.WithCancel(ctx)
	var reader sync.WaitGroup
	reader.Go(func() { o.read(reading) })
	load(ctx, o)
	o.running.Wait()
	stop()
	reader.Wait()
	return o.times, context.Cause(ctx)
}

// clients returns the load of n clients, each with one operation after another.
func clients(n int) load {
	return func(ctx context.Context, o *operations) {
		began := time.Now()
		for client := range n {
			o.running.Go(func() {
				for i := 0; (i < 2 || time.Since(began) < o.scenario.opts.Duration) && ctx.Err() == nil; i++ {
					o.run(ctx, fmt.Sprintf("x%d-%d", client, i), i == 0)
					if client == 0 {
						o.scenario.report(o.name, float64(time.Since(began))/float64(o.scenario.opts.Duration))
					}
				}
			})
		}
	}
}

// steady returns a load that starts operations at a steady rate, whether or not earlier ones have
// ended, until done reports a share of 1.
func steady(done func(took time.Duration) (share float64, err error)) load {
	return func(ctx context.Context, o *operations) {
		began := time.Now()
		for i := 0; ctx.Err() == nil; i++ {
			share, err := done(time.Since(began))
			o.scenario.report(o.name, share)
			if err != nil {
				o.fail(err)
			}
			if err != nil || share >= 1 && i > 1 {
				return
			}
			o.running.Go(func() { o.run(ctx, fmt.Sprintf("x%d", i), i == 0) })
			_ = pause(ctx, time.Until(began.Add(time.Duration(i+1)*time.Second/startsPerSecond))) // the loop ends with ctx
		}
	}
}

// run runs one operation and waits for its end. The first one of a load wakes idle services: its
// duration does not count.
func (o *operations) run(ctx context.Context, id string, first bool) {
	done := make(chan struct{})
	o.mu.Lock()
	o.ended[id] = done
	o.mu.Unlock()
	began := time.Now()
	if err := o.start(ctx, id); err != nil {
		o.fail(err)
		return
	}
	select {
	case <-done:
	case <-ctx.Done():
		return
	}
	took := time.Since(began)
	if !first {
		o.mu.Lock()
		o.times = append(o.times, took)
		o.mu.Unlock()
	}
}

// read reads the stream until ctx ends, and ends operations.
func (o *operations) read(ctx context.Context) {
	for last := "0"; ctx.Err() == nil; {
		read, err := o.scenario.rdb.XRead(ctx, &redis.XReadArgs{Streams: []string{o.stream, last}, Count: 1000, Block: shortBlock}).Result()
		if errors.Is(err, redis.Nil) || ctx.Err() != nil {
			continue
		}
		if err != nil {
			o.fail(fmt.Errorf("read the stream: %w", err))
			return
		}
		for _, entry := range read[0].Messages {
			last = entry.ID
			if !o.ends(entry) {
				continue
			}
			id, _ := entry.Values["executionid"].(string)
			o.mu.Lock()
			if done := o.ended[id]; done != nil {
				close(done)
				delete(o.ended, id)
			}
			o.mu.Unlock()
		}
	}
}

// hops is the number of deliveries from start to end: to the worker, the executor, the
// worker and the reader.
const hops = 4

// relayed measures the minimum with bare commands: each hop is a blocking read and a
// script.
func (l latency) relayed(ctx context.Context, concurrency int) (got durations, err error) {
	if err := l.fresh(ctx); err != nil {
		return nil, err
	}
	if err := rawStepScript.Load(ctx, l.rdb).Err(); err != nil {
		return nil, fmt.Errorf("load a script: %w", err)
	}
	hop := func(i int) string { return l.rawKey(fmt.Sprintf("hop%d", i)) }
	relaying, stop := context.WithCancel(ctx)
	done := make(chan error, hops)
	for i := range hops - 1 {
		if err := l.rdb.XGroupCreateMkStream(ctx, hop(i), rawGroup, "0").Err(); err != nil {
			stop()
			return nil, fmt.Errorf("create a group: %w", err)
		}
		go func() { done <- l.relay(relaying, hop(i), hop(i+1)) }()
	}
	o := &operations{
		scenario: l.scenarioRun, name: fmt.Sprintf("the limit: %d at a time", concurrency), stream: hop(hops - 1),
		start: func(ctx context.Context, id string) error {
			e := l.requested(0)
			e.Execution = id
			return l.rdb.XAdd(ctx, &redis.XAddArgs{Stream: hop(0), Values: e.Fields()}).Err()
		},
		ends: func(redis.XMessage) bool { return true },
	}
	got, err = o.measure(ctx, clients(concurrency))
	stop()
	for range hops - 1 {
		err = errors.Join(err, <-done)
	}
	return got, err
}

// relay moves each entry from one stream to the next by a step script.
func (l latency) relay(ctx context.Context, from, to string) error {
	for ctx.Err() == nil {
		read, err := l.rdb.XReadGroup(ctx, &redis.XReadGroupArgs{
			Group: rawGroup, Consumer: rawGroup, Streams: []string{from, ">"}, Count: batch, Block: shortBlock,
		}).Result()
		if errors.Is(err, redis.Nil) || ctx.Err() != nil {
			continue
		}
		if err != nil {
			return fmt.Errorf("read a hop: %w", err)
		}
		pipe := l.rdb.Pipeline()
		for _, entry := range read[0].Messages {
			args := []any{rawGroup, entry.ID}
			for _, name := range []string{"id", "source", "specversion", "type", "time", "tenantid", "workflowid", "executionid", "taskid", "data"} {
				args = append(args, name, entry.Values[name])
			}
			id, _ := entry.Values["executionid"].(string)
			rawStepScript.EvalSha(ctx, pipe, []string{from, l.rawKey(id), l.rawKey(id + ":history"), to}, args...)
		}
		if _, err := pipe.Exec(ctx); err != nil && ctx.Err() == nil {
			return fmt.Errorf("relay: %w", err)
		}
	}
	return nil
}
