package executor

import (
	"cmp"
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
// together. Only requests are kept; all other events are acknowledged with the next
// read. Tasks that only compute are carried out many at a time by one of the
// executors, all others by one executor each.
type Inbox struct {
	consumer *delivery.Consumer
	// others reads the streams of the tenants that have no request waiting here, while
	// those that have some hold as many executors as they may.
	others    *delivery.Consumer
	opts      delivery.Options
	isolation delivery.Isolation
	out       outbox

	size  int                       // executors that it serves
	each  int                       // of these, as many as one tenant may hold; 0: all
	light func(*store.Message) bool // whether a request only computes, as far as is known

	mu         sync.Mutex
	reserved   map[address]bool // all that follows
	waiting    line             // read, and not begun
	lights     line             // likewise, of tasks that only compute
	contention delivery.Contention
	busy       []*job         // begun
	under      map[string]int // of these, those of each tenant that are done by one executor each
	calls      int            // of these, those that are done by one executor each
	computing  int            // executors that carry out light ones
	share      share
	reading    bool // one of the executors reads, for all of them
	aside      bool // one of the executors reads from others
	idle       bool // the last read found nothing
	looked     bool // it has been looked what others have than those whose requests wait, since one was done
	closed     bool // nothing is begun any more
	asleep     sleepers
}

// errLost is why a task ends whose request is another consumer's.
var errLost = errors.New("the request is another executor's by now")

// NewInbox is the inbox of one process, in which the tasks of one tenant hold at most
// each executors at once; 0: all.
func NewInbox(st *store.Store, opts delivery.Options, each int) (*Inbox, error) {
	opts.Wants = func(t event.Type) bool { return t == event.TaskRequested }
	consumer, err := delivery.NewConsumer(st, opts)
	if err != nil {
		return nil, err
	}
	others, err := delivery.NewConsumer(st, opts)
	if err != nil {
		return nil, err
	}
	return &Inbox{
		consumer: consumer, others: others, opts: opts, each: each, reserved: map[address]bool{}, under: map[string]int{},
		out: outbox{store: st, apart: opts.Block == 0},
	}, nil
}

// move is what an executor does next.
type move struct {
	job    *job          // this; one that is light begins a batch
	read   int           // read so many events …
	enough []string      // … at once, and not of these tenants; none: of all
	aside  bool          // … from others, and wait for some
	wait   chan struct{} // nothing, until this is closed …
	until  time.Duration // … or for so long, if not 0
}

// take hands out a request, nil if there is none; then wake says when to ask again.
func (b *Inbox) take(ctx context.Context) (j *job, wake time.Time, err error) {
	for {
		m := b.next()
		switch {
		case m.job != nil:
			return m.job, m.job.message.Read, nil
		case m.read > 0:
			requests, wake, err := b.read(ctx, m)
			if err != nil || requests == 0 && (len(m.enough) == 0 || m.aside) { // what it has enough of is there still
				return nil, wake, err
			}
		case m.wait == nil:
			return nil, time.Time{}, nil // whoever reads, or is performed alone, wakes the others
		case !b.rest(ctx, m):
			return nil, time.Time{}, nil
		}
	}
}

// next says what an executor does next: tasks that only compute, if nobody sees to
// them; else what is done by one executor each; else it reads. Where those that
// compute do not keep up, or there was nothing else to read, it lends them a hand. A
// request is not kept from being read by those of another tenant that wait.
func (b *Inbox) next() move {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.asleep.awake()
	if b.closed {
		return move{}
	}
	size := cmp.Or(b.each, b.size)
	most := b.share.count(max(size-b.calls, 0), size, b.contention.Portion(b.opts.Batch))
	if b.waiting.size > 0 && !b.reading && !b.looked && len(b.opts.Tenants.Names()) > 1 {
		b.reading, b.looked = true, true
		return move{read: most, enough: slices.Clone(b.waiting.turns)}
	}
	if j := b.begin(); j != nil {
		b.call()
		return move{job: j}
	}
	full := b.waiting.size > 0 && b.waiting.next(b.may) < 0
	stuck := b.waiting.size > 0 && !full || b.lights.size > 0 && b.computing == 0 // it may not begin now
	switch {
	case full && !b.aside && len(b.opts.Tenants.Names()) > len(b.waiting.turns):
		b.aside = true
		return move{read: most, enough: slices.Clone(b.waiting.turns), aside: true}
	case full:
		return move{wait: b.asleep.one(), until: b.opts.Block} // there may be a new tenant by then
	case b.opts.Block == 0 && stuck:
		return move{}
	case stuck, b.reading && b.opts.Block > 0: // reads that do not wait can be done side by side
		return move{wait: b.asleep.one()}
	}
	b.reading = true
	return move{read: most}
}

// begin begins what is to be done next; nil if there is nothing that may begin now.
func (b *Inbox) begin() *job {
	if b.computing == 0 || b.waiting.size == 0 && (b.idle || b.lights.size >= b.opts.Batch) {
		if j := b.firstLight(); j != nil {
			b.computing++
			return j
		}
	}
	return b.first()
}

// first begins the request whose turn it is; nil if it may not begin now.
func (b *Inbox) first() *job {
	j := b.waiting.first(b.may)
	if j == nil || !b.isolation.Enter(j.message) {
		return nil
	}
	b.waiting.shift()
	b.busy = append(b.busy, j)
	b.calls++
	b.under[j.message.Tenant]++
	return j
}

// may reports whether a tenant may hold one more executor.
func (b *Inbox) may(tenant string) bool { return b.reserve(tenant) > 0 }

// reserve is how many more executors a tenant may hold. Where there are others it holds at
// most a quarter of what it leaves free: a newcomer finds one free, although many tenants
// keep theirs for long.
func (b *Inbox) reserve(tenant string) int {
	free := b.size - b.calls
	if b.each == 0 {
		return free
	}
	own := b.under[tenant]
	room := min(b.each-own, free)
	if own > 0 && len(b.opts.Tenants.Names()) > 1 {
		const quarter = 4
		room = min(room, (free-quarter*own+quarter)/(quarter+1))
	}
	return room
}

// firstLight does so with those that only compute, of which a tenant's are done one
// after the other, as far as a batch goes: their answers are one script.
func (b *Inbox) firstLight() *job {
	j := b.lights.first(nil)
	if j == nil || !b.isolation.Enter(j.message) {
		return nil
	}
	b.lights.pull()
	b.busy = append(b.busy, j)
	return j
}

// another begins a further task of a batch that only computes; nil if there is
// none, or if the batch is large enough.
func (b *Inbox) another(computed, data int) *job {
	b.mu.Lock()
	defer b.mu.Unlock()
	if computed < b.contention.Share(mostComputed) && data < mostData && !b.closed {
		if j := b.firstLight(); j != nil {
			return j
		}
	}
	b.lights.turn()
	b.computing--
	b.call()
	return nil
}

// How much is computed before it is reported.
const (
	mostComputed = 100
	mostData     = 1 << 20
)

// call wakes executors for what there is to do.
func (b *Inbox) call() {
	n := 0
	for _, tenant := range b.waiting.turns {
		n += max(min(len(b.waiting.of[tenant]), b.reserve(tenant)), 0)
	}
	if b.lights.size > 0 && b.computing == 0 {
		n++
	}
	if !b.reading || !b.aside && b.waiting.size > 0 {
		n++
	}
	b.asleep.wake(n)
}

// rest waits to be woken; false if ctx ends before.
func (b *Inbox) rest(ctx context.Context, m move) bool {
	waits := ctx
	if m.until > 0 {
		var cancel context.CancelFunc
		waits, cancel = context.WithTimeout(ctx, m.until)
		defer cancel()
	}
	select {
	case <-m.wait:
		return true
	case <-waits.Done():
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.asleep.leave(m.wait) {
		b.asleep.awake()
		b.call() // somebody else is to look
	}
	return ctx.Err() == nil
}

// read gets new events for all executors, and says how many requests there are
// among them. If there is none, wake says when to read again.
func (b *Inbox) read(ctx context.Context, what move) (requests int, wake time.Time, err error) {
	block, consumer := b.opts.Block, b.consumer
	switch {
	case what.aside:
		consumer = b.others
	case len(what.enough) > 0:
		block = 0
	}
	f, err := consumer.Fetch(ctx, what.read, block, what.enough...)
	b.mu.Lock()
	defer b.mu.Unlock()
	if what.aside {
		b.aside = false
	} else {
		b.reading, b.idle = false, f.Events == 0 && len(what.enough) == 0
	}
	b.contention.Saw(f.Messages, f.Now)
	calls := b.waiting.size
	for i := range f.Messages {
		switch m := &f.Messages[i]; {
		case m.Event.Type != event.TaskRequested:
			consumer.Pass(*m)
			f.Wake = f.Now // to acknowledge it
		case !b.reserved[addressOf(m)]:
			b.keep(&job{message: *m})
			requests++
		default:
			b.regain(&job{message: *m})
		}
	}
	b.share.saw(f.Events, b.waiting.size-calls, f.Tenants)
	if err != nil {
		b.call() // this one rests now
	}
	return requests, f.Wake, err
}

// keep has a request wait.
func (b *Inbox) keep(j *job) {
	b.reserved[addressOf(&j.message)] = true
	if j.light = b.light(&j.message); j.light {
		b.lights.put(j)
	} else {
		b.waiting.put(j)
	}
}

// regain notes a request that is ours again while what was begun for it ends early.
func (b *Inbox) regain(again *job) {
	for _, j := range b.busy {
		if j.lost && j.message.Same(again.message) {
			j.again = again
		}
	}
}

// Close begins no further requests.
func (b *Inbox) Close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	b.asleep.wake(b.size)
}

// begun notes how to end what is being done for a request.
func (b *Inbox) begun(j *job, cancel context.CancelCauseFunc) {
	b.mu.Lock()
	defer b.mu.Unlock()
	j.cancel = cancel
}

// done takes requests back that were worked on: one that could not be answered
// waits again.
func (b *Inbox) done(jobs ...*job) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.looked = false
	b.busy = slices.DeleteFunc(b.busy, func(j *job) bool { return slices.Contains(jobs, j) })
	again := b.waiting.size
	for _, j := range jobs {
		b.isolation.Leave()
		if !j.light {
			b.calls--
			if tenant := j.message.Tenant; b.under[tenant] > 1 {
				b.under[tenant]--
			} else {
				delete(b.under, tenant)
			}
		}
		if !j.light && j.reply != nil {
			b.share.stayed(j.result.DurationMS)
		}
		if j.err == nil {
			delete(b.reserved, addressOf(&j.message))
		}
		switch {
		case j.err != nil:
			j.light = false // what is left of it is done by one executor
			b.waiting.put(j)
		case j.undone && j.again != nil:
			b.keep(j.again)
		}
	}
	if b.waiting.size > again {
		b.call()
	}
}

// Finish acknowledges what was read and is no request.
func (b *Inbox) Finish(ctx context.Context) error {
	return errors.Join(b.consumer.Finish(ctx), b.others.Finish(ctx))
}

// Held are the messages that were read and not answered yet.
func (b *Inbox) Held() []store.Message {
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []store.Message
	for _, j := range slices.Concat(b.busy, b.waiting.all(), b.lights.all()) {
		out = append(out, j.message)
	}
	return slices.Concat(out, b.consumer.Held(), b.others.Held())
}

// Lost tells the inbox of messages that are another consumer's: what is being
// done for them is not wanted any more.
func (b *Inbox) Lost(msgs []store.Message) {
	b.mu.Lock()
	defer b.mu.Unlock()
	lost := func(j *job) bool { return slices.ContainsFunc(msgs, j.message.Same) }
	for _, j := range b.busy {
		if lost(j) && j.cancel != nil {
			j.lost = true
			j.cancel(errLost)
		}
	}
	forget := func(j *job) bool {
		if !lost(j) {
			return false
		}
		delete(b.reserved, addressOf(&j.message))
		return true
	}
	b.waiting.drop(forget)
	b.lights.drop(forget)
	b.isolation.Give() // if a suspect still waits, it says so again
	b.call()
}
