package server

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"flunq.io/flunq/engine/schedule"
	"flunq.io/flunq/engine/scheduler"
)

// combiner schedules the events of concurrent calls together: while one batch is on its way to the
// ledger, the next one fills up. With 32 callers it makes Schedule twice as fast, see
// BenchmarkSchedule; a single caller does not wait for others. A second batch on its way would make
// both smaller.
type combiner struct {
	api     *scheduler.API
	timeout time.Duration // of a batch

	mu      sync.Mutex
	waiting []*waiter
	running bool // a batch is on its way
}

// waiter is a call that waits for its outcome.
type waiter struct {
	request scheduler.Request
	outcome schedule.Outcome
	err     error
	done    chan struct{} // closed when the outcome or the error is set
}

// schedule schedules one event. When ctx ends it returns, after the batch that it is running itself,
// if any; the event may be stored nevertheless.
func (c *combiner) schedule(ctx context.Context, request scheduler.Request) (schedule.Outcome, error) {
	w := &waiter{request: request, done: make(chan struct{})}
	c.mu.Lock()
	c.waiting = append(c.waiting, w)
	begin := !c.running
	c.running = true
	c.mu.Unlock()
	if begin {
		ctx := context.WithoutCancel(ctx)
		c.run(ctx, c.take()) // has w: handing it to another goroutine would cost a single caller a quarter of its time
		if batch := c.take(); len(batch) > 0 {
			go func() {
				for ; len(batch) > 0; batch = c.take() {
					c.run(ctx, batch)
				}
			}()
		}
	}
	select {
	case <-w.done:
		return w.outcome, w.err
	case <-ctx.Done():
		return schedule.Outcome{}, ctx.Err()
	}
}

// take returns the next batch. If there is none, the next call begins one.
func (c *combiner) take() []*waiter {
	const limit = 128
	c.mu.Lock()
	defer c.mu.Unlock()
	n, bytes := 0, 0
	for n < min(limit, len(c.waiting)) && bytes < MostBytes {
		bytes += len(c.waiting[n].request.Payload)
		n++
	}
	batch := c.waiting[:n:n]
	c.waiting, c.running = c.waiting[n:], n > 0
	return batch
}

// errPanic is the error of all calls of a batch that panicked.
var errPanic = errors.New("a batch panicked")

// run schedules a batch.
func (c *combiner) run(ctx context.Context, batch []*waiter) {
	var outcomes []schedule.Outcome
	var err error
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v", errPanic, p)
		}
		for i, w := range batch {
			if w.err = err; err == nil {
				w.outcome = outcomes[i]
			}
			close(w.done)
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	requests := make([]scheduler.Request, len(batch))
	for i, w := range batch {
		requests[i] = w.request
	}
	outcomes, err = c.api.Schedule(ctx, requests)
}
