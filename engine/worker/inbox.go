package worker

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"flunq.io/flunq/engine/delivery"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/store"
)

// Inbox reads events for the workers of one process, which are one consumer
// together. Each takes a batch; those of one execution are in one pair of hands at
// a time, so that workers of a process are never in each other's way.
type Inbox struct {
	consumer *delivery.Consumer
	opts     delivery.Options

	mu         sync.Mutex
	waiting    queues
	contention delivery.Contention
	batches    [][]store.Message // in the hands of the workers
	busy       map[address]bool  // executions of these
	reading    bool              // one of the workers reads, for all of them
	looked     bool              // … what others have than those of whom there is enough, since a batch was done
	changed    chan struct{}
	awaited    bool // by somebody
}

// NewInbox is the inbox of one process.
func NewInbox(st *store.Store, opts delivery.Options) (*Inbox, error) {
	opts.Wants = concerns
	if opts.Isolation == nil {
		opts.Isolation = &delivery.Isolation{}
	}
	consumer, err := delivery.NewConsumer(st, opts)
	if err != nil {
		return nil, err
	}
	return &Inbox{consumer: consumer, opts: opts, busy: map[address]bool{}, changed: make(chan struct{})}, nil
}

// concerns reports whether the worker takes events of a type.
func concerns(t event.Type) bool {
	switch t {
	case event.ExecutionStarted, event.ExecutionCancelled, event.ExecutionSuspended, event.ExecutionResumed,
		event.ExecutionRetried, event.TaskCompleted, event.TimerFired,
		event.EventDead, event.TaskDead, event.TimerDead:
		return true
	default:
		return !strings.HasPrefix(string(t), event.Prefix)
	}
}

// take hands out messages of one tenant, none if there are none; then wake says
// when to ask again. Who waits while another one reads comes back when that one does,
// so that it is seen to live.
func (b *Inbox) take(ctx context.Context) (batch []store.Message, wake time.Time, err error) {
	for range 2 {
		batch, read, changed := b.next()
		switch {
		case len(batch) > 0:
			return batch, wake, nil
		case read != nil:
			return b.read(ctx, *read)
		case b.opts.Block == 0:
			return nil, time.Time{}, nil // whoever has what waits takes it up when it is done
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, time.Time{}, nil
		}
	}
	return nil, time.Time{}, nil
}

// ask is what to read.
type ask struct {
	count  int
	enough []string // not of these tenants: there is enough of them
	block  time.Duration
}

// next is a batch to begin; without one, what to read, or what to wait for. Before each
// batch of a tenant of whom much waits there is a look at what others have, and while
// several have work, whoever has nothing to do waits for that.
func (b *Inbox) next() (batch []store.Message, read *ask, changed <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	enough, count := b.enough(), b.contention.Portion(b.opts.Batch)
	all := len(enough) > 0 && len(enough) == len(b.opts.Tenants.Names()) && b.opts.Block > 0 // there is nobody else to read
	if len(enough) > 0 && !all && !b.reading && !b.looked {
		b.reading, b.looked = true, true
		return nil, &ask{count, enough, 0}, nil
	}
	if batch := b.pick(); len(batch) > 0 {
		return batch, nil, nil
	}
	// Reads that do not wait can be done side by side.
	apart := len(enough) > 0 && b.contention.Any()
	names := b.opts.Tenants.Names()
	full := b.waiting.size >= b.opts.Batch || len(names) == 1 && b.waiting.heavy(names[0])
	if all || b.reading && b.opts.Block > 0 || full && !apart || apart && b.opts.Block == 0 {
		b.awaited = true
		return nil, nil, b.changed
	}
	b.reading = true
	if apart {
		return nil, &ask{count, enough, min(b.opts.Block, patience)}, nil
	}
	return nil, &ask{count: count, block: b.opts.Block}, nil
}

// patience is how long a read waits that leaves out those of whom there is enough.
const patience = 2 * time.Millisecond

// enough are the tenants of whom nothing needs to be read now, where that would keep
// others waiting.
func (b *Inbox) enough() []string {
	if len(b.opts.Tenants.Names()) < 2 {
		return nil
	}
	return b.waiting.with(max(b.opts.Batch/2, 1))
}

// read gets new messages, and takes a batch of them.
func (b *Inbox) read(ctx context.Context, what ask) (batch []store.Message, wake time.Time, err error) {
	f, err := b.consumer.Fetch(ctx, what.count, what.block, what.enough...)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.reading = false
	b.contention.Saw(f.Messages, f.Now)
	kept := f.Messages[:0]
	for i := range f.Messages {
		switch m := &f.Messages[i]; {
		case !concerns(m.Event.Type):
			b.consumer.Pass(*m)
			f.Wake = f.Now // to acknowledge it
		case !m.Claimed || !b.has(*m):
			kept = append(kept, *m)
		}
	}
	b.waiting.put(kept)
	b.broadcast()
	if batch = b.pick(); len(batch) > 0 {
		return batch, f.Now, nil // an error comes again when there is nothing else
	}
	return nil, f.Wake, err
}

