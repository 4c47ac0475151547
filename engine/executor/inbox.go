package executor

import (
	"context"
	"slices"
	"sync"
	"time"

	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/store"
)

// Inbox reads requests for the executors of one process, which are one consumer
// together. Only requests are kept; all other events are acknowledged at once.
type Inbox struct {
	store  *store.Store
	reader store.Reader
	opts   InboxOptions

	mu      sync.Mutex
	waiting []store.Message // read, and not begun
	busy    []store.Message // being performed
}

// InboxOptions of an Inbox.
type InboxOptions struct {
	Batch int           // events read at once; 1 to 1000
	Block time.Duration // how long a read waits for events; 0 in simulation
	Lease time.Duration // after which a silent consumer's requests are claimed
}

// NewInbox is the inbox of one process.
func NewInbox(st *store.Store, reader store.Reader, opts InboxOptions) *Inbox {
	return &Inbox{store: st, reader: reader, opts: opts}
}

// take hands out a request, nil if there is none; then wake says when to ask again.
func (b *Inbox) take(ctx context.Context) (m *store.Message, wake time.Time, err error) {
	if m, ok := b.next(); ok {
		return m, m.Read, nil
	}
	msgs, now, err := b.store.Read(ctx, b.reader, b.opts.Batch, b.opts.Block)
	if err != nil {
		return nil, now, err
	}
	if len(msgs) == 0 {
		msgs, wake, err = b.store.Orphans(ctx, b.reader, b.opts.Lease, b.opts.Batch, now)
		if err != nil || len(msgs) == 0 {
			return nil, wake, err
		}
	}
	if err := b.store.Ack(ctx, b.sort(msgs)...); err != nil {
		return nil, now, err
	}
	m, _ = b.next()
	return m, now, nil
}

// sort keeps the requests, and returns all else.
func (b *Inbox) sort(msgs []store.Message) (rest []store.Message) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, m := range msgs {
		switch {
		case m.Event.Type != event.TaskRequested:
			rest = append(rest, m)
		case !b.has(m):
			b.waiting = append(b.waiting, m)
		}
	}
	return rest
}

// has reports whether a claimed message is one of our own, which is at work still.
func (b *Inbox) has(m store.Message) bool {
	same := func(other store.Message) bool { return other.Tenant == m.Tenant && other.ID == m.ID }
	return slices.ContainsFunc(b.waiting, same) || slices.ContainsFunc(b.busy, same)
}

func (b *Inbox) next() (*store.Message, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.waiting) == 0 {
		return nil, false
	}
	m := b.waiting[0]
	b.waiting = b.waiting[1:]
	b.busy = append(b.busy, m)
	return &m, true
}

// done forgets a request that was answered.
func (b *Inbox) done(m store.Message) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.busy = slices.DeleteFunc(b.busy, func(other store.Message) bool { return other.Tenant == m.Tenant && other.ID == m.ID })
}

// giveBack puts a request back that could not be answered.
func (b *Inbox) giveBack(m store.Message) {
	b.done(m)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.waiting = append(b.waiting, m)
}

// Held are the messages that were read and not answered yet.
func (b *Inbox) Held() []store.Message {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Concat(b.busy, b.waiting)
}

// Renewal keeps the leases of what an inbox holds, as long as its process lives.
type Renewal struct{ inbox *Inbox }

// NewRenewal is the renewal of an inbox's leases.
func NewRenewal(b *Inbox) *Renewal { return &Renewal{inbox: b} }

// Step renews all leases, and wants to be called again after a third of a lease.
func (r *Renewal) Step(ctx context.Context) (wake time.Time, err error) {
	b := r.inbox
	held := b.Held()
	if len(held) == 0 {
		return time.Time{}, nil
	}
	if err := b.store.Renew(ctx, held...); err != nil {
		return time.Time{}, err
	}
	now, err := b.store.Now(ctx)
	return now.Add(b.opts.Lease / 3), err
}
