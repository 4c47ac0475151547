package worker

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"flunq.io/flunq/engine/delivery"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/stream"
)

// Inbox reads events for the workers of one process, which share one consumer. Each worker takes a
// batch. Only one worker at a time handles the events of an execution, so workers of a process
// conflict only if one of them gives an event from outside to an execution that listens for it.
type Inbox struct {
	consumer *delivery.Consumer
	large    *delivery.Consumer // reads the tenants with large events while there are others
	opts     delivery.Options

	isolation delivery.Isolation

	mu         sync.Mutex
	waiting    queues
	contention delivery.Contention
	batches    [][]store.Message // that workers are handling
	busy       map[address]bool  // executions of these batches
	reading    bool              // one worker reads for all of them
	readsLarge bool              // one worker reads from large
	largeDue   bool              // the other tenants were read since
	largeAt    time.Time         // when large found events last
	othersRead bool              // the tenants with short queues were read since a batch was done
	changed    chan struct{}
	awaited    bool            // a worker waits for changed
	commandsAt time.Time       // when commands were looked for last
	paused     map[string]bool // tenants whose next batch is delayed, see pause
}

// NewInbox returns the inbox of one process.
func NewInbox(st *store.Store, opts delivery.Options) (*Inbox, error) {
	opts.Wants = Handles
	consumer, err := delivery.NewConsumer(st, opts)
	if err != nil {
		return nil, err
	}
	return &Inbox{consumer: consumer, large: consumer.Sibling(), opts: opts, busy: map[address]bool{}, paused: map[string]bool{}, changed: make(chan struct{})}, nil
}

// Handles reports whether a worker handles events of type t.
func Handles(t event.Type) bool {
	switch t {
	case event.ExecutionStarted, event.ExecutionCancelled, event.ExecutionSuspended, event.ExecutionResumed,
		event.ExecutionRetried, event.TaskCompleted, event.TimerFired,
		event.EventDead, event.TaskDead, event.TimerDead:
		return true
	default:
		return !strings.HasPrefix(string(t), event.Prefix)
	}
}

// action is a worker's next action.
type action struct {
	batch   []store.Message // handle it
	changed <-chan struct{} // wait until it is closed

	// If both are nil, read.
	count int      // events of each tenant
	skip  []string // tenants to leave out
	block time.Duration
	large bool // from Inbox.large
}

// take returns a batch of one tenant's messages, after it has read some if necessary. If there are none,
// wake is when to call again. A waiting worker returns when the current reader finishes, so its heartbeat
// stays fresh.
func (in *Inbox) take(ctx context.Context) (batch []store.Message, wake time.Time, err error) {
	a := in.next()
	for waits := 0; a.changed != nil; a = in.next() {
		if waits++; waits > 2 || in.opts.Block == 0 { // in simulation, the worker that holds these executions takes the rest when it is done
			return nil, time.Time{}, nil
		}
		select {
		case <-a.changed:
		case <-ctx.Done():
			return nil, time.Time{}, nil
		}
	}
	if len(a.batch) > 0 {
		return a.batch, wake, nil
	}
	consumer, reads := in.consumer, &in.reading
	if a.large {
		consumer, reads = in.large, &in.readsLarge
	}
	f, err := consumer.Fetch(ctx, a.count, a.block, a.skip...)
	in.mu.Lock()
	defer in.mu.Unlock()
	*reads, in.largeDue = false, in.largeDue || !a.large
	if a.large && f.Events > 0 || in.largeAt.IsZero() {
		in.largeAt = f.Now
	} else if a.large && f.Now.Sub(in.largeAt) > largeTime {
		in.large.ForgetLarge()
	}
	in.contention.Record(f.Messages, f.Now)
	in.waiting.put(slices.DeleteFunc(f.Messages, func(m store.Message) bool { return m.Claimed && in.has(m) }))
	in.broadcast()
	if batch = in.pick(); len(batch) > 0 {
		return batch, f.Now, nil // the error will recur when nothing else is left
	}
	return nil, f.Wake, err
}

