package engine

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"flunq.io/flunq/engine/delivery"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/stream"
	"flunq.io/flunq/engine/store/timers"
)

const (
	rest  = 200 * time.Millisecond // before a service retries after an error
	short = 5 * time.Millisecond   // after delivery.ErrBusy
	grace = 5 * time.Second        // for steps in progress when the engine stops
)

// Run runs all services until ctx ends. It logs a failed step and repeats it. When ctx
// ends, steps in progress get a few seconds to finish, and messages that were read but not
// begun are released. If Redis does not answer by then, other processes take them over when
// the lease has expired. While Run is active, the process is registered in Redis if
// Options.Command is set.
func (e *Engine) Run(ctx context.Context, log *slog.Logger) error {
	if err := e.awaitRedis(ctx, log); err != nil {
		return err
	}
	e.runs.Store(true)
	work, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	context.AfterFunc(ctx, func() {
		e.Close()
		select {
		case <-time.After(grace):
			cancel()
		case <-work.Done():
		}
	})
	services, signOff := slices.Clone(e.services), func(context.Context) error { return nil }
	if e.opts.Command != "" {
		h := e.newHeartbeat()
		services, signOff = append(services, h.service()), h.signOff
	}
	var wg sync.WaitGroup
	for _, s := range services {
		p := e.track(s)
		wg.Go(func() { loop(ctx, work, p, log.With("service", s.Kind, "consumer", s.Name)) })
	}
	wg.Wait()
	ended := context.WithoutCancel(ctx)
	err := errors.Join(e.Release(ended), signOff(ended))
	if store.Temporary(err) {
		log.WarnContext(ended, "stopped without telling Redis everything: other processes may have to wait for a lease before they take over its work", "err", err)
		return nil
	}
	return err
}

// awaitRedis prepares, and repeats that while Redis refuses writes for the time being.
func (e *Engine) awaitRedis(ctx context.Context, log *slog.Logger) error {
	steps := StepLog{Log: log.With("service", "start")}
	for ctx.Err() == nil {
		err := e.Prepare(ctx)
		if err == nil || !store.Temporary(err) {
			return err
		}
		if ctx.Err() == nil {
			steps.Add(ctx, time.Now(), err)
		}
		select {
		case <-time.After(rest):
		case <-ctx.Done():
		}
	}
	return nil
}

// now returns the machine's time while Run loops over the services, otherwise the zero time: a
// caller that steps the services itself decides how far each step goes.
func (e *Engine) now() time.Time {
	if !e.runs.Load() {
		return time.Time{}
	}
	return time.Now()
}

// Close stops the services from beginning new work; work in progress continues.
func (e *Engine) Close() {
	for _, closing := range e.closing {
		closing()
	}
}

// Release releases the messages that were read but not handled, and wakes the timer
// services of other processes so that others can take over immediately. Call it after the
// services have stopped.
func (e *Engine) Release(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, grace)
	defer cancel()
	var errs []error
	for _, h := range e.holders {
		if h.Finish != nil {
			errs = append(errs, h.Finish(ctx))
		}
		errs = append(errs, stream.New(e.Store).Release(ctx, h.Held()...))
	}
	for _, release := range e.releasing {
		errs = append(errs, release(ctx))
	}
	if e.opts.Timers > 0 {
		for _, tenant := range timers.New(e.Store).Indexes(e.tenantSet.Names()) {
			errs = append(errs, timers.New(e.Store).WakeService(ctx, tenant))
		}
	}
	return errors.Join(errs...)
}

// loop steps a service until ctx ends; the steps themselves run under the context work.
func loop(ctx, work context.Context, p *serviceHealth, log *slog.Logger) {
	pause, steps := time.NewTimer(0), StepLog{Log: log}
	defer pause.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
			return
		case <-pause.C:
		}
		p.begin(time.Now())
		_, err := p.service.Step(work)
		next := p.service.Every // a service that reads has already waited in its read
		switch {
		case errors.Is(err, delivery.ErrBusy):
			err, next = nil, short
		case err != nil:
			next = rest
		}
		p.end(time.Now(), err)
		if work.Err() == nil {
			steps.Add(ctx, time.Now(), err)
		}
		pause.Reset(next)
	}
}

// unblockReads sends Redis a command when blocking reads time out, and repeatedly until
// stopped: Redis ends timed-out blocking reads whenever it handles a command. In simulation it
// does nothing.
func (e *Engine) unblockReads(after time.Duration) (stop func()) {
	if !e.runs.Load() {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.Background())
	clock := time.AfterFunc(after+slack, func() {
		for ctx.Err() == nil {
			_, _ = e.Store.Now(ctx) // sent only to make Redis end the reads
			time.Sleep(slack)
		}
	})
	return func() { clock.Stop(); cancel() }
}

// slack is added to a read's timeout before the command is sent, since Redis counts in
// milliseconds.
const slack = time.Millisecond
