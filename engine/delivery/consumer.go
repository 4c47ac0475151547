package delivery

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/store"
)

// Consumer is where a service instance gets its messages, and where those go that it
// cannot handle.
type Consumer struct {
	Store   *store.Store
	opts    Options
	buffer  Buffer
	handled handled
	share   portion
	omitted omittedMessages
	busy    lively
	quiet   bool // the last Fill found nothing

	claimed time.Time // Redis' time when it last looked for what dead consumers have left
}

// Options of a Desk.
type Options struct {
	Service         string // that it is for: "worker", "executor" or "timer"
	Group, Consumer string
	Tenants         *TenantSet
	Batch           int           // events read at once; 1 to 1000
	Block           time.Duration // how long a read waits for events; 0 in simulation
	Lease           time.Duration // after which a silent consumer's events are claimed; simulated 1s to 1m
	Reclaim         bool          // claim them at all
	Claim           time.Duration // between two looks for them at least, while there is nothing new
	Retry           Policy
	Isolation       *Isolation // shared by the instances of the service in a process
	Observe         Observer

	// Alarm, if set, sees to it that Redis does something after a time, unless it
	// is stopped before: an idle Redis ends a read that waits up to 100 ms late.
	Alarm func(time.Duration) (stop func())

	// Wants says which events the service handles; all others are acknowledged, and
	// are no messages. Nil: it handles all.
	Wants func(event.Type) bool
}

// Defaults are the options of an ordinary deployment, but for the consumer.
func Defaults(service, group string) Options {
	return Options{
		Service: service, Group: group, Tenants: NewTenantSet("default"),
		Batch: 100, Block: time.Second, Lease: 30 * time.Second, Reclaim: true, Retry: DefaultPolicy(), Isolation: &Isolation{},
	}
}

// Check says what is wrong with options, all at once.
func (o Options) Check() error {
	var errs []error
	if o.Group == "" || o.Consumer == "" {
		errs = append(errs, fmt.Errorf("the %s has no group or no consumer name", o.Service))
	}
	if o.Tenants == nil {
		errs = append(errs, fmt.Errorf("the %s has no tenants", o.Service))
	}
	if o.Batch < 1 || o.Batch > 1000 {
		errs = append(errs, fmt.Errorf("batch is %d, want 1 to 1000", o.Batch))
	}
	if o.Lease <= 0 {
		errs = append(errs, fmt.Errorf("lease is %v, want more than 0", o.Lease))
	}
	return errors.Join(append(errs, o.Retry.check())...)
}

// NewConsumer is a desk on what st holds.
func NewConsumer(st *store.Store, opts Options) (*Consumer, error) {
	if err := opts.Check(); err != nil {
		return nil, err
	}
	if opts.Isolation == nil {
		opts.Isolation = &Isolation{}
	}
	return &Consumer{Store: st, opts: opts}, nil
}

// reader is who reads, for the tenants that are known by now.
func (d *Consumer) reader() store.Reader {
	return store.Reader{
		Group: d.opts.Group, Consumer: d.opts.Consumer, Tenants: d.opts.Tenants.Names(), Wants: d.opts.Wants,
		Often: d.opts.Block > 0,
	}
}

// Held are the messages on the desk that were not handled yet, or not acknowledged.
func (d *Consumer) Held() []store.Message {
	return slices.Concat(d.buffer.Held(), d.handled.buffered(d.reader()), d.omitted.buffered())
}

// Pass has messages acknowledged, on the way of the next Fetch, that mean nothing
// to the service.
func (d *Consumer) Pass(msgs ...store.Message) { d.handled.put(msgs) }

// Finish acknowledges what was passed and waits for the next Fetch, as there is none.
func (d *Consumer) Finish(ctx context.Context) error {
	r := d.reader()
	r.Handled = d.handled.clear()
	err := d.Store.Acknowledge(ctx, r)
	if err != nil {
		d.handled.back(r.Handled)
	}
	return err
}

// Fill gets new messages onto an empty desk, and waits for up to block for one.
// Without any, wake says when there may be something to claim.
func (d *Consumer) Fill(ctx context.Context, block time.Duration) (now, wake time.Time, err error) {
	f, err := d.Fetch(ctx, d.opts.Batch, block)
	d.quiet = f.Events == 0
	d.buffer.Put(f.Messages)
	return f.Now, f.Wake, err
}

// Empty reports whether the desk holds nothing.
func (d *Consumer) Empty() bool {
	return len(d.buffer.Ahead()) == 0
}

// Quiet reports whether the last Fill found nothing, not even what is passed.
func (d *Consumer) Quiet() bool { return d.quiet }

