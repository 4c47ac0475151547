package executor

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/definitions"
	"flunq.io/flunq/engine/delivery"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/executor/call"
	"flunq.io/flunq/engine/queue"
	"flunq.io/flunq/engine/store"
)

// Inbox reads requests for the executors of one process, which share one consumer. It keeps only
// requests and acknowledges all other events with the next read. A request is for a call, which
// occupies an executor until it is answered, or for a computation, which needs nothing from
// outside. Usually one executor at a time computes, many requests per batch.
type Inbox struct {
	consumer *delivery.Consumer
	// otherTenants reads the tenants without waiting calls while those with waiting calls occupy
	// as many executors as they may.
	otherTenants *delivery.Consumer
	opts         delivery.Options
	isolation    delivery.Isolation
	out          outbox

	definitions *definitions.Cache
	executors   int // number of executors that it serves
	perTenant   int // executors that one tenant may occupy; 0: all

	mu            sync.Mutex
	held          map[address]bool // requests that wait or are in progress
	calls         queue.Fair[*job] // waiting
	computations  queue.Fair[*job] // waiting
	inProgress    []*job           // of both kinds
	calling       int              // executors that calls occupy
	callingFor    map[string]int   // the same, by tenant
	computing     int              // executors that compute
	contention    delivery.Contention
	readAhead     readAhead
	reading       bool // one executor reads for all of them
	readingOthers bool // one executor reads from otherTenants
	othersRead    bool // the tenants without waiting calls were read since a job was done
	caughtUp      bool // the last read found nothing
	closed        bool // no new job may begin
	idle          idleExecutors
}

// job is a request that an executor has read.
type job struct {
	message  store.Message
	computes bool // the task needs nothing from outside

	result *event.Completed // once the task is done
	reply  *event.Event     // the event that reports the result
	err    error            // why the reply could not be sent

	reserved *call.Reservation // memory for the response, until the reply is sent

	cancel      context.CancelCauseFunc
	lost        bool // another executor has the request: end early
	unfinished  bool // the request was lost before the task was done
	redelivered *job // the same request, delivered to this process again
}

// address identifies a message by tenant and stream ID.
type address struct{ tenant, id string }

func addressOf(m *store.Message) address { return address{m.Tenant, m.ID} }

// errLost ends a task whose request belongs to another consumer.
var errLost = errors.New("another executor has taken over the request")

// NewInbox returns the inbox of one process. The calls of one tenant occupy at most perTenant
// executors at a time; 0: all.
func NewInbox(st *store.Store, known *definitions.Cache, opts delivery.Options, perTenant int) (*Inbox, error) {
	opts.Wants = Handles
	consumer, err := delivery.NewConsumer(st, opts)
	if err != nil {
		return nil, err
	}
	otherTenants, err := delivery.NewConsumer(st, opts)
	if err != nil {
		return nil, err
	}
	return &Inbox{
		consumer: consumer, otherTenants: otherTenants, opts: opts, definitions: known, perTenant: perTenant, held: map[address]bool{}, callingFor: map[string]int{},
		out: outbox{store: st, unbatched: opts.Block == 0},
	}, nil
}

// Handles reports whether an executor handles events of type t. It acknowledges all others unread.
func Handles(t event.Type) bool { return t == event.TaskRequested }

// action is an executor's next action; the zero value means none.
type action struct {
	job    *job          // perform it; a computation begins a batch
	wakeup chan struct{} // wait until it is closed
	limit  time.Duration // but no longer than this, if it is not 0

	// If both are nil, read.
	count  int      // events of each tenant
	skip   []string // tenants to leave out
	block  time.Duration
	others bool // from Inbox.otherTenants
}

