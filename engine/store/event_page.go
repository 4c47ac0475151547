package store

import (
	"context"
	"fmt"
	"time"

	"flunq.io/flunq/engine/event"
)

// Published is an entry of a tenant's stream.
type Published struct {
	ID    string
	At    time.Time // when it was written
	Event event.Event
	Err   error // why the entry is no event, if so
}

// longData is from how many bytes on data is left out where that was asked for.
const longData = 2048

// Events are a page of the entries of a tenant's stream, the newest first; long data
// is left out. The id at which to go on comes with them, "" at the end.
func (s *Store) Events(ctx context.Context, q DeadLetterQuery) (found []Published, next string, err error) {
	if err := CheckTenant(q.Tenant); err != nil {
		return nil, "", err
	}
	q.Brief = true
	entries, err := s.entries(ctx, s.keys.Stream(q.Tenant), q)
	if err != nil {
		return nil, "", failed("read the events", err)
	}
	for _, e := range entries {
		found = append(found, s.published(e))
	}
	if n := len(entries); n > 0 && n == q.Count {
		next = neighbour(entries[n-1].id, q.Oldest)
	}
	return found, next, nil
}

// Event is an entry of a tenant's stream with all of its data; ErrNotFound if the
// stream does not have it any more.
func (s *Store) Event(ctx context.Context, tenant, id string) (Published, error) {
	if err := CheckTenant(tenant); err != nil {
		return Published{}, err
	}
	if idTime(id).IsZero() {
		return Published{}, fmt.Errorf("%w: event %q, want an id such as 1767225600000-0", ErrName, id)
	}
	entries, err := s.entries(ctx, s.keys.Stream(tenant), DeadLetterQuery{From: id, To: id, Count: 1})
	if err != nil {
		return Published{}, failed("read an event", err)
	}
	if len(entries) == 0 {
		return Published{}, fmt.Errorf("event %s of tenant %s: %w: the stream was shortened", id, tenant, ErrNotFound)
	}
	return s.published(entries[0]), nil
}

func (s *Store) published(e entry) Published {
	p := Published{ID: e.id, At: idTime(e.id)}
	p.Event, p.Err = s.decode(e.fields)
	return p
}
