package engine

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// rest is how long a service waits after an error before it tries again.
const rest = 200 * time.Millisecond

// Run loops over all services until ctx ends. A step that fails is reported to
// log and repeated.
func (e *Engine) Run(ctx context.Context, log *slog.Logger) error {
	if err := e.Prepare(ctx); err != nil {
		return err
	}
	var wg sync.WaitGroup
	for _, s := range e.services {
		wg.Go(func() { loop(ctx, s, log.With("service", s.Name)) })
	}
	wg.Wait()
	return nil
}

func loop(ctx context.Context, s Service, log *slog.Logger) {
	pause := time.NewTimer(0)
	defer pause.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-pause.C:
		}
		_, err := s.Step(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			log.ErrorContext(ctx, "step failed", "err", err)
			pause.Reset(rest)
		default:
			// A service that reads has waited in its read already.
			pause.Reset(s.Every)
		}
	}
}