// pick begins a batch of what waits, if there is something that may begin now. Tenants
// take turns. Of one that is not alone a single batch is in hand: what several would
// have Redis do stands before what the others want of it.
func (b *Inbox) pick() []store.Message {
	for range b.waiting.tenants() {
		waiting := b.waiting.next()
		if b.contention.Any() && b.inHand(waiting[0].Tenant) {
			b.waiting.leave(waiting)
			continue
		}
		batch, rest := b.split(waiting)
		b.waiting.leave(rest)
		if len(batch) == 0 {
			continue
		}
		b.batches = append(b.batches, batch)
		for i := range batch {
			b.busy[addressOf(&batch[i])] = true
		}
		return batch
	}
	return nil
}

// inHand reports whether a worker has a batch of a tenant.
func (b *Inbox) inHand(tenant string) bool {
	return slices.ContainsFunc(b.batches, func(batch []store.Message) bool { return batch[0].Tenant == tenant })
}

// split takes what may begin now from the messages of one tenant. What is in the batch
// stays where it is: it is much to copy.
func (b *Inbox) split(msgs []store.Message) (batch, rest []store.Message) {
	batch = msgs[:0]
	most := b.contention.Share(b.opts.Batch)
	var held map[address]bool // executions of which something has to wait
	for i := range msgs {
		m := &msgs[i]
		if len(batch) >= most || len(batch) > 0 && delivery.PoisonCandidate(batch[0]) {
			rest = append(rest, msgs[i:]...)
			break
		}
		if key := addressOf(m); b.busy[key] || held[key] || !b.joins(batch, *m) {
			if held == nil {
				held = map[address]bool{}
			}
			held[key] = true
			rest = append(rest, *m)
		} else {
			batch = append(batch, *m)
		}
	}
	return slices.Clip(batch), rest
}

// joins reports whether a message may be handled with a batch of its tenant: it is no
// suspect, which is handled alone.
func (b *Inbox) joins(batch []store.Message, m store.Message) bool {
	if len(batch) == 0 {
		return b.opts.Isolation.Enter(m)
	}
	return !delivery.PoisonCandidate(m)
}

// address names an execution.
type address struct{ tenant, id string }

// addressOf is the execution that a message is about; one from outside is about itself.
func addressOf(m *store.Message) address {
	if m.Event.Execution == "" || !strings.HasPrefix(string(m.Event.Type), event.Prefix) {
		return address{m.Tenant, "/" + m.ID}
	}
	return address{m.Tenant, m.Event.Execution}
}

// done takes a batch back, and what of it is to be handled again: before what other
// tenants have unless the tenant has had its turn.
func (b *Inbox) done(batch, again []store.Message, turn bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.looked = false
	b.opts.Isolation.Leave()
	for i := range batch {
		delete(b.busy, addressOf(&batch[i]))
	}
	b.batches = slices.DeleteFunc(b.batches, func(other []store.Message) bool { return other[0].Same(batch[0]) })
	b.waiting.back(again)
	if turn && len(again) > 0 {
		b.waiting.yield()
	}
	b.broadcast()
}

// release hands back messages for which Redis has no memory, so that commands of operators
// are read that stand behind them in the stream, and returns those that it cannot. They are
// claimed again when nothing new is left to be read.
func (b *Inbox) release(ctx context.Context, msgs []store.Message) []store.Message {
	if !b.opts.Reclaim || b.consumer.Store.Release(ctx, msgs...) != nil {
		return msgs
	}
	return nil
}

// broadcast wakes all workers that wait.
func (b *Inbox) broadcast() {
	if b.awaited {
		close(b.changed)
		b.changed, b.awaited = make(chan struct{}), false
	}
}

// has reports whether a claimed message is one of this process, which is at work still.
func (b *Inbox) has(m store.Message) bool {
	return b.waiting.has(m) ||
		slices.ContainsFunc(b.batches, func(batch []store.Message) bool { return slices.ContainsFunc(batch, m.Same) })
}

// Finish acknowledges what was read and means nothing to a worker.
func (b *Inbox) Finish(ctx context.Context) error { return b.consumer.Finish(ctx) }

// Held are the messages that were read and not handled yet.
func (b *Inbox) Held() []store.Message {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Concat(append(slices.Clone(b.batches), b.waiting.all(), b.consumer.Held())...)
}
