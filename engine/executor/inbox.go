package executor

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"flunq.io/flunq/engine/delivery"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/store"
)

// Inbox reads requests for the executors of one process, which are one consumer
// together. Only requests are kept; all other events are acknowledged at once.
type Inbox struct {
	desk *delivery.Desk
	opts delivery.Options
	gate delivery.Gate
	size int // executors that it serves

	mu      sync.Mutex
	waiting []*job // read, and not begun
	busy    []*job // being performed
	reading bool   // one of the executors reads, for all of them
	closed  bool   // nothing is begun any more
	changed chan struct{}
}

// job is a request in the hands of an executor.
type job struct {
	message store.Message
	reply   *event.Event // what it came to, if only the report of it is missing
	cancel  context.CancelCauseFunc
}

// errLost is why a task ends whose request is another consumer's.
var errLost = errors.New("the request is another executor's by now")

// NewInbox is the inbox of one process.
func NewInbox(st *store.Store, opts delivery.Options) (*Inbox, error) {
	desk, err := delivery.NewDesk(st, opts)
	if err != nil {
		return nil, err
	}
	return &Inbox{desk: desk, opts: opts, changed: make(chan struct{})}, nil
}

// take hands out a request, nil if there is none; then wake says when to ask again.
func (b *Inbox) take(ctx context.Context) (j *job, wake time.Time, err error) {
	for {
		j, count, changed := b.next()
		switch {
		case j != nil:
			return j, j.message.Read, nil
		case count > 0:
			return b.read(ctx, count)
		case changed == nil || b.opts.Block == 0:
			return nil, time.Time{}, nil // whoever reads, or is performed alone, wakes the others
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, time.Time{}, nil
		}
	}
}

// fewest is how many events are read at least: most of them are no requests.
const fewest = 10

// next is a request to begin; without one, how many events to read, and if
// somebody else reads, or what waits cannot begin, what to wait for.
func (b *Inbox) next() (j *job, read int, changed <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.closed:
		return nil, 0, nil
	case len(b.waiting) > 0:
		if j := b.first(); j != nil {
			return j, 0, nil
		}
		return nil, 0, b.changed
	case b.reading && b.opts.Block > 0: // reads that do not wait can be done side by side
		return nil, 0, b.changed
	}
	b.reading = true
	return nil, max(fewest, b.size-len(b.busy)), nil
}

// first begins the request that waits longest; nil if it may not begin now.
func (b *Inbox) first() *job {
	if len(b.waiting) == 0 || !b.gate.Enter(b.waiting[0].message) {
		return nil
	}
	j := b.waiting[0]
	b.waiting = b.waiting[1:]
	b.busy = append(b.busy, j)
	return j
}

// read gets new requests for all executors, and begins the first.
func (b *Inbox) read(ctx context.Context, count int) (j *job, wake time.Time, err error) {
	msgs, now, wake, err := b.desk.Fetch(ctx, count, b.opts.Block)
	j, rest := b.sort(msgs)
	if len(rest) > 0 {
		err = b.desk.Store.Ack(ctx, rest...)
	}
	if j != nil {
		return j, now, nil // what has begun is more urgent than an error: the rest comes back
	}
	return nil, wake, err
}

// sort keeps the requests, begins the first, and returns all else.
func (b *Inbox) sort(msgs []store.Message) (j *job, rest []store.Message) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, m := range msgs {
		switch {
		case m.Event.Type != event.TaskRequested:
			rest = append(rest, m)
		case !b.has(m):
			b.waiting = append(b.waiting, &job{message: m})
		}
	}
	b.reading = false
	b.broadcast()
	if b.closed {
		return nil, rest
	}
	return b.first(), rest
}

// Close begins no further requests.
func (b *Inbox) Close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	b.broadcast()
}

// begun notes how to end what is being done for a request.
func (b *Inbox) begun(j *job, cancel context.CancelCauseFunc) {
	b.mu.Lock()
	defer b.mu.Unlock()
	j.cancel = cancel
}

// broadcast wakes all executors that wait.
func (b *Inbox) broadcast() {
	close(b.changed)
	b.changed = make(chan struct{})
}

// has reports whether a claimed message is one of our own, which is at work still.
func (b *Inbox) has(m store.Message) bool {
	same := func(j *job) bool { return j.message.Same(m) }
	return slices.ContainsFunc(b.waiting, same) || slices.ContainsFunc(b.busy, same)
}

// done takes a request back that was worked on: one that could not be answered
// waits again.
func (b *Inbox) done(j *job, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.gate.Leave()
	b.busy = slices.DeleteFunc(b.busy, func(other *job) bool { return other == j })
	if err != nil {
		b.waiting = append(b.waiting, j)
	}
	b.broadcast()
}

// Held are the messages that were read and not answered yet.
func (b *Inbox) Held() []store.Message {
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []store.Message
	for _, j := range slices.Concat(b.busy, b.waiting) {
		out = append(out, j.message)
	}
	return out
}

// Lost tells the inbox of messages that are another consumer's: what is being
// done for them is not wanted any more.
func (b *Inbox) Lost(msgs []store.Message) {
	b.mu.Lock()
	defer b.mu.Unlock()
	lost := func(j *job) bool { return slices.ContainsFunc(msgs, j.message.Same) }
	for _, j := range b.busy {
		if lost(j) && j.cancel != nil {
			j.cancel(errLost)
		}
	}
	b.waiting = slices.DeleteFunc(b.waiting, lost)
	b.gate.Give() // if a suspect still waits, it says so again
	b.broadcast()
}
