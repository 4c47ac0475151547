package bench

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// drain describes a measurement of how fast services process a backlog.
type drain struct {
	measuring string
	of        string // the unit of the cost
	each      int    // units per item of the backlog; 0: 1
	first     int    // size of the trial backlog
	limit     int    // maximum size of the backlog
	start     func(context.Context) (*services, error)

	fill  func(ctx context.Context, n int) error
	count func(ctx context.Context, n int) (int, error) // returns how many of n are done
}

// drainResult is the result of a drain.
type drainResult struct {
	n    int
	took time.Duration
	cost *Cost
}

// rate returns items per second.
func (d drainResult) rate() float64 { return perSecond(d.n, d.took) }

func perSecond(n int, took time.Duration) float64 {
	if took <= 0 {
		return 0
	}
	return float64(n) / took.Seconds()
}

// drain measures a small backlog, and then one that takes about the configured duration. On an error,
// it returns the result so far.
func (s *scenarioRun) drain(ctx context.Context, d drain) (drainResult, error) {
	got, err := s.drainBacklog(ctx, d, d.first)
	if err != nil || s.opts.Quick {
		return got, err
	}
	n := int(got.rate() * s.opts.Duration.Seconds())
	return s.drainBacklog(ctx, d, min(max(n, d.first), d.limit))
}

func (s *scenarioRun) drainBacklog(ctx context.Context, d drain, n int) (got drainResult, err error) {
	s.report(d.measuring, 0)
	if err := s.fresh(ctx); err != nil {
		return got, err
	}
	if err := d.fill(ctx, n); err != nil {
		return got, fmt.Errorf("prepare %s: %w", d.measuring, err)
	}
	c, err := d.start(ctx)
	if err != nil {
		return got, err
	}
	defer func() { err = errors.Join(err, c.end()) }()
	before := s.read(ctx, c)
	c.begin()
	done, took, err := s.await(ctx, d.measuring, n, func(ctx context.Context) (int, error) { return d.count(ctx, n) })
	// An interrupted measurement also has a result.
	after := s.read(context.WithoutCancel(ctx), c)
	return drainResult{done, took, cost(d.of, done*max(d.each, 1), before, after, c)}, err
}
