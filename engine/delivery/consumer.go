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
	"flunq.io/flunq/engine/store/stream"
)

// Consumer reads, claims and acknowledges messages for one service instance, and
// dead-letters those it cannot handle.
type Consumer struct {
	Store   *store.Store
	streams stream.Streams
	opts    Options
	buffer  Buffer
	handled handled
	size    *readSize
	omitted omittedMessages
	recent  recentTenants
	quiet   bool // the last Fill found nothing

	claimed time.Time // Redis' time when it last looked for abandoned entries
}

// Options of a Consumer.
type Options struct {
	Service         string // "worker", "executor" or "timer"
	Group, Consumer string
	Tenants         *TenantSet
	Batch           int           // events read at once; 1 to 1000
	Block           time.Duration // how long a read waits for events; 0 in simulation
	Lease           time.Duration // after it, a silent consumer's entries are claimed; simulated 1s to 1m
	Reclaim         bool          // whether to claim them at all
	Claim           time.Duration // minimum time between two searches for them while nothing new arrives
	Retry           Policy
	Isolation       *Isolation // shared by the instances of the service in a process
	Observe         Observer

	// Alarm, if set, sends Redis a command after the given time, unless it is stopped
	// first: without one, an idle Redis ends a blocking read up to 100 ms late.
	Alarm func(time.Duration) (stop func())

	// Wants reports which events the service handles; others are acknowledged and not
	// returned. Nil: it handles all.
	Wants func(event.Type) bool
}

// Defaults are the options of an ordinary deployment, without a consumer name.
func Defaults(service, group string) Options {
	return Options{
		Service: service, Group: group, Tenants: NewTenantSet("default"),
		Batch: 100, Block: time.Second, Lease: 30 * time.Second, Reclaim: true, Retry: DefaultPolicy(), Isolation: &Isolation{},
	}
}

// Check reports all invalid options at once.
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

// NewConsumer returns a consumer that reads from st.
func NewConsumer(st *store.Store, opts Options) (*Consumer, error) {
	if err := opts.Check(); err != nil {
		return nil, err
	}
	if opts.Isolation == nil {
		opts.Isolation = &Isolation{}
	}
	return &Consumer{Store: st, streams: stream.New(st), opts: opts, size: &readSize{}}, nil
}

// Sibling returns a consumer of the same name for concurrent reads. What the one learns about
// the size of tenants' events, the other knows.
func (d *Consumer) Sibling() *Consumer {
	return &Consumer{Store: d.Store, streams: d.streams, opts: d.opts, size: d.size}
}

// Large returns the tenants whose events were so large when they were last read that reading
// them delays others.
func (d *Consumer) Large() []string {
	large, _ := d.size.large(d.opts.Tenants.Names())
	return large
}

// ForgetLarge makes Large return none, until such events are read again.
func (d *Consumer) ForgetLarge() { d.size.forget() }

// reader returns the reader for all tenants known so far.
func (d *Consumer) reader() stream.Reader {
	return stream.Reader{
		Group: d.opts.Group, Consumer: d.opts.Consumer, Tenants: d.opts.Tenants.Names(), Wants: d.opts.Wants,
		Continuous: d.opts.Block > 0,
	}
}

// Held returns the messages that are not handled or not acknowledged yet.
func (d *Consumer) Held() []store.Message {
	return slices.Concat(d.buffer.Held(), d.handled.buffered(d.reader()), d.omitted.buffered())
}

// Pass queues messages that need no handling, to be acknowledged with the next Fetch.
func (d *Consumer) Pass(msgs ...store.Message) { d.handled.put(msgs) }

// Finish acknowledges at once the messages that the next Fetch would acknowledge. Call it
// when there will be no more.
func (d *Consumer) Finish(ctx context.Context) error {
	r := d.reader()
	r.Handled = d.handled.clear()
	err := d.streams.Acknowledge(ctx, r)
	if err != nil {
		d.handled.putBack(r.Handled)
	}
	return err
}

// Fill reads new messages into the empty buffer and blocks for up to block. If there are
// none, wake is when abandoned entries may become claimable.
func (d *Consumer) Fill(ctx context.Context, block time.Duration) (now, wake time.Time, err error) {
	f, err := d.Fetch(ctx, d.opts.Batch, block)
	d.quiet = f.Events == 0
	d.buffer.Put(f.Messages)
	return f.Now, f.Wake, err
}

// Commands takes operators' commands that wait behind other messages of the tenants.
func (d *Consumer) Commands(ctx context.Context, tenants []string) ([]store.Message, error) {
	msgs, err := d.streams.TakeCommands(ctx, d.reader(), tenants)
	return msgs, d.reportUnread(err)
}

// OmittedTenants returns the tenants with large messages that are still to be loaded.
func (d *Consumer) OmittedTenants() []string { return d.omitted.tenants() }

// Empty reports whether the buffer is empty.
func (d *Consumer) Empty() bool {
	return len(d.buffer.Next()) == 0
}

