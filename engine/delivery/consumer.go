package delivery

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/queue"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/stream"
)

// Consumer reads, claims and acknowledges messages for one service instance, and
// dead-letters those it cannot handle.
type Consumer struct {
	Store   *store.Store
	streams stream.Streams
	opts    Options
	size    *readSize
	recent  recentTenants
	claimed time.Time // Redis' time when it last looked for abandoned entries

	mu      sync.Mutex                // guards the following, since Held is called at any time
	omitted queue.Fair[store.Message] // large messages without their content, which is loaded one message at a time
	handled []stream.Handled          // entries to acknowledge with the next read
}

// Options of a Consumer.
type Options struct {
	Service         string // "worker", "executor" or "timer"
	Group, Consumer string
	Tenants         *TenantSet
	Batch           int           // events of a tenant per read; 1 to 1000
	Block           time.Duration // how long a read waits for events; 0 in most simulations
	Lease           time.Duration // time without a heartbeat after which a consumer's entries are claimed
	Reclaim         bool          // claim such entries
	Claim           time.Duration // minimum time between two searches for such entries while nothing new arrives
	Retry           Policy
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
		Batch: 100, Block: time.Second, Lease: 30 * time.Second, Reclaim: true, Retry: DefaultPolicy(),
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
	return &Consumer{Store: st, streams: stream.New(st), opts: opts, size: &readSize{}}, nil
}

// Sibling returns a consumer with the same name for concurrent reads. The two share what they
// learn about the size of tenants' events.
func (c *Consumer) Sibling() *Consumer {
	return &Consumer{Store: c.Store, streams: c.streams, opts: c.opts, size: c.size}
}

// Fetched is the result of one read.
type Fetched struct {
	Messages []store.Message // of the types that the service handles; others are acknowledged
	Events   int             // of all types
	Tenants  int             // number of tenants with events
	Now      time.Time       // Redis' time
	Wake     time.Time       // when to fetch again; if nothing was read, when abandoned entries may become claimable

	found    []stream.Found
	unwanted []stream.Handled // to acknowledge
}

// Fetch reads up to count new events of each tenant that is not in skip, blocking for up to block. If
// there are none, and from time to time otherwise, it claims abandoned entries. It may return messages
// and an error, if a tenant could not be read. A caller that skips tenants and does not block has work
// to do for them: it gets what is new at little cost, and nothing is claimed.
//
// Between two reads of all tenants, Fetch reads only those that had events lately.
func (c *Consumer) Fetch(ctx context.Context, count int, block time.Duration, skip ...string) (f Fetched, err error) {
	r := c.reader()
	c.mu.Lock()
	omitted := c.omitted.Take(func(tenant string) bool { return !slices.Contains(skip, tenant) })
	if len(omitted) == 0 {
		r.Handled, c.handled = c.handled, nil
	}
	c.mu.Unlock()
	defer c.keep(&r, &f)
	if len(omitted) > 0 {
		got, left, err := c.streams.Load(ctx, r, omitted)
		f = Fetched{Events: len(got.Messages), Now: got.Now, Wake: got.Now, Tenants: 1, unwanted: got.Unwanted}
		f.Messages = append(got.Messages, left...)
		return f, c.reportUnread(err)
	}
	count = min(count, c.size.of(len(r.Tenants), c.opts.Batch))
	busy, period := len(skip) > 0 && block == 0, block // busy: the caller has work to do meanwhile
	if busy {
		period = c.opts.Block
	}
	recent, patience := c.recent.next(r.Tenants, period)
	some, others := Without(recent, skip), Without(r.Tenants, skip)
	if len(some) == 0 {
		if len(skip) > 0 && len(others) == 0 || busy && len(recent) > 0 {
			return f, nil // nothing to read, or not yet
		}
		r.Tenants = others
	} else {
		r.Tenants, block = some, min(block, patience)
	}
	if c.opts.Alarm != nil && block > 0 && (len(skip) > 0 || len(some) > 0) {
		defer c.opts.Alarm(block)()
	}
	if large, fewer := c.size.large(r.Tenants); len(large) > 0 {
		err = c.readLarge(ctx, &r, large, count, min(fewer, count), block, &f)
	} else {
		err = c.read(ctx, &r, r.Tenants, count, block, &f)
	}
	if len(some) > 0 {
		c.recent.at(f.Now)
		return f, c.reportUnread(err)
	}
	c.recent.saw(f.found, skip, f.Now)
	if !busy && !store.Down(c.Store, err) {
		err = errors.Join(err, c.claim(ctx, r, count, &f))
	}
	return f, c.reportUnread(err)
}