// take returns a request, after it has read some for all executors if necessary. If there is none, wake is
// when to call again. It sets failed if Redis is down: then no other executor reads until this one, which
// found that out, calls take again.
func (in *Inbox) take(ctx context.Context, failed *bool) (j *job, wake time.Time, err error) {
	if *failed {
		in.mu.Lock()
		in.reading, *failed = false, false
		in.mu.Unlock()
	}
	for {
		a := in.next()
		switch {
		case a.job != nil:
			return a.job, a.job.message.Read, nil
		case a.wakeup != nil:
			if in.wait(ctx, a) {
				continue
			}
			return nil, time.Time{}, nil
		case a.count == 0: // in simulation, the reader or the isolated task wakes the others
			return nil, time.Time{}, nil
		}
		consumer := in.consumer
		if a.others {
			consumer = in.otherTenants
		}
		f, err := consumer.Fetch(ctx, a.count, a.block, a.skip...)
		in.mu.Lock()
		if a.others {
			in.readingOthers = false
		} else {
			in.reading, in.caughtUp = false, f.Events == 0 && len(a.skip) == 0
		}
		in.contention.Record(f.Messages, f.Now)
		calls, requests := in.calls.Size(), 0
		for i := range f.Messages {
			if m := &f.Messages[i]; in.held[addressOf(m)] {
				in.redelivered(&job{message: *m})
			} else {
				in.put(&job{message: *m})
				requests++
			}
		}
		in.readAhead.saw(f.Events, in.calls.Size()-calls, f.Tenants)
		if *failed = a.block > 0 && !a.others && requests == 0 && store.Down(in.out.store, err); *failed {
			in.reading = true // the others need not find out that Redis is down
		} else if err != nil {
			in.wakeExecutors() // this one pauses now
		}
		in.mu.Unlock()
		if err != nil || requests == 0 && (len(a.skip) == 0 || a.others) { // the tenants left out still have requests
			return nil, f.Wake, err
		}
	}
}

// next decides what an executor does next. Computations come first, if no other executor
// computes; then calls; then reading. If computations pile up or there is nothing else to do,
// another executor computes. Before a waiting call begins, the other tenants are read so that
// they are not delayed.
func (in *Inbox) next() action {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.idle.searching()
	if in.closed {
		return action{}
	}
	tenants, blocks := len(in.opts.Tenants.Names()), in.opts.Block > 0
	waiting := in.calls.Tenants() // those with waiting calls
	executors := cmp.Or(in.perTenant, in.executors)
	read := action{count: in.readAhead.count(max(executors-in.calling, 0), executors, in.contention.ReadSize(in.opts.Batch))}
	if len(waiting) > 0 && tenants > 1 && !in.reading && !in.othersRead {
		in.reading, in.othersRead = true, true
		read.skip = slices.Clone(waiting)
		return read
	}
	full := len(waiting) > 0 && !slices.ContainsFunc(waiting, in.mayCall) // they occupy as many executors as they may
	if j := in.begin(); j != nil {
		in.wakeExecutors()
		return action{job: j}
	}
	isolating := len(waiting) > 0 && !full || in.computations.Size() > 0 && in.computing == 0 // isolation delays what could begin
	read.block = in.opts.Block
	switch {
	case full && !in.readingOthers && tenants > len(waiting):
		in.readingOthers = true
		read.skip, read.others = slices.Clone(waiting), true
		return read
	case full:
		return action{wakeup: in.idle.add(), limit: in.opts.Block} // by then there may be a new tenant
	case isolating && !blocks:
		return action{}
	case isolating, in.reading && blocks: // reads that do not block may run concurrently
		return action{wakeup: in.idle.add()}
	}
	in.reading = true
	return read
}

// begin starts the next job, or returns nil if none may begin now.
func (in *Inbox) begin() *job {
	if in.computing == 0 || in.calls.Size() == 0 && (in.caughtUp || in.computations.Size() >= in.opts.Batch) {
		if j := in.beginComputation(); j != nil {
			in.computing++
			return j
		}
	}
	j, ok := in.calls.First(in.mayCall)
	if !ok || !in.isolation.Enter(j.message) {
		return nil
	}
	tenant := j.message.Tenant
	in.calls.Pop()
	in.calls.EndTurn(tenant)
	in.inProgress = append(in.inProgress, j)
	in.calling++
	in.callingFor[tenant]++
	return j
}

// mayCall reports whether a tenant may occupy another executor.
func (in *Inbox) mayCall(tenant string) bool { return in.available(tenant) > 0 }

// available returns how many more executors a tenant may occupy. If there are other tenants, it may
// occupy at most a quarter of those that it leaves free so that a new tenant finds a free executor
// even if many tenants occupy theirs for long.
func (in *Inbox) available(tenant string) int {
	free := in.executors - in.calling
	if in.perTenant == 0 {
		return free
	}
	own := in.callingFor[tenant]
	more := min(in.perTenant-own, free)
	if own > 0 && len(in.opts.Tenants.Names()) > 1 {
		const quarter = 4
		more = min(more, (free-quarter*own+quarter)/(quarter+1))
	}
	return more
}