// Fetched is what was read at once.
type Fetched struct {
	Messages []store.Message // that the service handles; all others are passed
	Events   int             // of all types
	Tenants  int             // whose they are
	Now      time.Time       // of Redis
	Wake     time.Time       // when to fetch again; with nothing at all, when there may be something to claim
}

// Fetch reads up to count new events, and waits for up to block for one; if there
// are none, it claims those of dead consumers. Where some tenants have enough, it reads
// the others only.
func (d *Consumer) Fetch(ctx context.Context, count int, block time.Duration, enough ...string) (Fetched, error) {
	var notes store.Notes
	r := d.reader()
	r.Notes = &notes
	defer func() { d.handled.add(notes.Unwanted) }()
	if f, ok, err := d.load(ctx, r, enough); ok {
		return f, d.reported(err)
	}
	count = min(count, d.share.of(len(r.Tenants), d.opts.Batch))
	if len(enough) > 0 {
		return d.fetchOthers(ctx, r, ask{count, block, enough})
	}
	if some, patience := d.busy.next(r.Tenants, block); len(some) > 0 {
		r.Tenants = some
		return d.readSome(ctx, r, count, patience)
	}
	f, err := d.read(ctx, r, count, block)
	d.busy.saw(notes.Found, f.Now)
	// What dead consumers have left comes with what is new now and then, else it
	// would wait for as long as there is something new.
	if err == nil && !d.opts.Reclaim && f.Events == 0 {
		f.Wake = time.Time{}
		return f, nil
	}
	if err != nil || !d.opts.Reclaim || d.claimedLately(f.Now, len(r.Tenants), f.Events > 0) {
		return f, d.reported(err)
	}
	return d.claim(ctx, r, count, f)
}

// read gets new events, and acknowledges what is spent on the way.
func (d *Consumer) read(ctx context.Context, r store.Reader, count int, block time.Duration) (Fetched, error) {
	r.Handled = d.handled.clear()
	msgs, now, err := d.Store.Read(ctx, r, count, block)
	if err != nil {
		d.handled.back(r.Handled)
		r.Notes.Found = nil
	}
	d.share.saw(r.Notes.Found, count)
	f := Fetched{Messages: d.omitted.put(msgs), Now: now, Wake: now, Tenants: len(r.Notes.Found)}
	for _, found := range r.Notes.Found {
		f.Events += found.Events
	}
	return f, err
}

// readSome reads only some of the tenants, and waits no longer than until all of
// them are to be looked at again.
func (d *Consumer) readSome(ctx context.Context, r store.Reader, count int, patience time.Duration) (Fetched, error) {
	if d.opts.Alarm != nil {
		defer d.opts.Alarm(patience)()
	}
	f, err := d.read(ctx, r, count, patience)
	d.busy.at(f.Now)
	return f, d.reported(err)
}

// claim adds to what was fetched what dead consumers have left.
func (d *Consumer) claim(ctx context.Context, r store.Reader, count int, f Fetched) (Fetched, error) {
	d.claimed = f.Now
	abandoned, wake, err := d.Store.ClaimAbandoned(ctx, r, d.opts.Lease, count, f.Now)
	last := ""
	if n := len(r.Notes.Found); n > 0 {
		last = r.Notes.Found[n-1].Tenant
	}
	// Who stands still between the two finds there what it has just read.
	here := append(d.omitted.buffered(), f.Messages...)
	abandoned = slices.DeleteFunc(abandoned, func(m store.Message) bool { return slices.ContainsFunc(here, m.Same) })
	for _, m := range abandoned {
		d.Tell(Activity{What: Claimed, Message: m})
		if m.Tenant != last {
			last = m.Tenant
			f.Tenants++
		}
	}
	fresh := f.Events > 0
	f.Messages, f.Events = append(f.Messages, abandoned...), f.Events+len(abandoned)
	if fresh { // they are the desk's, whatever becomes of the claim
		return f, nil
	}
	f.Wake = wake
	return f, d.reported(err)
}

// claimedLately reports whether it is too soon to look again for what dead consumers
// of so many tenants have left. The more there are, the less often that is, so that a
// second costs the same.
func (d *Consumer) claimedLately(now time.Time, tenants int, busy bool) bool {
	pause := d.opts.Claim
	if tenants > 1 && d.opts.Block > 0 {
		pause = max(pause, min(time.Duration(tenants)*claimEach, d.opts.Lease/2))
	}
	if busy {
		pause = d.opts.Lease / 2
	}
	since := now.Sub(d.claimed)
	return since >= 0 && since < pause
}

// claimEach is how long one more tenant puts off the next look.
const claimEach = 5 * time.Millisecond

// Claim has the next Fetch look for what dead consumers have left.
func (d *Consumer) Claim() { d.claimed = time.Time{} }

