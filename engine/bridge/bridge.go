// Package bridge is the service that connects tenants with Kafka or NATS. Out publishes the
// entries of their streams, those of an execution in order and each at least once. In appends
// messages from topics to the streams, each exactly once.
package bridge

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"flunq.io/flunq/engine/cloudevents"
	"flunq.io/flunq/engine/delivery"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/stream"
)

// Sink publishes messages.
type Sink interface {
	// Publish publishes messages with different keys and returns one error for each. After an
	// error that does not wrap cloudevents.ErrRefused, the message may or may not have been
	// published, and may be published again.
	Publish(ctx context.Context, messages []cloudevents.Message) []error
}

// Source reads messages.
type Source interface {
	// Fetch returns the next messages of topics, in order within each partition. In a topic that it
	// does not know, or that was missing from the last call, it begins each partition after the
	// position that after returns. It waits a moment for messages.
	Fetch(ctx context.Context, topics []string, after func(partition string) (cloudevents.Position, bool)) ([]cloudevents.Message, error)
	// Commit tells the broker that messages were taken, for the broker's own tools.
	Commit(ctx context.Context, messages []cloudevents.Message)
	// Lags returns how many messages of each partition follow the last one that Fetch returned, as far
	// as that is known.
	Lags() map[string]int64
}

// Options of a Bridge.
type Options struct {
	Process string // unique on one Redis
	Tenants *delivery.TenantSet
	Lease   time.Duration // time after which another process may become the bridge of a tenant

	Group string        // consumer group on the streams of tenants
	Batch int           // entries of a tenant per read; 1 to 1000
	Block time.Duration // how long a read waits for entries; 0 in simulation
	Sink  Sink
	Topic string // to publish entries to; {tenant} stands for the tenant
	Mode  cloudevents.Mode
	// Which events to publish: those emitted by workflows and 'flunq emit', the lifecycle events of
	// the specification, and all other events of the engine.
	Emitted, Lifecycle, Own bool

	Source  Source   // nil: do not read messages
	Listen  []string // topics to read; {tenant} stands for the tenant
	Default string   // tenant of topics without {tenant}
	Trusted []string // topics whose messages may be of the engine's own types
	// Plain is the type of messages without attributes; "": they cannot be read.
	Plain event.Type
	// Workflows maps event types to the workflows that they start, as NAME or NAME:VERSION.
	Workflows map[event.Type]string
	// Start starts an execution, and returns nil if it exists. The error wraps
	// cloudevents.ErrRefused if it can never be started.
	Start func(ctx context.Context, s Start) error

	// Observe, if set, receives what the bridge does.
	Observe func(Activity)
	// Lag, if set, receives the lags of the Source after each Fetch, and nil when there are no
	// topics to read.
	Lag func(map[string]int64)
}

// Start is an execution to start because of an event.
type Start struct {
	Tenant, Workflow, ID string
	Input                []byte
}

// Activity reports something that a bridge has done.
type Activity struct {
	What   What
	Tenant string
	Topic  string
	Count  int
	Err    error // nil for Published and Received
}

// What is the kind of an Activity.
type What string

// The kinds of Activity.
const (
	Published   What = "published"   // entries became messages
	Refused     What = "refused"     // the broker will never accept an entry, which became a dead letter
	Unpublished What = "unpublished" // entries could not be published now and will be retried
	Received    What = "received"    // messages became entries
	Repeated    What = "repeated"    // messages had been taken before
	Rejected    What = "rejected"    // messages became dead letters
	Unread      What = "unread"      // the broker could not be read
	Lost        What = "lost"        // the broker has lost messages, or removed them unread
)

// TenantMark stands for the tenant in the names of topics.
const TenantMark = "{tenant}"

func (o *Options) check() error {
	var errs []error
	if o.Process == "" || o.Group == "" {
		errs = append(errs, errors.New("the bridge needs a process and a consumer group"))
	}
	if o.Batch < 1 || o.Batch > 1000 {
		errs = append(errs, fmt.Errorf("BRIDGE_BATCH is %d: want 1 to 1000", o.Batch))
	}
	if !strings.Contains(o.Topic, TenantMark) {
		errs = append(errs, fmt.Errorf("events go to topic %q: want %s in the name, or tenants would read each other's events", o.Topic, TenantMark))
	}
	for _, topic := range o.Listen {
		if topic == o.Topic || strings.ContainsAny(topic, "*>") && below(o.Topic, topic) {
			errs = append(errs, fmt.Errorf("the bridge would read its own events: it publishes to %q and reads %q", o.Topic, topic))
		}
	}
	for _, topic := range o.Trusted {
		if !slices.Contains(o.Listen, topic) {
			errs = append(errs, fmt.Errorf("the trusted topic %q is not one of those that are read: %s", topic, strings.Join(o.Listen, ",")))
		}
	}
	return errors.Join(errs...)
}

