package scheduler

import (
	"context"
	"time"

	"flunq.io/flunq/engine/schedule"
)

// Table keeps the records of events outside Redis, durably. Each event is written by itself:
// a call for several may fail after some were written. Reads see all writes that were
// acknowledged before, except those of List and Open, which may lag. A Table knows no clock.
type Table interface {
	// Put stores each event unless one with its id exists, and returns the ones that are
	// stored afterwards. A Put that is repeated after a lost reply finds its own event: it
	// reports it as not Created.
	Put(ctx context.Context, events []schedule.Event) ([]schedule.Placed, error)

	// Get returns events in the order of their ids, nil for each that does not exist.
	Get(ctx context.Context, ids []string) ([]*schedule.Event, error)

	// Claim makes events FIRING, for owner and until lease, and returns them as they are
	// afterwards: those that are SCHEDULED with a Next that is not after now, and those that
	// are FIRING with a Lease that is not after now, whose Attempts grow by one. It returns nil
	// for each other, and with an error for each that may or may not have been claimed.
	Claim(ctx context.Context, ids []string, owner string, now, lease time.Time) ([]*schedule.Event, error)

	// Settle records the ends of publications, at now. An end that does not find its event
	// FIRING in that version takes no effect; the result says which did, also with an error.
	// An event that stays FIRING gets a Lease that ends at its Next.
	Settle(ctx context.Context, ends []schedule.Settled, now time.Time) (took []bool, err error)

	// Replace stores an event in place of the one with the same id and the version before it,
	// e.Version-1, and reports whether it did.
	Replace(ctx context.Context, e schedule.Event) (bool, error)

	// List returns a page of all events in any order, and the cursor of the next page, ""
	// after the last one. A page may have fewer events than asked for, even none.
	List(ctx context.Context, filter schedule.Filter) (page []schedule.Event, next string, err error)

	// Open returns a page of the entries of events that are SCHEDULED or FIRING, whatever
	// their age, and the cursor of the next page. Unless before is zero, only those are
	// returned that are to be looked at before then.
	Open(ctx context.Context, before time.Time, cursor string) (page []schedule.Entry, next string, err error)
}