// next decides what a worker does next. A batch comes first, but before each batch of a tenant with a
// long queue, the other tenants are read once. While no batch may begin, one worker reads for all.
func (in *Inbox) next() action {
	in.mu.Lock()
	defer in.mu.Unlock()
	tenants, blocks := in.opts.Tenants.Names(), in.opts.Block > 0
	var enough []string // tenants with so many messages that reading more of them would delay the others
	if len(tenants) > 1 {
		enough = in.waiting.atLeast(max(in.opts.Batch/2, 1))
	}
	var large []string // tenants whose large events another worker reads; none if that is all of them
	if all := in.consumer.Large(); blocks && len(all) < len(tenants) {
		large = delivery.Without(all, enough)
	}
	allHaveEnough := blocks && len(enough) > 0 && len(enough) == len(tenants)

	a := action{count: in.contention.ReadSize(in.opts.Batch), skip: slices.Concat(enough, large)}
	if len(enough) > 0 && !allHaveEnough && !in.reading && !in.othersRead {
		in.reading, in.othersRead = true, true
		return a
	}
	if batch := in.pick(); len(batch) > 0 {
		return action{batch: batch}
	}
	contended := len(enough) > 0 && in.contention.Any()
	full := in.waiting.Size() >= in.opts.Batch || len(tenants) == 1 && in.waiting.tooLarge(tenants[0])
	switch {
	case allHaveEnough:
		return in.wait()
	case len(large) > 0 && !in.readsLarge && !full && (in.reading || in.largeDue):
		// The others would wait for as long as Redis sends the large events.
		a.large, a.skip, a.block = true, slices.Concat(delivery.Without(tenants, large), enough), in.opts.Block
		if !in.reading { // this may be the only worker
			a.block = shortBlock
		}
		in.readsLarge, in.largeDue = true, false
		return a
	case in.reading && blocks: // reads that do not block may run concurrently
		return in.wait()
	case contended && blocks: // idle workers wait for this read, and it may end without events
		a.block = min(in.opts.Block, shortBlock)
	case contended, full:
		return in.wait()
	case len(large) > 0:
		a.skip, a.block = large, min(in.opts.Block, largeBlock)
	default:
		a.skip, a.block = nil, in.opts.Block
	}
	in.reading = true
	return a
}

// wait makes a worker wait until there may be something to do.
func (in *Inbox) wait() action {
	in.awaited = true
	return action{changed: in.changed}
}

const (
	shortBlock = 2 * time.Millisecond  // how long a read may block that leaves out tenants with enough messages
	largeBlock = 50 * time.Millisecond // the same, with large events: by then they may be small again
	largeTime  = 5 * time.Second       // after which tenants without events are read with the others again
)

// fetchCommands fetches operators' commands that are queued in the streams of tenants with work behind
// entries that this process has not read yet.
func (in *Inbox) fetchCommands(ctx context.Context, now time.Time) {
	tenants := in.tenantsWithWork(now)
	if len(tenants) == 0 {
		return
	}
	msgs, _ := in.consumer.Commands(ctx, tenants) // on failure, commands are read at their positions in the stream
	in.mu.Lock()
	defer in.mu.Unlock()
	in.waiting.put(msgs)
	in.broadcast()
}

// tenantsWithWork returns the tenants with work, if it is time to look for commands again.
func (in *Inbox) tenantsWithWork(now time.Time) []string {
	in.mu.Lock()
	defer in.mu.Unlock()
	if since := now.Sub(in.commandsAt); since >= 0 && since < commandsEvery {
		return nil
	}
	tenants := slices.Clone(in.waiting.Tenants())
	for _, batch := range in.batches {
		tenants = append(tenants, batch[0].Tenant)
	}
	// Only a few events of tenants with large events are read in one call.
	tenants = slices.Concat(tenants, in.consumer.OmittedTenants(), in.large.OmittedTenants(), in.consumer.Large())
	if len(tenants) == 0 {
		return nil
	}
	in.commandsAt = now
	slices.Sort(tenants)
	return slices.Compact(tenants)
}

// commandsEvery is the interval at which a process with work looks for commands.
const commandsEvery = 200 * time.Millisecond

