package scheduler

import (
	"context"
	"time"

	"flunq.io/flunq/engine/schedule"
)

// Table keeps the records of events outside Redis, durably. Reads see all writes that were
// acknowledged before, but those of List and Open, which may lag.
type Table interface {
	// Put stores an event unless one with its id exists, and returns the one that is stored
	// afterwards.
	Put(ctx context.Context, e schedule.Event) (schedule.Placed, error)

	// Get returns events in the order of their ids, nil for each that does not exist.
	Get(ctx context.Context, ids []string) ([]*schedule.Event, error)

	// Claim makes events FIRING, for owner and until lease, and returns them as they are
	// afterwards: those that are SCHEDULED with a Next that is not after now, and those that
	// are FIRING with a Lease that is not after now, whose Attempts grow by one. It returns nil
	// for each other.
	Claim(ctx context.Context, ids []string, owner string, now, lease time.Time) ([]*schedule.Event, error)

	// Settle records the ends of publications, at now. An end that does not find its event
	// FIRING in that version takes no effect; the result says which did.
	Settle(ctx context.Context, ends []schedule.Settled, now time.Time) (took []bool, err error)

	// Replace stores an event in place of the one with the same id and the version before it,
	// e.Version-1, and reports whether it did.
	Replace(ctx context.Context, e schedule.Event) (bool, error)

	// List returns a page of all events in any order, and the cursor of the next page.
	List(ctx context.Context, filter schedule.Filter) (page []schedule.Event, next string, err error)

	// Open returns a page of the entries of events that are SCHEDULED or FIRING and are to be
	// looked at before a time, whatever their age, and the cursor of the next page.
	Open(ctx context.Context, before time.Time, cursor string) (page []schedule.Entry, next string, err error)
}
