package scheduler

import (
	"context"
	"time"

	"flunq.io/flunq/engine/schedule"
)

// Table keeps the records of events durably outside Redis. Each event is written separately: a call
// for several may fail after some were written. Reads see all writes acknowledged before, except List
// and Open, which may lag. A Table does not use a clock.
type Table interface {
	// Put stores each event unless one with its id exists, and returns the stored ones. The ids differ. If
	// a Put is repeated after a lost reply, it finds its own event and reports it as not Created.
	Put(ctx context.Context, events []schedule.Event) ([]schedule.Placed, error)

	// Get returns events in the order of their ids, with nil for each that does not exist.
	Get(ctx context.Context, ids []string) ([]*schedule.Event, error)

	// Claim makes events FIRING, for owner and until lease, and returns them in their new state: events
	// that are SCHEDULED with a Next not after now, and events that are FIRING with a Lease not after
	// now, whose Attempts increase by one. It returns nil for all others and, together with an error,
	// for each that may or may not have been claimed.
	Claim(ctx context.Context, ids []string, owner string, now, lease time.Time) ([]*schedule.Event, error)

	// Settle records the outcomes, at now, of publications. An outcome whose event is not FIRING in that
	// version has no effect; the result says which took effect, even with an error. An event that stays
	// FIRING gets a Lease that ends at its Next.
	Settle(ctx context.Context, ends []schedule.Settled, now time.Time) (took []bool, err error)

	// Replace stores an event in place of the one with the same id and the previous version,
	// e.Version-1, and reports whether it did.
	Replace(ctx context.Context, e schedule.Event) (bool, error)

	// List returns a page of all events in any order, and the cursor of the next page, "" after the
	// last one. A page may have fewer events than requested, even none.
	List(ctx context.Context, filter schedule.Filter) (page []schedule.Event, next string, err error)

	// Open returns a page of the entries of SCHEDULED and FIRING events, whatever their age, and the
	// cursor of the next page. Unless before is zero, it returns only those to be looked at before then.
	Open(ctx context.Context, before time.Time, cursor string) (page []schedule.Entry, next string, err error)
}
