package engine

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// Status is the health of a service instance.
type Status string

// The statuses of a service instance, and of several together.
const (
	Healthy   Status = "healthy"
	Degraded  Status = "degraded"  // steps fail or take too long
	Unhealthy Status = "unhealthy" // steps have failed or hung for half a minute
)

const (
	slowAfter   = 10 * time.Second // a step that takes longer is too slow
	deadAfter   = 30 * time.Second // a service without a successful step for longer is unhealthy
	repeatEvery = 10 * time.Second // minimum time between two log entries about failed steps
)

// Health is the health of one service instance.
type Health struct {
	Kind     string
	Status   Status
	Failures int       // consecutive failed steps
	Err      error     // of the last step, or why the one in progress is too slow
	Since    time.Time // when a step last succeeded, or the first one failed, by the machine's clock
}

// serviceHealth is the state of a running service.
type serviceHealth struct {
	service Service

	mu       sync.Mutex
	began    time.Time // of the step in progress; zero between steps
	lastGood time.Time
	failed   int
	err      error
}

// track adds and returns the health of a service that begins to run.
func (e *Engine) track(s Service) *serviceHealth {
	p := &serviceHealth{service: s, lastGood: time.Now()}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.running = append(e.running, p)
	return p
}

func (p *serviceHealth) begin(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.began = now
}

// end records the outcome of a step.
func (p *serviceHealth) end(now time.Time, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.began, p.err = time.Time{}, err
	if err == nil || p.failed == 0 { // before its first failure, an idle executor has worked however long its step took
		p.lastGood = now
	}
	if p.failed++; err == nil {
		p.failed = 0
	}
}

// health assesses a service. A long step does not count against an executor, since a call may
// take long and an idle executor waits for one; nor do the failures before that step.
func (p *serviceHealth) health(now time.Time) Health {
	p.mu.Lock()
	defer p.mu.Unlock()
	h := Health{Kind: p.service.Kind, Status: Healthy, Failures: p.failed, Err: p.err, Since: p.lastGood}
	stuck := time.Duration(0)
	if !p.began.IsZero() {
		stuck = now.Sub(p.began)
	}
	if p.service.Kind == "executor" {
		if stuck > slowAfter {
			h.Failures, h.Err = 0, nil
			return h
		}
		stuck = 0
	}
	switch {
	case p.failed > 0 && now.Sub(p.lastGood) > deadAfter, stuck > deadAfter:
		h.Status = Unhealthy
	case p.failed > 0, stuck > slowAfter:
		h.Status = Degraded
	}
	if stuck > slowAfter && h.Err == nil {
		h.Err = fmt.Errorf("a step of the %s has been running for %s", p.service.Kind, stuck.Round(time.Second))
	}
	return h
}

// Health returns the health of this process's services, in the order in which they started. It
// is empty before Run.
func (e *Engine) Health() []Health {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := time.Now()
	out := make([]Health, 0, len(e.running))
	for _, p := range e.running {
		out = append(out, p.health(now))
	}
	return out
}

// StepLog logs the failed steps of one service, at most one every 10 seconds. Once no step has failed
// for that long, it logs that the service works again.
type StepLog struct {
	Log *slog.Logger

	failures             int // since the service last worked
	lastFailure, lastLog time.Time
}

// Add records the outcome of a step, and logs it if a log entry is due.
func (l *StepLog) Add(ctx context.Context, now time.Time, err error) {
	switch {
	case err != nil:
		l.failures, l.lastFailure = l.failures+1, now
		if now.Sub(l.lastLog) >= repeatEvery {
			l.lastLog = now
			l.Log.ErrorContext(ctx, "step failed", "err", err, "failures", l.failures)
		}
	case l.failures > 0 && now.Sub(l.lastFailure) >= repeatEvery:
		l.Log.InfoContext(ctx, "step works again", "failures", l.failures)
		l.failures, l.lastLog = 0, time.Time{}
	}
}
