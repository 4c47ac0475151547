package engine

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// rest is how long a service waits after an error before it tries again.
const rest = 200 * time.Millisecond

// grace is how long a step may go on after the engine was told to stop.
const grace = 5 * time.Second

// Run loops over all services until ctx ends. A step that fails is reported to
// log and repeated. Steps under way when ctx ends are finished, for some seconds;
// what was read and not begun is handed back, so that nobody waits for a lease.
func (e *Engine) Run(ctx context.Context, log *slog.Logger) error {
	if err := e.Prepare(ctx); err != nil {
		return err
	}
	work, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	context.AfterFunc(ctx, func() {
		select {
		case <-time.After(grace):
			cancel()
		case <-work.Done():
		}
	})
	var wg sync.WaitGroup
	for _, s := range e.services {
		wg.Go(func() { loop(ctx, work, s, log.With("service", s.Name)) })
	}
	wg.Wait()
	return e.release(context.WithoutCancel(ctx))
}

// release hands back what was read and not handled.
func (e *Engine) release(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, grace)
	defer cancel()
	for _, held := range e.held {
		if err := e.Store.Release(ctx, held()...); err != nil {
			return err
		}
	}
	return nil
}

// loop steps a service until ctx ends; the steps themselves live as long as work.
func loop(ctx, work context.Context, s Service, log *slog.Logger) {
	pause := time.NewTimer(0)
	defer pause.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
			return
		case <-pause.C:
		}
		if _, err := s.Step(work); err != nil {
			if work.Err() == nil {
				log.ErrorContext(ctx, "step failed", "err", err)
			}
			pause.Reset(rest)
			continue
		}
		// A service that reads has waited in its read already.
		pause.Reset(s.Every)
	}
}
