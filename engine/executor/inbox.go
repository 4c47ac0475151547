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

// Inbox reads requests for the executors of one process, which share one consumer. It
// keeps only requests and acknowledges all other events with the next read. One executor
// at a time computes tasks that need nothing from outside, many per batch; every other
// task occupies an executor.
type Inbox struct {
	consumer *delivery.Consumer
	// others reads the streams of tenants without waiting requests here, while the
	// tenants that have some occupy as many executors as they may.
	others    *delivery.Consumer
	opts      delivery.Options
	isolation delivery.Isolation
	out       outbox

	size  int                       // executors that it serves
	each  int                       // executors that one tenant may occupy; 0: all
	light func(*store.Message) bool // whether a request only computes, as far as is known

	mu         sync.Mutex
	reserved   map[address]bool // requests in waiting, lights and busy
	waiting    line             // read and not begun
	lights     line             // the same, for tasks that only compute
	contention delivery.Contention
	busy       []*job         // begun
	under      map[string]int // jobs of busy that occupy an executor each, by tenant
	calls      int            // their number
	computing  int            // executors that compute light tasks
	share      share
	reading    bool // one executor reads for all of them
	aside      bool // one executor reads from others
	idle       bool // the last read found nothing
	looked     bool // the tenants without waiting requests were read since a job was done
	closed     bool // nothing is begun any more
	asleep     sleepers
}

// errLost ends a task whose request belongs to another consumer.
var errLost = errors.New("the request is another executor's by now")

// NewInbox returns the inbox of one process. The tasks of one tenant occupy at most each
// executors at once; 0: all.
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
	job    *job          // perform this; a light one begins a batch
	read   int           // read so many events of each tenant
	enough []string      // do not block, and leave out these tenants; nil: read all tenants
	aside  bool          // read from others, and block
	wait   chan struct{} // wait until this is closed
	until  time.Duration // for no longer than this, if not 0
}

// take returns a request. If there is none, wake is when to call again.
func (b *Inbox) take(ctx context.Context) (j *job, wake time.Time, err error) {
	for {
		m := b.next()
		switch {
		case m.job != nil:
			return m.job, m.job.message.Read, nil
		case m.read > 0:
			requests, wake, err := b.read(ctx, m)
			if err != nil || requests == 0 && (len(m.enough) == 0 || m.aside) { // the tenants left out still have requests
				return nil, wake, err
			}
		case m.wait == nil:
			return nil, time.Time{}, nil // in simulation, the reader or the isolated task wakes the others
		case !b.rest(ctx, m):
			return nil, time.Time{}, nil
		}
	}
}

// next decides what an executor does: tasks that only compute, if no other executor does
// them; else one that occupies an executor; else it reads. If light tasks pile up or
// there is nothing else to do, it computes too. Before a waiting request begins, the
// other tenants are read, so that they are not delayed.
func (b *Inbox) next() move {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.asleep.awake()
	if b.closed {
		return move{}
	}
	size := cmp.Or(b.each, b.size)
	most := b.share.count(max(size-b.calls, 0), size, b.contention.ReadSize(b.opts.Batch))
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
		return move{wait: b.asleep.one(), until: b.opts.Block} // by then there may be a new tenant
	case b.opts.Block == 0 && stuck:
		return move{}
	case stuck, b.reading && b.opts.Block > 0: // reads that do not block may run concurrently
		return move{wait: b.asleep.one()}
	}
	b.reading = true
	return move{read: most}
}

// begin starts the next task; nil if none may begin now.
func (b *Inbox) begin() *job {
	if b.computing == 0 || b.waiting.size == 0 && (b.idle || b.lights.size >= b.opts.Batch) {
		if j := b.firstLight(); j != nil {
			b.computing++
			return j
		}
	}
	return b.first()
}

// first starts the next request in turn; nil if it may not begin now.
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

// may reports whether a tenant may occupy one more executor.
func (b *Inbox) may(tenant string) bool { return b.reserve(tenant) > 0 }

// reserve returns how many more executors a tenant may occupy. If there are other
// tenants, it occupies at most a quarter of what it leaves free: a newcomer finds a free
// executor even if many tenants occupy theirs for long.
func (b *Inbox) reserve(tenant string) int {
	free := b.size - b.calls
	if b.each == 0 {
		return free
	}
	own := b.under[tenant]
	more := min(b.each-own, free)
	if own > 0 && len(b.opts.Tenants.Names()) > 1 {
		const quarter = 4
		more = min(more, (free-quarter*own+quarter)/(quarter+1))
	}
	return more
}

// firstLight starts the next task that only computes. The tasks of one tenant follow each
// other up to the size of a batch, because one script sends their replies.
func (b *Inbox) firstLight() *job {
	j := b.lights.first(nil)
	if j == nil || !b.isolation.Enter(j.message) {
		return nil
	}
	b.lights.pull()
	b.busy = append(b.busy, j)
	return j
}

// another starts a further task for a batch that only computes; nil if there is none or
// the batch is full.
func (b *Inbox) another(computed, data int) *job {
	b.mu.Lock()
	defer b.mu.Unlock()
	if computed < b.contention.BatchSize(mostComputed) && data < mostData && !b.closed {
		if j := b.firstLight(); j != nil {
			return j
		}
	}
	b.lights.turn()
	b.computing--
	b.call()
	return nil
}

// Bounds of a batch that only computes.
const (
	mostComputed = 100
	mostData     = 1 << 20
)

// call wakes as many executors as there is work for.
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

