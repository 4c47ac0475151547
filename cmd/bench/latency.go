package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"flunq.io/flunq/engine/dsl"
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
		name := fmt.Sprintf("%d at a time", concurrency)
		bare, err := l.relayed(ctx, concurrency)
		if err != nil {
			return err
		}
		got, err := l.timeStarts(ctx, def, name, concurrency)
		if err != nil {
			return err
		}
		l.add(got.result(name).besideTimes(bare.result(""), "four hops of bare commands"))
	}
	return l.loaded(ctx)
}

// timeStarts runs executions concurrently and measures from the start of each until a
// reader receives its end.
func (l latency) timeStarts(ctx context.Context, def *dsl.Definition, name string, concurrency int) (got durations, err error) {
	if err := l.fresh(ctx); err != nil {
		return nil, err
	}
	if err := l.define(ctx, def); err != nil {
		return nil, err
	}
	c, err := l.startServices(ctx, servicesRequest{Workers: true, Executors: true, Remote: true})
	if err != nil {
		return nil, err
	}
	c.begin()
	defer func() { err = errors.Join(err, c.end()) }()
	return l.timeParallel(ctx, name, concurrency, l.streamKey(), completes, func(ctx context.Context, id string) error { return l.begin(ctx, def, id) })
}

// pendingStart is a start whose end a reader waits for.
type pendingStart struct {
	mu    sync.Mutex
	ended map[string]chan struct{}
}

func (p *pendingStart) await(id string) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	done := make(chan struct{})
	p.ended[id] = done
	return done
}

func (p *pendingStart) end(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if done := p.ended[id]; done != nil {
		close(done)
		delete(p.ended, id)
	}
}

// timeParallel keeps several clients busy, each with one operation after another, and returns
// the latencies. ends maps an entry of the stream to the operation that it ends.
func (l latency) timeParallel(ctx context.Context, name string, concurrency int, stream string, ends func(redis.XMessage) (string, bool), start func(context.Context, string) error) (durations, error) {
	span := l.opts.Duration
	timed, cancel := context.WithTimeout(ctx, span+stallTimeout)
	defer cancel()
	starts := &pendingStart{ended: map[string]chan struct{}{}}
	reading, stop := context.WithCancel(timed)
	read := make(chan error, 1)
	go func() { read <- l.watch(reading, stream, ends, starts) }()

	results := make([]durations, concurrency)
	errs := make([]error, concurrency+1) // one for each client, and one for the reader
	began := time.Now()
	var wg sync.WaitGroup
	for client := range concurrency {
		wg.Go(func() {
			for i := 0; (i < 2 || time.Since(began) < span) && errs[client] == nil; i++ {
				var took time.Duration
				took, errs[client] = starts.run(timed, fmt.Sprintf("x%d-%d", client, i), start)
				if i > 0 { // the first one is slow, since it wakes idle services
					results[client] = append(results[client], took)
				}
				if client == 0 {
					l.report(name, float64(time.Since(began))/float64(span))
				}
			}
		})
	}
	wg.Wait()
	stop()
	var all durations
	for _, one := range results {
		all = append(all, one...)
	}
	errs[concurrency] = <-read
	return all, errors.Join(errs...)
}

// run runs one operation and waits for its end.
func (p *pendingStart) run(ctx context.Context, id string, start func(context.Context, string) error) (time.Duration, error) {
	done := p.await(id)
	began := time.Now()
	if err := start(ctx, id); err != nil {
		return 0, err
	}
	select {
	case <-done:
		return time.Since(began), nil
	case <-ctx.Done():
		return 0, fmt.Errorf("wait for %s to end: %w", id, ctx.Err())
	}
}

// watch reads a stream until ctx ends.
func (l latency) watch(ctx context.Context, stream string, ends func(redis.XMessage) (string, bool), starts *pendingStart) error {
	for last := "0"; ctx.Err() == nil; {
		read, err := l.rdb.XRead(ctx, &redis.XReadArgs{Streams: []string{stream, last}, Count: 1000, Block: shortBlock}).Result()
		if errors.Is(err, redis.Nil) || ctx.Err() != nil {
			continue
		}
		if err != nil {
			return fmt.Errorf("read the stream: %w", err)
		}
		for _, entry := range read[0].Messages {
			last = entry.ID
			if id, ok := ends(entry); ok {
				starts.end(id)
			}
		}
	}
	return nil
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
	got, err = l.timeParallel(ctx, fmt.Sprintf("the limit: %d at a time", concurrency), concurrency, hop(hops-1),
		func(e redis.XMessage) (string, bool) { id, ok := e.Values["executionid"].(string); return id, ok },
		func(ctx context.Context, id string) error {
			e := l.requested(0)
			e.Execution = id
			return l.rdb.XAdd(ctx, &redis.XAddArgs{Stream: hop(0), Values: e.Fields()}).Err()
		})
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