// reader returns the reader for all tenants known so far.
func (c *Consumer) reader() stream.Reader {
	return stream.Reader{
		Group: c.opts.Group, Consumer: c.opts.Consumer, Tenants: c.opts.Tenants.Names(), Wants: c.opts.Wants,
		Continuous: c.opts.Block > 0, SkipQuiet: c.opts.Block > 0,
	}
}

// read adds up to count new events of each of the tenants to f. It acknowledges handled ones in the same
// round trip.
func (c *Consumer) read(ctx context.Context, r *stream.Reader, tenants []string, count int, block time.Duration, f *Fetched) error {
	some := *r
	some.Tenants = tenants
	got, err := c.streams.Read(ctx, some, count, block)
	f.Now, f.Wake = got.Now, got.Now
	if err != nil {
		return err
	}
	r.Handled = nil
	c.size.saw(got.Found, count)
	f.unwanted = append(f.unwanted, got.Unwanted...)
	msgs := got.Messages
	if len(f.Messages) > 0 {
		msgs = append(f.Messages, msgs...)
	}
	f.Messages = msgs
	f.found, f.Tenants = append(f.found, got.Found...), f.Tenants+len(got.Found)
	for _, one := range got.Found {
		f.Events += one.Events
	}
	return nil
}

// readLarge reads tenants with large events after the others, up to fewer of each, so that they delay
// the others little.
func (c *Consumer) readLarge(ctx context.Context, r *stream.Reader, large []string, count, fewer int, block time.Duration, f *Fetched) error {
	if others := Without(r.Tenants, large); len(others) > 0 {
		if err := c.read(ctx, r, others, count, 0, f); err != nil {
			return err
		}
		if f.Events > 0 {
			if all := *f; c.read(ctx, r, large, fewer, 0, &all) == nil { // otherwise the next read meets the error again
				*f = all
			}
			return nil
		}
	}
	return c.read(ctx, r, r.Tenants, fewer, block, f)
}

// keep takes from what was fetched the messages to be loaded by a later Fetch, and acknowledges with the
// next one what the service does not handle.
func (c *Consumer) keep(r *stream.Reader, f *Fetched) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f.Messages = slices.DeleteFunc(f.Messages, func(m store.Message) bool {
		switch {
		case m.Omitted:
			c.omitted.PushBack(m.Tenant, m)
		case !c.wants(&m):
			f.unwanted = append(f.unwanted, stream.Handled{Tenant: m.Tenant, ID: m.ID})
		default:
			return false
		}
		return true
	})
	c.handled = slices.Concat(r.Handled, c.handled, f.unwanted)
}

// wants reports whether the service handles a message.
func (c *Consumer) wants(m *store.Message) bool {
	return c.opts.Wants == nil || c.opts.Wants(m.Event.Type)
}

// claim adds abandoned entries to what was fetched. They are searched for from time to time even while
// there are new events; otherwise they would wait for as long as new ones arrive.
func (c *Consumer) claim(ctx context.Context, r stream.Reader, count int, f *Fetched) error {
	fresh := f.Events > 0
	switch {
	case !c.opts.Reclaim && !fresh:
		f.Wake = time.Time{}
		return nil
	case !c.opts.Reclaim || c.claimedRecently(f.Now, len(r.Tenants), fresh):
		return nil
	}
	c.claimed = f.Now
	abandoned, wake, err := c.streams.ClaimAbandoned(ctx, r, c.opts.Lease, count, f.Now)
	last := ""
	if n := len(f.found); n > 0 {
		last = f.found[n-1].Tenant
	}
	// If the process stalled between read and claim, it may claim what it has just read.
	c.mu.Lock()
	here := append(c.omitted.All(), f.Messages...)
	c.mu.Unlock()
	abandoned = slices.DeleteFunc(abandoned, func(m store.Message) bool { return slices.ContainsFunc(here, m.Same) })
	for i, m := range abandoned {
		a := Activity{What: Claimed, Message: m}
		if i == 0 {
			a.Count = len(abandoned)
		}
		c.Report(a)
		if m.Tenant != last {
			last = m.Tenant
			f.Tenants++
		}
	}
	f.Messages, f.Events = append(f.Messages, abandoned...), f.Events+len(abandoned)
	if fresh { // the new messages are held even if the claim failed
		return nil
	}
	if !slices.ContainsFunc(abandoned, func(m store.Message) bool { return m.Omitted || !c.wants(&m) }) {
		f.Wake = wake // otherwise fetch again immediately to load or acknowledge these
	}
	return err
}