// below reports whether a pattern of NATS matches subjects that begin with the words of subject and have more.
func below(subject, pattern string) bool {
	words := strings.Split(pattern, ".")
	for i, word := range strings.Split(subject, ".") {
		last := i+1 == len(words)
		if last && words[i] == ">" {
			return true
		}
		if last || words[i] != "*" && words[i] != word {
			return false
		}
	}
	return true
}

// Check returns all problems with the names of topics.
func (o Options) Check() error {
	o.Process, o.Group = "any", "any"
	return o.check()
}

// Topics returns the topics of a tenant: the one that its events go to, and those that are read
// for it.
func (o *Options) Topics(tenant string) []string {
	return append([]string{topicOf(o.Topic, tenant)}, o.listen(tenant)...)
}

// listen returns the topics that are read for a tenant.
func (o *Options) listen(tenant string) (topics []string) {
	for _, pattern := range o.Listen {
		if topic := topicOf(pattern, tenant); topic != pattern || tenant == o.Default {
			topics = append(topics, topic)
		}
	}
	return topics
}

func topicOf(pattern, tenant string) string { return strings.ReplaceAll(pattern, TenantMark, tenant) }

func (o *Options) observe(a Activity) {
	if o.Observe != nil && a.Count > 0 {
		o.Observe(a)
	}
}

// Bridge holds what the two halves of a process' bridge share: the tenants that it serves.
type Bridge struct {
	Out *Out
	In  *In // nil without a source

	streams stream.Streams
	store   *store.Store
	opts    Options

	mu      sync.Mutex
	own     []string // tenants that this process bridges, sorted
	asked   map[string]bool
	renewed time.Time     // by Redis' clock
	changed chan struct{} // closed when own changes
	closed  bool
}

// New returns a Bridge.
func New(st *store.Store, opts Options) (*Bridge, error) {
	if err := opts.check(); err != nil {
		return nil, err
	}
	b := &Bridge{streams: stream.New(st), store: st, opts: opts, asked: map[string]bool{}, changed: make(chan struct{})}
	b.Out = newOut(b)
	if opts.Source != nil {
		b.In = newIn(b)
	}
	return b, nil
}

// renewals is how many times a lease is renewed during its term.
const renewals = 3

// Step makes the process the bridge of tenants that have none, and renews its leases when due.
// Call it about once a second.
func (b *Bridge) Step(ctx context.Context) (wake time.Time, err error) {
	now, err := b.store.Now(ctx)
	if err != nil {
		return now, err
	}
	tenants := b.opts.Tenants.Names()
	age := now.Sub(b.renewed)
	all := age < 0 || age >= b.opts.Lease/renewals
	ask := tenants
	if !all {
		ask = slices.DeleteFunc(slices.Clone(tenants), func(tenant string) bool { return b.asked[tenant] })
	}
	own, err := b.streams.Own(ctx, ask, b.opts.Process, b.opts.Lease)
	if store.Down(b.store, err) {
		return now, err
	}
	if all {
		b.renewed = now
		clear(b.asked)
	} else {
		own = append(own, b.tenants()...)
	}
	if err == nil { // otherwise some tenants are yet to be asked for
		for _, tenant := range ask {
			b.asked[tenant] = true
		}
	}
	slices.Sort(own)
	b.set(slices.Compact(own), false)
	return b.renewed.Add(b.opts.Lease / renewals), err
}

// set sets the tenants that this process bridges, for the last time if it closes.
func (b *Bridge) set(own []string, closes bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !slices.Equal(own, b.own) && !b.closed {
		b.own = own
		close(b.changed)
		b.changed = make(chan struct{})
	}
	b.closed = b.closed || closes
}

// tenants returns the tenants that this process bridges, sorted. The caller must not change the slice.
func (b *Bridge) tenants() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.own
}

// wait waits up to Options.Block for the tenants that this process bridges to change.
func (b *Bridge) wait(ctx context.Context) {
	if b.opts.Block == 0 {
		return
	}
	b.mu.Lock()
	changed := b.changed
	b.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, b.opts.Block)
	defer cancel()
	select {
	case <-changed:
	case <-ctx.Done():
	}
}

// Close stops the bridge from reading any more.
func (b *Bridge) Close() { b.set(nil, true) }

// Release lets other processes take over the tenants immediately. Call it after the last step.
func (b *Bridge) Release(ctx context.Context) error {
	_, err := b.streams.Own(ctx, b.opts.Tenants.Names(), b.opts.Process, 0)
	return err
}
