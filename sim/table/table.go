// Package table is an in-memory table of scheduled events for the simulator. It is as
// deterministic as its hook.
package table

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"flunq.io/flunq/engine/schedule"
)

// Table is a scheduler.Table in memory.
type Table struct {
	opts Options

	mu      sync.Mutex
	records map[string]*record
}

// Options of a Table.
type Options struct {
	// Hook, if set, is called for each request: the name of a method, and the id of an event, ""
	// for List and Open. A call with several events sends one request for each. The hook may call
	// carryOut, before or after waiting. It returns what the client sees: nil if the reply
	// arrives, or an error instead of the reply. So it can crash the client before or after the
	// request, lose the request or its reply, delay, throttle, and be unavailable.
	Hook func(ctx context.Context, method, id string, carryOut func()) error
	// Now is the clock of the index of open events; it may be nil without a Lag.
	Now func() time.Time
	// Lag, if set, returns how long after a write Open sees it.
	Lag func() time.Duration
}

// record is an event, and what Open sees of it.
type record struct {
	event   schedule.Event
	indexed []indexed // the oldest first
}

// indexed is the state of an event in the index of open events from some time on.
type indexed struct {
	from time.Time
	open bool
	look time.Time
}

// New returns an empty Table.
func New(opts Options) *Table { return &Table{opts: opts, records: map[string]*record{}} }

// request carries out a request under the lock, through the hook.
func (t *Table) request(ctx context.Context, name, id string, do func()) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	carryOut := func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		do()
	}
	if t.opts.Hook == nil {
		carryOut()
		return nil
	}
	if err := t.opts.Hook(ctx, name, id, carryOut); err != nil {
		return fmt.Errorf("%s event %s: %w", strings.ToLower(name), id, err)
	}
	return nil
}

// write stores an event.
func (t *Table) write(e schedule.Event) {
	e = clone(e)
	if e.Status != schedule.Firing {
		e.Owner, e.Lease = "", time.Time{}
	}
	r := t.records[e.ID]
	if r == nil {
		r = &record{}
		t.records[e.ID] = r
	}
	r.event = e
	seen := indexed{open: e.Status.Open(), look: look(&e)}
	if t.opts.Lag != nil {
		seen.from = t.opts.Now().Add(t.opts.Lag())
	}
	r.indexed = append(r.indexed, seen)
}

// look returns when an open event is due, or when its lease ends.
func look(e *schedule.Event) time.Time {
	if e.Status == schedule.Firing {
		return e.Lease
	}
	return e.Next
}

func clone(e schedule.Event) schedule.Event {
	e.Headers, e.Payload = maps.Clone(e.Headers), slices.Clone(e.Payload)
	return e
}

// Put stores each event unless one with its id exists.
func (t *Table) Put(ctx context.Context, events []schedule.Event) ([]schedule.Placed, error) {
	placed := make([]schedule.Placed, len(events))
	for i, e := range events {
		if err := t.request(ctx, "Put", e.ID, func() {
			if t.records[e.ID] == nil {
				t.write(e)
				placed[i].Created = true
			}
			stored := clone(t.records[e.ID].event)
			placed[i].Event = &stored
		}); err != nil {
			return placed, err
		}
	}
	return placed, nil
}