// beginComputation starts the next computation, or returns nil if none may begin now. A tenant keeps
// its turn for a whole batch, because one script sends the replies of a tenant.
func (in *Inbox) beginComputation() *job {
	j, ok := in.computations.First(nil)
	if !ok || !in.isolation.Enter(j.message) {
		return nil
	}
	in.computations.Pop()
	in.inProgress = append(in.inProgress, j)
	return j
}

// another starts the computation after the last one of a batch. It returns nil if there is none or
// the batch is full.
func (in *Inbox) another(last *job, computed, data int) *job {
	in.mu.Lock()
	defer in.mu.Unlock()
	if computed < in.contention.BatchSize(maxComputed) && data < maxData && !in.closed {
		if j := in.beginComputation(); j != nil {
			return j
		}
	}
	in.computations.EndTurn(last.message.Tenant)
	in.computing--
	in.wakeExecutors()
	return nil
}

// Bounds of a batch of computations.
const (
	maxComputed = 100
	maxData     = 1 << 20
)

// wakeExecutors wakes as many executors as there is work for.
func (in *Inbox) wakeExecutors() {
	n := 0
	for _, tenant := range in.calls.Tenants() {
		n += max(min(len(in.calls.Of(tenant)), in.available(tenant)), 0)
	}
	if in.computations.Size() > 0 && in.computing == 0 {
		n++
	}
	if !in.reading || !in.readingOthers && in.calls.Size() > 0 {
		n++
	}
	in.idle.wake(n)
}

// wait blocks until the executor is woken or the limit is reached. It reports false if
// ctx ended first.
func (in *Inbox) wait(ctx context.Context, a action) bool {
	limited := ctx
	if a.limit > 0 {
		var cancel context.CancelFunc
		limited, cancel = context.WithTimeout(ctx, a.limit)
		defer cancel()
	}
	select {
	case <-a.wakeup:
		return true
	case <-limited.Done():
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	if !in.idle.remove(a.wakeup) {
		in.idle.searching()
		in.wakeExecutors() // another executor must look for work
	}
	return ctx.Err() == nil
}

// put queues a request.
func (in *Inbox) put(j *job) {
	in.held[addressOf(&j.message)] = true
	j.computes = in.computes(&j.message)
	jobs := &in.calls
	if j.computes {
		jobs = &in.computations
	}
	jobs.PushBack(j.message.Tenant, j)
}

// computes reports whether a request only computes. It reports false if the definition is not
// cached and would have to be read.
func (in *Inbox) computes(m *store.Message) bool {
	if m.Err != nil || delivery.PoisonCandidate(*m) {
		return false
	}
	env := in.definitions.Known(m.Event.Ext[event.DefinitionAttribute])
	if env == nil {
		return false
	}
	task := env.Definition().Task(event.ParseRun(m.Event.Task).Ref)
	return task != nil && decide.Computes(task)
}

// redelivered records that a lost request is delivered to this process again while its first job
// has not ended yet.
func (in *Inbox) redelivered(again *job) {
	for _, j := range in.inProgress {
		if j.lost && j.message.Same(again.message) {
			j.redelivered = again
		}
	}
}

// Close prevents new jobs from beginning.
func (in *Inbox) Close() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.closed = true
	in.idle.wake(in.executors)
}

// began records how to end a job early.
func (in *Inbox) began(j *job, cancel context.CancelCauseFunc) {
	in.mu.Lock()
	defer in.mu.Unlock()
	j.cancel = cancel
}

// done removes finished jobs from the inbox. A job whose result could not be sent is queued again,
// as a call.
func (in *Inbox) done(jobs ...*job) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.othersRead = false
	in.inProgress = slices.DeleteFunc(in.inProgress, func(j *job) bool { return slices.Contains(jobs, j) })
	before := in.calls.Size()
	for _, j := range jobs {
		in.isolation.Leave()
		tenant := j.message.Tenant
		if !j.computes {
			in.calling--
			if in.callingFor[tenant]--; in.callingFor[tenant] == 0 {
				delete(in.callingFor, tenant)
			}
			if j.reply != nil {
				in.readAhead.took(j.result.DurationMS)
			}
		}
		if j.err != nil {
			j.computes = false
			in.calls.PushBack(tenant, j)
			continue
		}
		delete(in.held, addressOf(&j.message))
		if j.unfinished && j.redelivered != nil {
			in.put(j.redelivered)
		}
	}
	if in.calls.Size() > before {
		in.wakeExecutors()
	}
}