// rest waits until the executor is woken; false if ctx ends first.
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
		b.call() // another executor has to look
	}
	return ctx.Err() == nil
}

// read fetches new events for all executors and returns how many requests are among them.
// If there are none, wake is when to read again.
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
			f.Wake = f.Now // come back at once to acknowledge it
		case !b.reserved[addressOf(m)]:
			b.keep(&job{message: *m})
			requests++
		default:
			b.regain(&job{message: *m})
		}
	}
	b.share.saw(f.Events, b.waiting.size-calls, f.Tenants)
	if err != nil {
		b.call() // this executor pauses now
	}
	return requests, f.Wake, err
}

// keep queues a request.
func (b *Inbox) keep(j *job) {
	b.reserved[addressOf(&j.message)] = true
	if j.light = b.light(&j.message); j.light {
		b.lights.put(j)
	} else {
		b.waiting.put(j)
	}
}

// regain records that a lost request is delivered to this process again while its first
// task is still ending.
func (b *Inbox) regain(regained *job) {
	for _, j := range b.busy {
		if j.lost && j.message.Same(regained.message) {
			j.regained = regained
		}
	}
}

// Close keeps further requests from beginning.
func (b *Inbox) Close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	b.asleep.wake(b.size)
}

// begun records how to end the task of a request.
func (b *Inbox) begun(j *job, cancel context.CancelCauseFunc) {
	b.mu.Lock()
	defer b.mu.Unlock()
	j.cancel = cancel
}

// done removes finished jobs from the inbox. A job that could not be answered is queued
// again.
func (b *Inbox) done(jobs ...*job) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.looked = false
	b.busy = slices.DeleteFunc(b.busy, func(j *job) bool { return slices.Contains(jobs, j) })
	before := b.waiting.size
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
			j.light = false // the rest is done by an executor of its own
			b.waiting.put(j)
		case j.undone && j.regained != nil:
			b.keep(j.regained)
		}
	}
	if b.waiting.size > before {
		b.call()
	}
}

// Finish acknowledges the events that were read and are no requests.
func (b *Inbox) Finish(ctx context.Context) error {
	return errors.Join(b.consumer.Finish(ctx), b.others.Finish(ctx))
}

// Held returns the messages that were read but not answered yet.
func (b *Inbox) Held() []store.Message {
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []store.Message
	for _, j := range slices.Concat(b.busy, b.waiting.all(), b.lights.all()) {
		out = append(out, j.message)
	}
	return slices.Concat(out, b.consumer.Held(), b.others.Held())
}

// Lost ends the tasks of messages that belong to another consumer now.
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
	b.isolation.StopWaiting() // a poison candidate that still waits asks again
	b.call()
}

// share estimates how many events to read, from how many of the recent ones were calls
// (requests that occupy an executor each) and how long these took.
type share struct {
	events, calls int
	tenants       int   // with events in the last read
	stay          int64 // milliseconds from read to reply, on average; 0: unknown
}

const (
	fewest = 10 // events are read at least, as most of them are no requests
	fewer  = 2  // of each tenant, if there are many
	short  = 50 // milliseconds: below this, a request may wait here although other processes are idle
)

// count returns how many events of each tenant to read when free of size executors are
// idle. It aims at two requests for each idle executor, one to begin now and one to begin
// next: more would wait here while other processes are idle. If requests take only
// moments, it aims at one more for every executor. Events that are no calls occupy no
// executor and are read in full, as far as the recent reads predict. Tenants with events
// share the total.
func (s *share) count(free, size, most int) int {
	ahead := free
	if s.stay > 0 && s.stay <= short {
		ahead = size
	}
	all := min(max((free+ahead)*(1+s.events)/(1+s.calls), fewest), most)
	return max(all/max(s.tenants, 1), min(fewer, most))
}

// saw records a read. The latest read counts as much as all before it.
func (s *share) saw(events, calls, tenants int) {
	if events > 0 {
		s.events, s.calls, s.tenants = s.events/2+events, s.calls/2+calls, tenants
	}
}

// stayed records how long a request took from read to reply.
func (s *share) stayed(ms int64) {
	if s.stay == 0 {
		s.stay = ms
	}
	s.stay = max(1, (3*s.stay+ms)/4)
}

// Handles reports whether an executor handles events of type t. It acknowledges all
// others unread.
func Handles(t event.Type) bool { return t == event.TaskRequested }

// sleepers are the idle executors of a process.
type sleepers struct {
	waiting []chan struct{}
	roused  int // woken, but not looking for work yet
}

// one adds a sleeper. The channel is closed when it is woken.
func (s *sleepers) one() chan struct{} {
	c := make(chan struct{})
	s.waiting = append(s.waiting, c)
	return c
}

// wake makes sure that n executors are looking for work. It wakes those first that fell
// asleep last.
func (s *sleepers) wake(n int) {
	for n -= s.roused; n > 0 && len(s.waiting) > 0; n-- {
		last := len(s.waiting) - 1
		close(s.waiting[last])
		s.waiting = s.waiting[:last]
		s.roused++
	}
}

// awake records that an executor is looking for work.
func (s *sleepers) awake() { s.roused = max(0, s.roused-1) }

// leave removes a sleeper. It reports false if the sleeper was woken already.
func (s *sleepers) leave(c chan struct{}) bool {
	i := slices.Index(s.waiting, c)
	if i < 0 {
		return false
	}
	s.waiting = slices.Delete(s.waiting, i, i+1)
	return true
}