// Quiet reports whether the last Fill found no events at all, not even unwanted ones.
func (d *Consumer) Quiet() bool { return d.quiet }

// Fetched is the result of one read.
type Fetched struct {
	Messages []store.Message // that the service handles; others are acknowledged
	Events   int             // of all types
	Tenants  int             // number of tenants with events
	Now      time.Time       // Redis' time
	Wake     time.Time       // when to fetch again; if nothing was read, when abandoned entries may become claimable
}

// Fetch reads up to count new events of each tenant and blocks for up to block. If there
// are none, it claims abandoned entries. It leaves out the tenants in skip.
func (d *Consumer) Fetch(ctx context.Context, count int, block time.Duration, skip ...string) (Fetched, error) {
	var notes stream.ReadInfo
	r := d.reader()
	r.ReadInfo = &notes
	defer func() { d.handled.add(notes.Unwanted) }()
	if f, ok, err := d.load(ctx, r, skip); ok {
		return f, d.reportUnread(err)
	}
	count = min(count, d.size.of(len(r.Tenants), d.opts.Batch))
	if len(skip) > 0 {
		return d.fetchOthers(ctx, r, count, block, skip)
	}
	if some, patience := d.recent.next(r.Tenants, block); len(some) > 0 {
		r.Tenants = some
		return d.readSome(ctx, r, count, patience)
	}
	f, err := d.read(ctx, r, count, block)
	d.recent.saw(notes.Found, f.Now)
	// Abandoned entries are claimed now and then even while there are new events, or they
	// would wait for as long as new ones arrive.
	if err == nil && !d.opts.Reclaim && f.Events == 0 {
		f.Wake = time.Time{}
		return f, nil
	}
	if err != nil || !d.opts.Reclaim || d.claimedRecently(f.Now, len(r.Tenants), f.Events > 0) {
		return f, d.reportUnread(err)
	}
	return d.claim(ctx, r, count, f)
}

// read reads new events and acknowledges handled ones in the same round trip. Tenants with
// large events are read after the others and fewer at once, so that they delay them little.
func (d *Consumer) read(ctx context.Context, r stream.Reader, count int, block time.Duration) (Fetched, error) {
	large, fewer := d.size.large(r.Tenants)
	if len(large) == 0 {
		return d.readAll(ctx, r, count, block)
	}
	fewer = min(fewer, count)
	if len(large) == len(r.Tenants) {
		return d.readAll(ctx, r, fewer, block)
	}
	others := r
	others.Tenants = slices.DeleteFunc(slices.Clone(r.Tenants), func(tenant string) bool { return slices.Contains(large, tenant) })
	f, err := d.readAll(ctx, others, count, 0)
	if err != nil {
		return f, err
	}
	if f.Events == 0 {
		return d.readAll(ctx, r, fewer, block)
	}
	found := slices.Clone(r.ReadInfo.Found)
	r.Tenants = large
	more, err := d.readAll(ctx, r, fewer, 0)
	r.ReadInfo.Found = append(found, r.ReadInfo.Found...)
	if err != nil {
		return f, nil //nolint:nilerr // the other tenants' events were read; the next read meets it again
	}
	more.Messages, more.Events, more.Tenants = append(f.Messages, more.Messages...), f.Events+more.Events, f.Tenants+more.Tenants
	return more, nil
}

// readAll reads up to count events of each tenant.
func (d *Consumer) readAll(ctx context.Context, r stream.Reader, count int, block time.Duration) (Fetched, error) {
	r.Handled = d.handled.clear()
	r.ReadInfo.Found = nil
	msgs, now, err := d.streams.Read(ctx, r, count, block)
	if err != nil {
		d.handled.putBack(r.Handled)
		r.ReadInfo.Found = nil
	}
	d.size.saw(r.ReadInfo.Found, count)
	f := Fetched{Messages: d.omitted.put(msgs), Now: now, Wake: now, Tenants: len(r.ReadInfo.Found)}
	for _, found := range r.ReadInfo.Found {
		f.Events += found.Events
	}
	return f, err
}

// readSome reads the tenants of r. It blocks for at most patience, after which all tenants
// are due to be read again.
func (d *Consumer) readSome(ctx context.Context, r stream.Reader, count int, patience time.Duration) (Fetched, error) {
	if d.opts.Alarm != nil {
		defer d.opts.Alarm(patience)()
	}
	f, err := d.read(ctx, r, count, patience)
	d.recent.at(f.Now)
	return f, d.reportUnread(err)
}

