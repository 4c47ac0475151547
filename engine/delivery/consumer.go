package delivery

import (
	"context"
	"errors"
	"fmt"
	"slices"
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
	Batch           int           // events per read; 1 to 1000
	Block           time.Duration // how long a read waits for events; 0 in simulation
	Lease           time.Duration // time without a heartbeat after which a consumer's entries are claimed; simulated 1s to 1m
	Reclaim         bool          // claim such entries
	Claim           time.Duration // minimum time between two searches for such entries while nothing new arrives
	Retry           Policy
	Isolation       *Isolation // shared by the instances of the service in a process
	Observe         Observer

	// Alarm, if set, sends Redis a command after the given time unless it is stopped first.
	// Without one, an idle Redis ends a blocking read up to 100 ms late.
	Alarm func(time.Duration) (stop func())

	// Wants reports whether the service handles events of a type; others are acknowledged and not
	// returned. Nil means all.
	Wants func(event.Type) bool
}

// Defaults are the options of an ordinary deployment, without a consumer name.
func Defaults(service, group string) Options {
	return Options{
		Service: service, Group: group, Tenants: NewTenantSet("default"),
		Batch: 100, Block: time.Second, Lease: 30 * time.Second, Reclaim: true, Retry: DefaultPolicy(), Isolation: &Isolation{},
	}
}

