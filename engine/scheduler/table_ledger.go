package scheduler

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"flunq.io/flunq/engine/agenda"
	"flunq.io/flunq/engine/event"
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

// TableLedger is a Ledger that keeps the records in a Table, and only an index of the open ones in
// Redis. The table is authoritative: entries that the index lacks, or has wrongly or with a wrong time,
// are corrected when they are taken, or by the Reconciler. Each method therefore writes to the table
// first and then to the index, and may fail in between.
type TableLedger struct {
	*agenda.Partitions

	table Table
	index agenda.Index
	feed  Producer // nil: Place adds events to the index
}

// NewTableLedger returns a Ledger on a table and an index. Place sends events to feed, whose Consumer has
// a Ledger without a feed; if feed is nil, Place adds them to the index.
func NewTableLedger(table Table, index agenda.Index, feed Producer) *TableLedger {
	return &TableLedger{index.Partitions, table, index, feed}
}

// Place stores events. Open events that already exist are added to the index again, or sent to the
// feed, since the call may repeat one that failed halfway.
func (l *TableLedger) Place(ctx context.Context, events []schedule.Event) ([]schedule.Placed, error) {
	placed, err := l.table.Put(ctx, events)
	if err != nil {
		return nil, err
	}
	var open []schedule.Event
	var entries []schedule.Entry
	for i := range placed {
		if e := placed[i].Event; e.Status.Open() {
			open, entries = append(open, *e), append(entries, entry(e))
		}
	}
	if l.feed == nil {
		_, err = l.index.Add(ctx, entries)
		return placed, err
	}
	if len(open) > 0 {
		_ = l.feed.Send(ctx, open) // the Reconciler adds those that were not sent to the index in time
	}
	return placed, nil
}

// Get returns events in the order of their ids, with nil for each that does not exist.
func (l *TableLedger) Get(ctx context.Context, ids []string) ([]*schedule.Event, error) {
	return l.table.Get(ctx, ids)
}

// Change applies a change to an event.
func (l *TableLedger) Change(ctx context.Context, id string, change schedule.Change, now time.Time) (schedule.Outcome, error) {
	for {
		found, err := l.table.Get(ctx, []string{id})
		if err != nil {
			return schedule.Outcome{}, err
		}
		before := found[0]
		if before == nil {
			return schedule.Outcome{Code: schedule.NotFound, Message: "there is no event " + id}, nil
		}
		if refused, ok := change.Allows(before); !ok {
			return refused, nil
		}
		after := change.Apply(*before, now)
		replaced, err := l.table.Replace(ctx, after)
		if err != nil {
			return schedule.Outcome{}, err
		}
		if !replaced { // another transition was faster
			continue
		}
		err = l.move(ctx, []*schedule.Event{&after})
		if old := entry(before); err == nil && (!after.Status.Open() || !old.Next.Equal(after.Next)) {
			err = l.index.Remove(ctx, []schedule.Entry{old})
		}
		return schedule.Outcome{Event: &after}, err
	}
}

// move sets the due times of open events in the index. Another process may change and move an event
// concurrently, so move then checks that the event had not changed before.
func (l *TableLedger) move(ctx context.Context, events []*schedule.Event) error {
	for {
		events = slices.DeleteFunc(events, func(e *schedule.Event) bool { return e == nil || !e.Status.Open() })
		if len(events) == 0 {
			return nil
		}
		entries, ids := make([]schedule.Entry, len(events)), make([]string, len(events))
		for i, e := range events {
			entries[i], ids[i] = entry(e), e.ID
		}
		if err := l.index.Move(ctx, entries); err != nil {
			return err
		}
		found, err := l.table.Get(ctx, ids)
		if err != nil {
			return err
		}
		for i, e := range found {
			if e != nil && e.Version == events[i].Version {
				found[i] = nil
			}
		}
		events = found
	}
}

// List returns a page of events, in no particular order.
func (l *TableLedger) List(ctx context.Context, filter schedule.Filter) ([]schedule.Event, string, error) {
	page, next, err := l.table.List(ctx, filter)
	if err != nil || filter.Partition == nil {
		return page, next, err
	}
	members, err := l.Members(ctx, "", 0)
	if err != nil {
		return nil, "", err
	}
	var selected []schedule.Event
	for i := range page {
		if members.Count > 0 && schedule.Partition(page[i].ID, members.Count) == *filter.Partition {
			selected = append(selected, page[i])
		}
	}
	return selected, next, nil
}

