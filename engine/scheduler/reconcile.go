package scheduler

import (
	"context"
	"time"

	"flunq.io/flunq/engine/agenda"
	"flunq.io/flunq/engine/schedule"
)

// Reconciler adds to the index what it lacks of the open events in a Table: all of them where
// Redis has lost everything, and regularly those that are overdue or due soon, in case Redis
// has lost only some or nobody has added them.
type Reconciler struct {
	table Table
	index agenda.Index
	opts  ReconcilerOptions
	look  time.Time // when to compare those that are due soon again
}

// ReconcilerOptions configure a Reconciler.
type ReconcilerOptions struct {
	// Bucket is how often the events that are due soon are compared with the index. Those that
	// are scheduled for later than that are always found in time.
	Bucket time.Duration
	// Check is how often the Reconciler asks whether Redis has lost everything.
	Check time.Duration
	// Now returns the time of Redis, as exactly as the process knows it.
	Now func() time.Time
	// Found, if set, receives open events, some of which the index lacked, and how many.
	Found func(entries []schedule.Entry, lacked int)
}

// NewReconciler returns a Reconciler of an index.
func NewReconciler(table Table, index agenda.Index, opts ReconcilerOptions) *Reconciler {
	return &Reconciler{table: table, index: index, opts: opts}
}

// Step compares once, if it is time to, and returns how long to wait until the next step.
func (r *Reconciler) Step(ctx context.Context) (time.Duration, error) {
	whole, err := r.index.Whole(ctx)
	if err != nil {
		return r.opts.Check, err
	}
	if now := r.opts.Now(); !whole || !now.Before(r.look) {
		// What is due first is found first. The look ahead is longer than the pause until the
		// next one, which is never kept exactly.
		if err := r.compare(ctx, now.Add(r.opts.Bucket+2*r.opts.Check)); err != nil {
			return r.opts.Check, err
		}
		r.look = now.Add(r.opts.Bucket)
	}
	if whole {
		return r.opts.Check, nil
	}
	if err := r.compare(ctx, time.Time{}); err != nil {
		return r.opts.Check, err
	}
	return r.opts.Check, r.index.SetWhole(ctx)
}

// compare adds the open events to the index that it lacks and that are to be looked at before
// a time, or all of them.
func (r *Reconciler) compare(ctx context.Context, before time.Time) error {
	for cursor := ""; ; {
		page, next, err := r.table.Open(ctx, before, cursor)
		if err != nil {
			return err
		}
		lacked, err := r.index.Add(ctx, page)
		if err != nil {
			return err
		}
		if lacked > 0 && r.opts.Found != nil {
			r.opts.Found(page, lacked)
		}
		if cursor = next; cursor == "" {
			return nil
		}
	}
}