// check reports all invalid options.
func (o Options) check() error {
	var errs []error
	if o.Group == "" || o.Consumer == "" {
		errs = append(errs, fmt.Errorf("the %s needs a group and a consumer name", o.Service))
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
	if err := opts.check(); err != nil {
		return nil, err
	}
	if opts.Isolation == nil {
		opts.Isolation = &Isolation{}
	}
	return &Consumer{Store: st, streams: stream.New(st), opts: opts, size: &readSize{}}, nil
}

// Sibling returns a consumer with the same name for concurrent reads. The two share what they
// learn about the size of tenants' events.
func (c *Consumer) Sibling() *Consumer {
	return &Consumer{Store: c.Store, streams: c.streams, opts: c.opts, size: c.size}
}

// Large returns the tenants whose events were so large when last read that reading them delays
// others.
func (c *Consumer) Large() []string {
	large, _ := c.size.large(c.opts.Tenants.Names())
	return large
}

// ForgetLarge makes Large return no tenants until large events are read again.
func (c *Consumer) ForgetLarge() { c.size.forget() }

// reader returns the reader for all tenants known so far.
func (c *Consumer) reader() stream.Reader {
	return stream.Reader{
		Group: c.opts.Group, Consumer: c.opts.Consumer, Tenants: c.opts.Tenants.Names(), Wants: c.opts.Wants,
		Continuous: c.opts.Block > 0, SkipQuiet: c.opts.Block > 0,
	}
}

// Held returns the messages that are not handled or not acknowledged yet.
func (c *Consumer) Held() []store.Message {
	return slices.Concat(c.buffer.held(), c.handled.buffered(c.reader()), c.omitted.buffered())
}

// AcknowledgeLater queues messages that need no handling, to be acknowledged with the next Fetch.
func (c *Consumer) AcknowledgeLater(msgs ...store.Message) { c.handled.put(msgs) }

// Finish immediately acknowledges the messages that the next Fetch would acknowledge. Call it
// after the last Fetch.
func (c *Consumer) Finish(ctx context.Context) error {
	r := c.reader()
	r.Handled = c.handled.clear()
	err := c.streams.Acknowledge(ctx, r)
	if err != nil {
		c.handled.putBack(r.Handled)
	}
	return err
}

// Fill reads new messages into the empty buffer, blocking for up to block. If there are none,
// wake is when abandoned entries may become claimable.
func (c *Consumer) Fill(ctx context.Context, block time.Duration) (now, wake time.Time, err error) {
	f, err := c.Fetch(ctx, c.opts.Batch, block)
	c.quiet = f.Events == 0
	c.buffer.Put(f.Messages)
	return f.Now, f.Wake, err
}

// Commands takes operators' commands that are queued behind other messages of the tenants.
func (c *Consumer) Commands(ctx context.Context, tenants []string) ([]store.Message, error) {
	msgs, err := c.streams.TakeCommands(ctx, c.reader(), tenants)
	return msgs, c.reportUnread(err)
}

// OmittedTenants returns the tenants with large messages yet to be loaded.
func (c *Consumer) OmittedTenants() []string { return c.omitted.tenants() }

// Empty reports whether the buffer is empty.
func (c *Consumer) Empty() bool {
	return len(c.buffer.Next()) == 0
}

// Quiet reports whether the last Fill found no events at all, not even unwanted ones.
func (c *Consumer) Quiet() bool { return c.quiet }

// Fetched is the result of one read.
type Fetched struct {
	Messages []store.Message // of the types that the service handles; others are acknowledged
	Events   int             // of all types
	Tenants  int             // number of tenants with events
	Now      time.Time       // Redis' time
	Wake     time.Time       // when to fetch again; if nothing was read, when abandoned entries may become claimable
}

// Fetch reads up to count new events of each tenant that is not in skip, blocking for up to block. If
// there are none, it claims abandoned entries. A caller that skips tenants and does not block has work
// to do for them: it gets what is new at little cost, and nothing is claimed.
func (c *Consumer) Fetch(ctx context.Context, count int, block time.Duration, skip ...string) (Fetched, error) {
	var info stream.ReadInfo
	r := c.reader()
	r.ReadInfo = &info
	defer func() { c.handled.add(info.Unwanted) }()
	if f, ok, err := c.load(ctx, r, skip); ok {
		return f, c.reportUnread(err)
	}
	next := c.next(r.Tenants, skip, block)
	if next.none {
		return Fetched{}, nil
	}
	count = min(count, c.size.of(len(r.Tenants), c.opts.Batch))
	r.Tenants = next.tenants
	if c.opts.Alarm != nil && next.block > 0 && (len(skip) > 0 || !next.all) {
		defer c.opts.Alarm(next.block)()
	}
	f, err := c.read(ctx, r, count, next.block)
	if !next.all {
		c.recent.at(f.Now)
		return f, c.reportUnread(err)
	}
	c.recent.saw(info.Found, skip, f.Now)
	if !next.busy && !store.Down(c.Store, err) {
		var wrong error
		f, wrong = c.claim(ctx, r, count, f)
		err = errors.Join(err, wrong)
	}
	return f, c.reportUnread(err)
}

// nextRead is what to read next.
type nextRead struct {
	none    bool // nothing at the moment
	tenants []string
	all     bool // these are all tenants, except those to skip
	busy    bool // the caller has work to do meanwhile
	block   time.Duration
}

// next returns what to read next. Between two reads of all tenants, only those that had events lately
// are read.
func (c *Consumer) next(tenants, skip []string, block time.Duration) nextRead {
	busy, period := len(skip) > 0 && block == 0, block
	if busy {
		period = c.opts.Block
	}
	recent, patience := c.recent.next(tenants, period)
	if some := Without(recent, skip); len(some) > 0 {
		return nextRead{tenants: some, busy: busy, block: min(block, patience)}
	}
	others := Without(tenants, skip)
	allSkipped, notYet := len(skip) > 0 && len(others) == 0, busy && len(recent) > 0
	return nextRead{none: allSkipped || notYet, tenants: others, all: true, busy: busy, block: block}
}

// Without returns the tenants that are not in skip.
func Without(tenants, skip []string) []string {
	if len(skip) == 0 {
		return tenants
	}
	return slices.DeleteFunc(slices.Clone(tenants), func(tenant string) bool { return slices.Contains(skip, tenant) })
}

// read reads new events and acknowledges handled ones in the same round trip. Tenants with large
// events are read after the others and in smaller numbers, so that they delay them little.
func (c *Consumer) read(ctx context.Context, r stream.Reader, count int, block time.Duration) (Fetched, error) {
	large, fewer := c.size.large(r.Tenants)
	if len(large) == 0 {
		return c.readAll(ctx, r, count, block)
	}
	fewer = min(fewer, count)
	if len(large) == len(r.Tenants) {
		return c.readAll(ctx, r, fewer, block)
	}
	others := r
	others.Tenants = Without(r.Tenants, large)
	f, err := c.readAll(ctx, others, count, 0)
	if err != nil {
		return f, err
	}
	if f.Events == 0 {
		return c.readAll(ctx, r, fewer, block)
	}
	found := slices.Clone(r.ReadInfo.Found)
	r.Tenants = large
	more, err := c.readAll(ctx, r, fewer, 0)
	r.ReadInfo.Found = append(found, r.ReadInfo.Found...)
	if err != nil {
		return f, nil //nolint:nilerr // the other tenants' events were read; the next read meets the error again
	}
	more.Messages, more.Events, more.Tenants = append(f.Messages, more.Messages...), f.Events+more.Events, f.Tenants+more.Tenants
	return more, nil
}

// readAll reads up to count events of each tenant.
func (c *Consumer) readAll(ctx context.Context, r stream.Reader, count int, block time.Duration) (Fetched, error) {
	r.Handled = c.handled.clear()
	r.ReadInfo.Found = nil
	msgs, now, err := c.streams.Read(ctx, r, count, block)
	if err != nil {
		c.handled.putBack(r.Handled)
		r.ReadInfo.Found = nil
	}
	c.size.saw(r.ReadInfo.Found, count)
	f := Fetched{Messages: c.omitted.put(msgs), Now: now, Wake: now, Tenants: len(r.ReadInfo.Found)}
	for _, found := range r.ReadInfo.Found {
		f.Events += found.Events
	}
	return f, err
}

// claim adds abandoned entries to what was fetched. They are searched for from time to time even while
// there are new events; otherwise they would wait for as long as new ones arrive.
func (c *Consumer) claim(ctx context.Context, r stream.Reader, count int, f Fetched) (Fetched, error) {
	switch {
	case !c.opts.Reclaim && f.Events == 0:
		f.Wake = time.Time{}
		return f, nil
	case !c.opts.Reclaim || c.claimedRecently(f.Now, len(r.Tenants), f.Events > 0):
		return f, nil
	}
	c.claimed = f.Now
	abandoned, wake, err := c.streams.ClaimAbandoned(ctx, r, c.opts.Lease, count, f.Now)
	last := ""
	if n := len(r.ReadInfo.Found); n > 0 {
		last = r.ReadInfo.Found[n-1].Tenant
	}
	// If the process stalled between read and claim, it may claim what it has just read.
	here := append(c.omitted.buffered(), f.Messages...)
	abandoned = slices.DeleteFunc(abandoned, func(m store.Message) bool { return slices.ContainsFunc(here, m.Same) })
	for _, m := range abandoned {
		c.Report(Activity{What: Claimed, Message: m})
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
	return f, err
}

// claimedRecently reports whether it is too soon to search for abandoned entries again. The more
// tenants there are, the rarer the searches, so that their cost per second stays the same.
func (c *Consumer) claimedRecently(now time.Time, tenants int, busy bool) bool {
	pause := c.opts.Claim
	if tenants > 1 && c.opts.Block > 0 {
		pause = max(pause, min(time.Duration(tenants)*claimEach, c.opts.Lease/2))
	}
	if busy {
		pause = c.opts.Lease / 2
	}
	since := now.Sub(c.claimed)
	return since >= 0 && since < pause
}

// claimEach is the delay that each tenant adds before the next search for abandoned entries.
const claimEach = 5 * time.Millisecond

// Claim makes the next Fetch search for abandoned entries.
func (c *Consumer) Claim() { c.claimed = time.Time{} }

// reportUnread reports a failed read to the observer and returns the error.
func (c *Consumer) reportUnread(err error) error {
	if err != nil {
		c.Report(Activity{What: Unread, Err: err})
	}
	return err
}

// Handle calls handle with a message that Isolation admitted, and reports the result to the
// observer.
func (c *Consumer) Handle(ctx context.Context, m store.Message, handle func(context.Context, store.Message) error) error {
	return c.attempt(ctx, []store.Message{m}, func() error { return handle(ctx, m) })
}

// Reject settles a message that could not be handled. The message is delivered again, or
// dead-lettered together with a failure event for the worker unless failureEvent is empty.
// Reject returns an error that is not the message's fault.
func (c *Consumer) Reject(ctx context.Context, m store.Message, cause error, failureEvent event.Type) error {
	class := ClassOf(ctx, cause)
	if class == "" {
		return cause
	}
	if retry, err := c.Retry(ctx, m, cause); retry || err != nil {
		return err
	}
	dead := c.Dead(m, cause)
	var publish []event.Event
	if failureEvent != "" {
		publish = []event.Event{m.FailureEvent(failureEvent, dead)}
	}
	return c.DeadLetter(ctx, m, dead, publish)
}

// Retry delays a message that has retries left, and reports whether it did.
func (c *Consumer) Retry(ctx context.Context, m store.Message, cause error) (bool, error) {
	class := ClassOf(ctx, cause)
	if class == Permanent || m.Attempt+1 >= c.opts.Retry.attempts(cause) {
		return false, nil
	}
	_, err := c.streams.Retry(ctx, m, c.opts.Retry.pause(m, class))
	c.Report(Activity{What: Failed, Message: m, Class: class, Err: cause})
	return true, err
}

// Dead returns the dead-letter record of a message: the reason and the number of attempts.
func (c *Consumer) Dead(m store.Message, cause error) event.Dead {
	attempts := m.Attempt + 1
	if Poison(m) != nil {
		attempts = m.Crashes
	}
	return event.Dead{Reason: cause.Error(), Attempts: attempts, Service: c.opts.Group}
}

// DeadLetter dead-letters a message and publishes events in the same step.
func (c *Consumer) DeadLetter(ctx context.Context, m store.Message, dead event.Dead, publish []event.Event) error {
	_, err := c.streams.DeadLetter(ctx, m, dead, publish)
	if err == nil {
		c.deadLettered(m, dead)
	}
	return err
}

// GiveUp commits c and dead-letters the message that it answers, atomically.
func (c *Consumer) GiveUp(ctx context.Context, commit store.Commit, dead event.Dead) (store.Outcome, error) {
	outcome, err := c.Store.GiveUp(ctx, commit, dead)
	if err == nil && outcome == store.Committed {
		c.deadLettered(*commit.Message, dead)
	}
	return outcome, err
}

func (c *Consumer) deadLettered(m store.Message, dead event.Dead) {
	c.Report(Activity{What: DeadLettered, Message: m, Class: Permanent, Err: errors.New(dead.Reason)})
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

// Fix stops the set from growing, for a process that serves only some tenants. Such a process
// also fires the timers of others, but does nothing else for them.
func (s *TenantSet) Fix() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fixed = true
}

// Names returns all tenants, sorted. The caller must not change the slice.
func (s *TenantSet) Names() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.names
}

// Add adds tenants and returns those that are new. It ignores invalid names and private
// tenants.
func (s *TenantSet) Add(names ...string) (added []string) {
	return s.add(slices.DeleteFunc(slices.Clone(names), store.Private))
}

func (s *TenantSet) add(names []string) (added []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fixed {
		return nil
	}
	for _, name := range names {
		if !s.known[name] && store.CheckTenant(name) == nil {
			s.known[name] = true
			added = append(added, name)
		}
	}
	if len(added) > 0 {
		s.names = append(slices.Clone(s.names), added...)
		slices.Sort(s.names)
	}
	return added
}