// Claim takes entries from the index, and makes their events FIRING if the table allows it.
func (l *TableLedger) Claim(ctx context.Context, claim schedule.Claim) (schedule.Claimed, error) {
	taken, next, now, err := l.index.Take(ctx, claim.Partition, claim.Limit, claim.Lease)
	out := schedule.Claimed{Now: now, Next: next}
	if err != nil || len(taken) == 0 {
		return out, err
	}
	ids := make([]string, len(taken))
	for i := range taken {
		ids[i] = taken[i].ID
	}
	claimed, failed := l.table.Claim(ctx, ids, claim.Owner, now, now.Add(claim.Lease))
	var others []string
	for i, id := range ids {
		if claimed[i] != nil {
			out.Events = append(out.Events, *claimed[i])
		} else {
			others = append(others, id)
		}
	}
	if len(others) == 0 {
		return out, nil
	}
	var first time.Time
	if failed != nil {
		first, err = l.giveBack(ctx, others, now)
	} else {
		first, err = l.correct(ctx, claim.Partition, others)
	}
	out.Next = event.Earlier(out.Next, first)
	if len(out.Events) > 0 { // publish claimed events, whatever else went wrong
		return out, nil
	}
	return out, errors.Join(failed, err)
}

// unclaimedPause delays an event that could not be claimed because the table did not respond.
const unclaimedPause = time.Second

// giveBack makes events that were taken from the index due again soon, instead of at the end of the
// lease. Events that were claimed nevertheless are corrected at that time.
func (l *TableLedger) giveBack(ctx context.Context, ids []string, now time.Time) (time.Time, error) {
	soon := now.Add(unclaimedPause)
	entries := make([]schedule.Entry, len(ids))
	for i, id := range ids {
		entries[i] = schedule.Entry{ID: id, Next: soon}
	}
	return soon, l.index.Move(ctx, entries)
}

// correct updates the index entries of events that were taken from it but could not be claimed. It
// returns when the first of them is due. Entries of events that another kind of Ledger keeps in Redis
// stay until that publishes them.
func (l *TableLedger) correct(ctx context.Context, partition int, ids []string) (first time.Time, err error) {
	found, err := l.table.Get(ctx, ids)
	if err != nil {
		return first, err
	}
	var unknown []string
	for i, e := range found {
		if e == nil {
			unknown = append(unknown, ids[i])
		} else if e.Status.Open() {
			first = event.Earlier(first, entry(e).Next)
		}
	}
	others, err := l.index.InRedis(ctx, partition, unknown)
	if err != nil {
		return first, err
	}
	if err := l.move(ctx, found); err != nil {
		return first, err
	}
	ids = slices.DeleteFunc(ids, func(id string) bool { return slices.Contains(others, id) })
	if err := l.index.Release(ctx, partition, ids); err != nil || len(others) == 0 {
		return first, err
	}
	return first, fmt.Errorf("due events, among them %s, are in Redis and not in the table: only a scheduler with SCHEDULER_RECORDS=redis publishes them", others[0])
}

// Settle records the outcomes of publications.
func (l *TableLedger) Settle(ctx context.Context, partition int, ends []schedule.Settled, now time.Time) ([]bool, error) {
	took, err := l.table.Settle(ctx, ends, now)
	var open []schedule.Entry
	var settled []string
	for i := range ends {
		if !took[i] {
			continue
		}
		settled = append(settled, ends[i].ID)
		if ends[i].Status.Open() {
			open = append(open, schedule.Entry{ID: ends[i].ID, Next: ends[i].Next})
		}
	}
	moved := l.index.Move(ctx, open)
	if moved == nil { // otherwise events that stay open are taken again when the lease expires
		moved = l.index.Release(ctx, partition, settled)
	}
	return took, errors.Join(err, moved)
}

// entry returns the entry of an open event in an index.
func entry(e *schedule.Event) schedule.Entry {
	if e.Status == schedule.Firing {
		return schedule.Entry{ID: e.ID, Next: e.Lease}
	}
	return schedule.Entry{ID: e.ID, Next: e.Next}
}