// Finish acknowledges events that were read but are not requests.
func (in *Inbox) Finish(ctx context.Context) error {
	return errors.Join(in.consumer.Finish(ctx), in.otherTenants.Finish(ctx))
}

// Held returns the messages that were read but not answered yet.
func (in *Inbox) Held() []store.Message {
	in.mu.Lock()
	defer in.mu.Unlock()
	var out []store.Message
	for _, j := range slices.Concat(in.inProgress, in.calls.All(), in.computations.All()) {
		out = append(out, j.message)
	}
	return slices.Concat(out, in.consumer.Held(), in.otherTenants.Held())
}

// Lost ends the jobs whose messages another consumer has claimed.
func (in *Inbox) Lost(msgs []store.Message) {
	in.mu.Lock()
	defer in.mu.Unlock()
	lost := func(j *job) bool { return slices.ContainsFunc(msgs, j.message.Same) }
	for _, j := range in.inProgress {
		if lost(j) && j.cancel != nil {
			j.lost = true
			j.cancel(errLost)
		}
	}
	forget := func(j *job) bool {
		if !lost(j) {
			return false
		}
		delete(in.held, addressOf(&j.message))
		return true
	}
	in.calls.Drop(forget)
	in.computations.Drop(forget)
	in.isolation.StopWaiting() // a poison candidate that is still waiting asks again
	in.wakeExecutors()
}

// readAhead estimates how many events to read from how many recent ones were calls and how long
// those took.
type readAhead struct {
	events, calls int
	tenants       int   // with events in the last read
	duration      int64 // milliseconds from read to reply, on average; 0: unknown
}

const (
	minEvents     = 10 // minimum number to read, since most events are not requests
	minEventsEach = 2  // minimum for each tenant
	shortCall     = 50 // milliseconds: shorter calls may wait here even if other processes are idle
)

// count returns how many events of each tenant to read, up to limit. It aims at two calls for each
// idle executor, one to begin now and one to begin next: more would wait here while other processes
// are idle. If calls are short, the next ones are for all executors. Events that are not calls do
// not occupy an executor; the recent reads predict their share, which is read in addition. Tenants
// with events share the total, not the limit: a group that falls behind reads events that it could
// have skipped (skip.lua).
func (r *readAhead) count(idle, executors, limit int) int {
	next := idle
	if r.duration > 0 && r.duration <= shortCall {
		next = executors
	}
	total := max((idle+next)*(1+r.events)/(1+r.calls), minEvents)
	return min(max(total/max(r.tenants, 1), minEventsEach), limit)
}

// saw records a read. The latest read counts as much as all before it.
func (r *readAhead) saw(events, calls, tenants int) {
	if events > 0 {
		r.events, r.calls, r.tenants = r.events/2+events, r.calls/2+calls, tenants
	}
}

// took records how long a call took from read to reply.
func (r *readAhead) took(ms int64) {
	r.duration = max(1, (3*cmp.Or(r.duration, ms)+ms)/4)
}

// idleExecutors holds the executors of a process that wait for work.
type idleExecutors struct {
	wakeups []chan struct{} // one for each
	woken   int             // executors that are woken, but not searching yet
}

// add adds an idle executor. The channel is closed when it is woken.
func (e *idleExecutors) add() chan struct{} {
	c := make(chan struct{})
	e.wakeups = append(e.wakeups, c)
	return c
}

// wake makes n executors search for work. It wakes the latest idle ones first.
func (e *idleExecutors) wake(n int) {
	for n -= e.woken; n > 0 && len(e.wakeups) > 0; n-- {
		last := len(e.wakeups) - 1
		close(e.wakeups[last])
		e.wakeups = e.wakeups[:last]
		e.woken++
	}
}

// searching records that an executor searches for work.
func (e *idleExecutors) searching() { e.woken = max(0, e.woken-1) }

// remove removes an idle executor. It returns false if the executor was already woken.
func (e *idleExecutors) remove(c chan struct{}) bool {
	at := slices.Index(e.wakeups, c)
	if at < 0 {
		return false
	}
	e.wakeups = slices.Delete(e.wakeups, at, at+1)
	return true
}
