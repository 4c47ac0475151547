// Package explore runs many trials in parallel with results as if they had run one after another,
// and reduces the input of a failing trial to a minimal list.
package explore

import (
	"context"
	"iter"
	"slices"
	"sync"
)

// Progress is the progress of a search.
type Progress struct {
	Phase    string // in words
	Runs, Of int    // of this phase, and their maximum
	Faults   int    // injected in all runs
	Orders   int    // distinct orders of what happened
	Findings int
}

// outstanding is a run in progress, and later its result.
type outstanding[T, R any] struct {
	of     T
	done   chan struct{}
	result R
	err    error
}

// InOrder calls run for each of all, on several goroutines. It passes the results to take in the
// order of all, so they do not depend on which run is faster. It stops when take returns false.
func InOrder[T, R any](ctx context.Context, parallel int, all iter.Seq[T], run func(context.Context, T) (R, error), take func(R) bool) error {
	ctx, cancel := context.WithCancel(ctx)
	work := make(chan *outstanding[T, R])
	order := make(chan *outstanding[T, R], 4*parallel) // large enough that no core waits for a slow run
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	for range parallel {
		wg.Go(func() {
			for o := range work {
				o.result, o.err = run(ctx, o.of)
				close(o.done)
			}
		})
	}
	wg.Go(func() {
		defer close(order)
		defer close(work)
		feed(ctx, all, order, work)
	})
	for o := range order {
		<-o.done
		if o.err != nil {
			return o.err
		}
		if !take(o.result) {
			return nil
		}
	}
	return nil
}

// feed hands out work until ctx ends.
func feed[T, R any](ctx context.Context, all iter.Seq[T], order, work chan<- *outstanding[T, R]) {
	for one := range all {
		o := &outstanding[T, R]{of: one, done: make(chan struct{})}
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

// Fewer reduces a failing list by delta debugging. It returns a part that still fails, and that no
// longer fails once any one element is removed; unless fails returned false for another reason,
// such as a cancelled context.
func Fewer[T any](list []T, fails func([]T) bool) []T {
	if len(list) > 0 && fails([]T{}) {
		return []T{}
	}
	for parts := 2; len(list) > 1; {
		reduced := false
		size := (len(list) + parts - 1) / parts
		for from := 0; from < len(list); from += size {
			rest := slices.Concat(list[:from], list[min(from+size, len(list)):])
			if len(rest) < len(list) && fails(rest) {
				list, reduced = rest, true
				parts = max(parts-1, 2) // at least halves
				break
			}
		}
		if reduced {
			continue
		}
		if parts >= len(list) {
			break
		}
		parts = min(parts*2, len(list))
	}
	return list
}
