package search

import (
	"context"
	"iter"
	"sync"
)

// outstanding is a run in progress, and later its result.
type outstanding struct {
	scenario Scenario
	done     chan struct{}
	verdict  *verdict
	err      error
}

// pool runs scenarios on several goroutines, each in a simulation of its own. It passes
// the results to take in the order of the scenarios, so the search does not depend on
// which run is faster. It stops when take returns false.
func pool(
	ctx context.Context, parallel int, scenarios iter.Seq[Scenario],
	run func(context.Context, Scenario) (*verdict, error), take func(*verdict) bool,
) error {
	ctx, cancel := context.WithCancel(ctx)
	work := make(chan *outstanding)
	order := make(chan *outstanding, 4*parallel) //nolint:mnd // large enough that no core waits for a slow run
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	for range parallel {
		wg.Go(func() {
			for o := range work {
				o.verdict, o.err = run(ctx, o.scenario)
				close(o.done)
			}
		})
	}
	wg.Go(func() {
		defer close(order)
		defer close(work)
		feed(ctx, scenarios, order, work)
	})
	for o := range order {
		<-o.done
		if o.err != nil {
			return o.err
		}
		if !take(o.verdict) {
			return nil
		}
	}
	return nil
}

// feed hands out scenarios until ctx ends.
func feed(ctx context.Context, scenarios iter.Seq[Scenario], order, work chan<- *outstanding) {
	for sc := range scenarios {
		o := &outstanding{scenario: sc, done: make(chan struct{})}
		select {
		case order <- o:
		case <-ctx.Done():
			return
		}
		select {
		case work <- o:
		case <-ctx.Done():
			o.err = ctx.Err()
			close(o.done)
			return
		}
	}
}