// claimedRecently reports whether it is too soon to search for abandoned entries again. The more
// tenants there are, the rarer the searches, so their cost per second stays the same.
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

// Without returns the tenants that are not in skip.
func Without(tenants, skip []string) []string {
	if len(skip) == 0 {
		return tenants
	}
	return slices.DeleteFunc(slices.Clone(tenants), func(tenant string) bool { return slices.Contains(skip, tenant) })
}

// Claim makes the next Fetch search for abandoned entries.
func (c *Consumer) Claim() { c.claimed = time.Time{} }

// Commands takes operators' commands that are queued behind other messages of the tenants.
func (c *Consumer) Commands(ctx context.Context, tenants []string) ([]store.Message, error) {
	msgs, err := c.streams.TakeCommands(ctx, c.reader(), tenants)
	return msgs, c.reportUnread(err)
}

// OmittedTenants returns the tenants with large messages yet to be loaded.
func (c *Consumer) OmittedTenants() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.omitted.Tenants())
}

// Large returns the tenants whose events were so large when last read that reading them delays
// others.
func (c *Consumer) Large() []string {
	large, _ := c.size.large(c.opts.Tenants.Names())
	return large
}

// ForgetLarge makes Large return no tenants until large events are read again.
func (c *Consumer) ForgetLarge() { c.size.forget() }

// reportUnread reports a failed read to the observer and returns the error.
func (c *Consumer) reportUnread(err error) error {
	if err != nil {
		c.Report(Activity{What: Unread, Err: err})
	}
	return err
}

// Handle calls handle for messages that Isolation has admitted, one poison candidate or any number of
// others, and reports the result to the observer.
func (c *Consumer) Handle(ctx context.Context, msgs []store.Message, handle func() error) error {
	if m := msgs[0]; PoisonCandidate(m) && Poison(m) == nil {
		if err := c.streams.MarkIsolated(ctx, m); err != nil {
			return err
		}
		if ctx.Err() != nil { // another consumer has claimed the message, or the service is stopping
			return context.Cause(ctx)
		}
	}
	c.reportAll(Began, msgs, nil)
	if err := handle(); err != nil {
		c.reportAll(Broken, msgs, err)
		return err
	}
	c.reportAll(Done, msgs, nil)
	return nil
}

func (c *Consumer) reportAll(what What, msgs []store.Message, err error) {
	if c.opts.Observe == nil {
		return
	}
	for _, m := range msgs {
		c.Report(Activity{What: what, Message: m, Err: err})
	}
}

// Ignore acknowledges a message that needs no handling, with the next Fetch.
func (c *Consumer) Ignore(m store.Message) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.handled = append(c.handled, stream.Handled{Tenant: m.Tenant, ID: m.ID})
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
		c.DeadLettered(m, dead)
	}
	return err
}

// DeadLettered reports to the observer that a message was dead-lettered.
func (c *Consumer) DeadLettered(m store.Message, dead event.Dead) {
	c.Report(Activity{What: DeadLettered, Message: m, Class: Permanent, Err: errors.New(dead.Reason)})
}

// Finish immediately acknowledges what the next Fetch would acknowledge. Call it after the last Fetch.
func (c *Consumer) Finish(ctx context.Context) error {
	r := c.reader()
	c.mu.Lock()
	r.Handled, c.handled = c.handled, nil
	c.mu.Unlock()
	err := c.streams.Acknowledge(ctx, r)
	if err != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.handled = append(r.Handled, c.handled...)
	}
	return err
}

// Held returns the messages that are not loaded or not acknowledged yet. It may be called at any time.
func (c *Consumer) Held() (held []store.Message) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, e := range c.handled { // the fields needed to renew or release it
		held = append(held, store.Message{Tenant: e.Tenant, Group: c.opts.Group, Consumer: c.opts.Consumer, ID: e.ID})
	}
	return append(held, c.omitted.All()...)
}