// Get returns events in the order of their ids, nil for each that does not exist.
func (t *Table) Get(ctx context.Context, ids []string) ([]*schedule.Event, error) {
	found := make([]*schedule.Event, len(ids))
	for i, id := range ids {
		if err := t.request(ctx, "Get", id, func() {
			if r := t.records[id]; r != nil {
				e := clone(r.event)
				found[i] = &e
			}
		}); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// Claim sets the status of events to FIRING and returns the events that it changed.
func (t *Table) Claim(ctx context.Context, ids []string, owner string, now, lease time.Time) ([]*schedule.Event, error) {
	claimed := make([]*schedule.Event, len(ids))
	for i, id := range ids {
		var won *schedule.Event
		if err := t.request(ctx, "Claim", id, func() {
			r := t.records[id]
			if r == nil || !r.event.Status.Open() || look(&r.event).After(now) {
				return
			}
			e := clone(r.event)
			if e.Status == schedule.Firing {
				e.Attempts++
			}
			e.Status, e.Owner, e.Lease = schedule.Firing, owner, lease
			e.Version, e.Updated = e.Version+1, now
			t.write(e)
			won = &e
		}); err != nil {
			return claimed, err
		}
		claimed[i] = won
	}
	return claimed, nil
}

// Settle records the ends of publications.
func (t *Table) Settle(ctx context.Context, ends []schedule.Settled, now time.Time) ([]bool, error) {
	took := make([]bool, len(ends))
	for i, end := range ends {
		fits := false
		if err := t.request(ctx, "Settle", end.ID, func() {
			r := t.records[end.ID]
			if fits = r != nil && r.event.Status == schedule.Firing && r.event.Version == end.Version; !fits {
				return
			}
			e := r.event
			e.Status, e.Attempts, e.Failures, e.Error = end.Status, end.Attempts, end.Failures, end.Error
			e.Version, e.Updated, e.Owner = e.Version+1, now, ""
			if e.Status.Open() {
				e.Next, e.Lease = end.Next, end.Next
			}
			if e.Status == schedule.Fired {
				e.Published = now
			}
			t.write(e)
		}); err != nil {
			return took, err
		}
		took[i] = fits
	}
	return took, nil
}

// Replace stores an event instead of its previous version.
func (t *Table) Replace(ctx context.Context, e schedule.Event) (replaced bool, err error) {
	err = t.request(ctx, "Replace", e.ID, func() {
		if r := t.records[e.ID]; r != nil && r.event.Version == e.Version-1 {
			t.write(e)
			replaced = true
		}
	})
	return replaced && err == nil, err
}

// List returns a page of all events, in the order of their ids. The cursor is the last one.
func (t *Table) List(ctx context.Context, filter schedule.Filter) (page []schedule.Event, next string, err error) {
	if filter.Cursor != "" {
		if err := schedule.CheckID(filter.Cursor); err != nil {
			return nil, "", fmt.Errorf("%w: %w", schedule.ErrCursor, err)
		}
	}
	err = t.request(ctx, "List", "", func() {
		for _, id := range slices.Sorted(maps.Keys(t.records)) {
			e := &t.records[id].event
			if id <= filter.Cursor || !filter.Matches(e) {
				continue
			}
			if filter.Limit > 0 && len(page) == filter.Limit {
				next = page[len(page)-1].ID
				return
			}
			page = append(page, clone(*e))
		}
	})
	return page, next, err
}

// openPage is the length of a page of Open; short so that tests see several.
const openPage = 10

// Open returns a page of the entries of open events, as the index has them: the oldest first.
// The cursor is the last one.
func (t *Table) Open(ctx context.Context, before time.Time, cursor string) (page []schedule.Entry, next string, err error) {
	after, err := parse(cursor)
	if err != nil {
		return nil, "", err
	}
	err = t.request(ctx, "Open", "", func() {
		for id, r := range t.records {
			seen := t.visible(r)
			e := schedule.Entry{ID: id, Next: seen.look}
			if seen.open && (before.IsZero() || seen.look.Before(before)) && compare(e, after) > 0 {
				page = append(page, e)
			}
		}
	})
	slices.SortFunc(page, compare)
	if len(page) > openPage {
		page = page[:openPage]
		last := page[openPage-1]
		next = strconv.FormatInt(last.Next.UnixMilli(), 10) + " " + last.ID
	}
	return page, next, err
}

// visible returns what Open sees of an event now, and discards older states.
func (t *Table) visible(r *record) indexed {
	for len(r.indexed) > 1 && !r.indexed[1].from.After(t.now()) {
		r.indexed = r.indexed[1:]
	}
	if r.indexed[0].from.After(t.now()) {
		return indexed{}
	}
	return r.indexed[0]
}

func (t *Table) now() time.Time {
	if t.opts.Now == nil {
		return time.Time{}
	}
	return t.opts.Now()
}

func compare(a, b schedule.Entry) int {
	return cmp.Or(a.Next.Compare(b.Next), strings.Compare(a.ID, b.ID))
}

func parse(cursor string) (e schedule.Entry, err error) {
	if cursor == "" {
		return e, nil
	}
	ms, id, _ := strings.Cut(cursor, " ")
	n, err := strconv.ParseInt(ms, 10, 64)
	if err != nil {
		return e, fmt.Errorf("%w %.60q: %w", schedule.ErrCursor, cursor, err)
	}
	return schedule.Entry{ID: id, Next: time.UnixMilli(n)}, nil
}

// Events returns all events in the order of their ids, without calling the hook.
func (t *Table) Events() []schedule.Event {
	t.mu.Lock()
	defer t.mu.Unlock()
	events := make([]schedule.Event, 0, len(t.records))
	for _, id := range slices.Sorted(maps.Keys(t.records)) {
		events = append(events, clone(t.records[id].event))
	}
	return events
}
