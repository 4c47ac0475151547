package scheduler

import (
	"context"
	"time"

	"flunq.io/flunq/engine/agenda"
)

// Reconciler adds open events of a Table that the index lacks: all of them if Redis has lost
// everything, and regularly those that are overdue or due soon, in case Redis has lost some or they
// were never added.
type Reconciler struct {
	table Table
	index agenda.Index
	opts  ReconcilerOptions
	next  time.Time // when to compare those that are due soon
}

// ReconcilerOptions configures a Reconciler.
type ReconcilerOptions struct {
	// Bucket is the interval at which events that are due soon are compared with the index. Events
	// scheduled for later than that are always found in time.
	Bucket time.Duration
	// Check is the interval at which the Reconciler checks whether Redis has lost everything.
	Check time.Duration
	// Now returns the time of Redis, as exactly as the process knows it.
	Now func() time.Time
	// Notify, if set, receives the id and the time of each event that the index may have lacked.
	Notify func(id string, due time.Time)
	// Found, if set, receives how many events the index lacked.
	Found func(lacked int)
}

// NewReconciler returns a Reconciler of an index.
func NewReconciler(table Table, index agenda.Index, opts ReconcilerOptions) *Reconciler {
	return &Reconciler{table: table, index: index, opts: opts}
}

// Step compares once, if it is time, and returns how long to wait until the next step.
func (r *Reconciler) Step(ctx context.Context) (time.Duration, error) {
	whole, err := r.index.Complete(ctx)
	if err != nil {
		return r.opts.Check, err
	}
	if now := r.opts.Now(); !whole || !now.Before(r.next) {
		// Events that are due first are found first. The look ahead is longer than the pause until the
		// next comparison, which is never exact.
		if err := r.compare(ctx, now.Add(r.opts.Bucket+2*r.opts.Check)); err != nil {
			return r.opts.Check, err
		}
		r.next = now.Add(r.opts.Bucket)
	}
	if whole {
		return r.opts.Check, nil
	}
	if err := r.compare(ctx, time.Time{}); err != nil {
		return r.opts.Check, err
	}
	return r.opts.Check, r.index.SetComplete(ctx)
}

// compare adds open events that the index lacks: those to be looked at before a time, or all if it is
// zero.
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
			r.opts.Found(lacked)
		}
		for _, e := range page {
			if lacked > 0 && r.opts.Notify != nil {
				r.opts.Notify(e.ID, e.Next)
			}
		}
		if cursor = next; cursor == "" {
			return nil
		}
	}
}