// reported reports that nothing could be read.
func (d *Consumer) reported(err error) error {
	if err != nil {
		d.Tell(Activity{What: Unread, Err: err})
	}
	return err
}

// Handle takes one message through that was let in, and tells the observer.
func (d *Consumer) Handle(ctx context.Context, m store.Message, handle func(context.Context, store.Message) error) error {
	if PoisonCandidate(m) && Poison(m) == nil {
		if err := d.Store.MarkIsolated(ctx, m); err != nil {
			return err
		}
		if ctx.Err() != nil { // meanwhile it has become another's, or this is to stop
			return context.Cause(ctx)
		}
	}
	d.Tell(Activity{What: Began, Message: m})
	err := handle(ctx, m)
	if err != nil {
		d.Tell(Activity{What: Broken, Message: m, Err: err})
		return err
	}
	d.Tell(Activity{What: Done, Message: m})
	return nil
}

// Reject deals with a message that could not be handled: it is delivered again,
// or given up, and then the obituary, if there is to be one, tells the worker. An
// error that is not the message's comes back.
func (d *Consumer) Reject(ctx context.Context, m store.Message, cause error, failureEvent event.Type) error {
	class := ClassOf(ctx, cause)
	if class == "" {
		return cause
	}
	if retry, err := d.Retry(ctx, m, cause); retry || err != nil {
		return err
	}
	dead := d.Dead(m, cause)
	var publish []event.Event
	if failureEvent != "" {
		publish = []event.Event{m.FailureEvent(failureEvent, dead)}
	}
	return d.DeadLetter(ctx, m, dead, publish)
}

// Retry puts a message off that may be tried again, and reports whether it may.
func (d *Consumer) Retry(ctx context.Context, m store.Message, cause error) (bool, error) {
	class := ClassOf(ctx, cause)
	if class == Permanent || m.Attempt+1 >= d.opts.Retry.attempts(cause) {
		return false, nil
	}
	_, err := d.Store.Retry(ctx, m, d.opts.Retry.pause(m, class))
	d.Tell(Activity{What: Failed, Message: m, Class: class, Err: cause})
	return true, err
}

// Dead is what is said of a message that is given up.
func (d *Consumer) Dead(m store.Message, cause error) event.Dead {
	attempts := m.Attempt + 1
	if Poison(m) != nil {
		attempts = m.Crashes
	}
	return event.Dead{Reason: cause.Error(), Attempts: attempts, Service: d.opts.Group}
}

// DeadLetter gives a message up.
func (d *Consumer) DeadLetter(ctx context.Context, m store.Message, dead event.Dead, publish []event.Event) error {
	_, err := d.Store.DeadLetter(ctx, m, dead, publish)
	if err == nil {
		d.deadLettered(m, dead)
	}
	return err
}

// GiveUp gives up the message that a commit answers, with what is committed.
func (d *Consumer) GiveUp(ctx context.Context, c store.Commit, dead event.Dead) (store.Outcome, error) {
	outcome, err := d.Store.GiveUp(ctx, c, dead)
	if err == nil && outcome == store.Committed {
		d.deadLettered(*c.Message, dead)
	}
	return outcome, err
}

func (d *Consumer) deadLettered(m store.Message, dead event.Dead) {
	d.Tell(Activity{What: DeadLettered, Message: m, Class: Permanent, Err: errors.New(dead.Reason)})
}

// TenantSet is the tenants whose work is done. It may grow, unless it is fixed.
type TenantSet struct {
	mu    sync.Mutex
	fixed bool
	names []string
	known map[string]bool
}

// NewTenantSet is a roster of some tenants.
func NewTenantSet(names ...string) *TenantSet {
	r := &TenantSet{known: map[string]bool{}}
	r.add(names)
	return r
}

// Fix keeps the roster as it is: a process that serves some tenants may come across
// timers of others, but does nothing else for them.
func (r *TenantSet) Fix() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fixed = true
}

// Names are all tenants, sorted; nobody may change what is returned.
func (r *TenantSet) Names() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.names
}

// Add takes up tenants that were found, and returns those that were not known. Names
// that no tenant can have are left out, and private tenants.
func (r *TenantSet) Add(names ...string) (added []string) {
	return r.add(slices.DeleteFunc(slices.Clone(names), store.Private))
}

func (r *TenantSet) add(names []string) (added []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.fixed {
		return nil
	}
	for _, name := range names {
		if !r.known[name] && store.CheckTenant(name) == nil {
			r.known[name] = true
			added = append(added, name)
		}
	}
	if len(added) > 0 {
		r.names = append(slices.Clone(r.names), added...)
		slices.SortFunc(r.names, strings.Compare)
	}
	return added
}