// pick takes the next batch that may begin. Tenants take turns. While several tenants have work, each
// has at most one batch in progress, besides operators' commands: a second one would delay the other
// tenants in Redis. A poison candidate begins in isolation.
func (in *Inbox) pick() []store.Message {
	limit := in.contention.BatchSize(in.opts.Batch)
	for range in.waiting.Tenants() {
		waiting := in.waiting.Take(nil)
		tenant, now := waiting[0].Tenant, len(waiting)
		if in.contention.Any() && in.inProgress(tenant) || in.paused[tenant] {
			for now = 0; now < len(waiting) && command(waiting[now]); {
				now++
			}
		}
		batch, rest := waiting[:0], []store.Message(nil) // the batch reuses the memory to avoid copying
		blocked := map[address]bool{}                    // executions with a message that must wait
		for i := range waiting[:now] {
			m := &waiting[i]
			if len(batch) == limit || len(batch) == 1 && delivery.PoisonCandidate(batch[0]) {
				now = i
				break
			}
			switch key := addressOf(m); {
			case in.busy[key], blocked[key], len(batch) == 0 && !in.isolation.Enter(*m), len(batch) > 0 && delivery.PoisonCandidate(*m):
				blocked[key] = true
				rest = append(rest, *m)
			default:
				batch = append(batch, *m)
			}
		}
		in.waiting.PushBack(tenant, append(rest, waiting[now:]...)...)
		if len(batch) == 0 {
			continue
		}
		batch = slices.Clip(batch)
		in.batches = append(in.batches, batch)
		for i := range batch {
			in.busy[addressOf(&batch[i])] = true
		}
		return batch
	}
	return nil
}

// pause delays the next batches of a tenant after one with much data, while others have work: Redis
// serves no other client while it reads or writes such data.
func (in *Inbox) pause(tenant string, bytes int) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if bytes < muchData || !in.contention.Any() {
		return
	}
	in.paused[tenant] = true
	time.AfterFunc(time.Duration(bytes)*time.Second/dataRate, func() {
		in.mu.Lock()
		defer in.mu.Unlock()
		delete(in.paused, tenant)
		in.broadcast()
	})
}

const (
	muchData = 256 << 10 // bytes of one batch
	dataRate = 8 << 20   // bytes per second of one tenant while others have work
)

// inProgress reports whether a worker is handling a batch of a tenant.
func (in *Inbox) inProgress(tenant string) bool {
	return slices.ContainsFunc(in.batches, func(batch []store.Message) bool { return batch[0].Tenant == tenant })
}

// address identifies an execution.
type address struct{ tenant, id string }

// addressOf returns the execution that a message is about. An external event has its own address.
func addressOf(m *store.Message) address {
	if m.Event.Execution == "" || !strings.HasPrefix(string(m.Event.Type), event.Prefix) {
		return address{m.Tenant, "/" + m.ID}
	}
	return address{m.Tenant, m.Event.Execution}
}

// done ends a batch and puts back what remains of it: at the front, or behind the other tenants if
// turn is set.
func (in *Inbox) done(batch, rest []store.Message, turn bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.othersRead = false
	in.isolation.Leave()
	for i := range batch {
		delete(in.busy, addressOf(&batch[i]))
	}
	in.batches = slices.DeleteFunc(in.batches, func(other []store.Message) bool { return other[0].Same(batch[0]) })
	if tenant := batch[0].Tenant; len(rest) > 0 {
		in.waiting.putFront(tenant, rest)
		if turn {
			in.waiting.EndTurn(tenant)
		}
	}
	in.broadcast()
}

// release gives up messages for which Redis has no memory so that operators' commands behind them in
// the stream are read. It returns those that it could not release. Released messages are claimed again
// when nothing new is left to read.
func (in *Inbox) release(ctx context.Context, msgs []store.Message) []store.Message {
	if !in.opts.Reclaim || stream.New(in.consumer.Store).Release(ctx, msgs...) != nil {
		return msgs
	}
	return nil
}

// broadcast wakes all waiting workers.
func (in *Inbox) broadcast() {
	if in.awaited {
		close(in.changed)
		in.changed, in.awaited = make(chan struct{}), false
	}
}

// has reports whether this process already holds a claimed message.
func (in *Inbox) has(m store.Message) bool {
	return slices.ContainsFunc(in.waiting.Of(m.Tenant), m.Same) ||
		slices.ContainsFunc(in.batches, func(batch []store.Message) bool { return slices.ContainsFunc(batch, m.Same) })
}

// Finish acknowledges the messages that were read and need no handling.
func (in *Inbox) Finish(ctx context.Context) error {
	return errors.Join(in.consumer.Finish(ctx), in.large.Finish(ctx))
}

// Held returns the messages that were read but not handled yet.
func (in *Inbox) Held() []store.Message {
	in.mu.Lock()
	defer in.mu.Unlock()
	return slices.Concat(append(slices.Clone(in.batches), in.waiting.All(), in.consumer.Held(), in.large.Held())...)
}