// claim adds abandoned entries to what was fetched.
func (d *Consumer) claim(ctx context.Context, r stream.Reader, count int, f Fetched) (Fetched, error) {
	d.claimed = f.Now
	abandoned, wake, err := d.streams.ClaimAbandoned(ctx, r, d.opts.Lease, count, f.Now)
	last := ""
	if n := len(r.ReadInfo.Found); n > 0 {
		last = r.ReadInfo.Found[n-1].Tenant
	}
	// If the process stalled between read and claim, it may claim what it has just read.
	here := append(d.omitted.buffered(), f.Messages...)
	abandoned = slices.DeleteFunc(abandoned, func(m store.Message) bool { return slices.ContainsFunc(here, m.Same) })
	for _, m := range abandoned {
		d.Report(Activity{What: Claimed, Message: m})
		if m.Tenant != last {
			last = m.Tenant
			f.Tenants++
		}
	}
	fresh := f.Events > 0
	f.Messages, f.Events = append(f.Messages, abandoned...), f.Events+len(abandoned)
	if fresh { // the new messages are held even if the claim failed
		return f, nil
	}
	f.Wake = wake
	return f, d.reportUnread(err)
}

// claimedRecently reports whether it is too soon to search for abandoned entries again. The
// more tenants there are, the rarer the searches, so that their cost per second stays the
// same.
func (d *Consumer) claimedRecently(now time.Time, tenants int, busy bool) bool {
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

// claimEach is how much each tenant delays the next search for abandoned entries.
const claimEach = 5 * time.Millisecond

// Claim makes the next Fetch search for abandoned entries.
func (d *Consumer) Claim() { d.claimed = time.Time{} }

// reportUnread reports a failed read to the observer and returns the error.
func (d *Consumer) reportUnread(err error) error {
	if err != nil {
		d.Report(Activity{What: Unread, Err: err})
	}
	return err
}

// Handle calls handle with a message that Isolation admitted, and reports the result to the
// observer.
func (d *Consumer) Handle(ctx context.Context, m store.Message, handle func(context.Context, store.Message) error) error {
	if PoisonCandidate(m) && Poison(m) == nil {
		if err := d.streams.MarkIsolated(ctx, m); err != nil {
			return err
		}
		if ctx.Err() != nil { // the message was lost meanwhile, or the service is to stop
			return context.Cause(ctx)
		}
	}
	d.Report(Activity{What: Began, Message: m})
	err := handle(ctx, m)
	if err != nil {
		d.Report(Activity{What: Broken, Message: m, Err: err})
		return err
	}
	d.Report(Activity{What: Done, Message: m})
	return nil
}

// Reject settles a message that could not be handled: it is delivered again, or
// dead-lettered with a failure event for the worker, if failureEvent is not empty. An
// error that is not the message's fault is returned.
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

// Retry delays a message whose retries are not used up, and reports whether it did.
func (d *Consumer) Retry(ctx context.Context, m store.Message, cause error) (bool, error) {
	class := ClassOf(ctx, cause)
	if class == Permanent || m.Attempt+1 >= d.opts.Retry.attempts(cause) {
		return false, nil
	}
	_, err := d.streams.Retry(ctx, m, d.opts.Retry.pause(m, class))
	d.Report(Activity{What: Failed, Message: m, Class: class, Err: cause})
	return true, err
}

// Dead returns the dead-letter record of a message: the reason and the number of attempts.
func (d *Consumer) Dead(m store.Message, cause error) event.Dead {
	attempts := m.Attempt + 1
	if Poison(m) != nil {
		attempts = m.Crashes
	}
	return event.Dead{Reason: cause.Error(), Attempts: attempts, Service: d.opts.Group}
}

// DeadLetter dead-letters a message and publishes events with it.
func (d *Consumer) DeadLetter(ctx context.Context, m store.Message, dead event.Dead, publish []event.Event) error {
	_, err := d.streams.DeadLetter(ctx, m, dead, publish)
	if err == nil {
		d.deadLettered(m, dead)
	}
	return err
}

// GiveUp commits c and dead-letters the message that it answers, atomically.
func (d *Consumer) GiveUp(ctx context.Context, c store.Commit, dead event.Dead) (store.Outcome, error) {
	outcome, err := d.Store.GiveUp(ctx, c, dead)
	if err == nil && outcome == store.Committed {
		d.deadLettered(*c.Message, dead)
	}
	return outcome, err
}

func (d *Consumer) deadLettered(m store.Message, dead event.Dead) {
	d.Report(Activity{What: DeadLettered, Message: m, Class: Permanent, Err: errors.New(dead.Reason)})
}

// TenantSet is the set of tenants that a process serves. It can grow until Fix is called.
// It is safe for concurrent use.
type TenantSet struct {
	mu    sync.Mutex
	fixed bool
	names []string
	known map[string]bool
}

// NewTenantSet returns a set of the tenants with these names. It ignores invalid names.
func NewTenantSet(names ...string) *TenantSet {
	r := &TenantSet{known: map[string]bool{}}
	r.add(names)
	return r
}

// Fix stops the set from growing: a process that serves only some tenants also fires the
// timers of others, but does nothing else for them.
func (r *TenantSet) Fix() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fixed = true
}

// Names returns all tenants, sorted. The caller must not change the slice.
func (r *TenantSet) Names() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.names
}

// Add adds tenants and returns those that are new. It ignores invalid names and private
// tenants.
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
