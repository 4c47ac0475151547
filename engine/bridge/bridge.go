// Package bridge is the service that connects tenants with Kafka or NATS. Out publishes the
// entries of their streams, those of an execution in order and each at least once. In appends the
// messages of topics to the streams, each exactly once.
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
	// Publish publishes messages with different keys and returns one error for each. An error
	// that does not wrap cloudevents.ErrRefused may or may not mean that the message was
	// published, and that it can be later.
	Publish(ctx context.Context, messages []cloudevents.Message) []error
}

// Source reads messages.
type Source interface {
	// Fetch returns the next messages of topics, those of a partition in order. It begins a
	// topic that it does not know, or that was not among the topics of the last call, after the
	// position of each partition. It waits a moment for messages.
	Fetch(ctx context.Context, topics []string, after func(partition string) (cloudevents.Position, bool)) ([]cloudevents.Message, error)
	// Taken marks messages as taken, for the broker's own tools.
	Taken(ctx context.Context, messages []cloudevents.Message)
	// Lags returns how many messages of each partition are behind the last one that Fetch
	// returned.
	Lags() map[string]int64
}

// Options of a Bridge.
type Options struct {
	Process string // unique on one Redis
	Tenants *delivery.TenantSet
	Lease   time.Duration // after which another process may become the bridge of a tenant

	Group string        // consumer group on the streams of tenants
	Batch int           // entries of a tenant that are read at once; 1 to 1000
	Block time.Duration // how long a read waits for entries; 0 in simulation
	Sink  Sink
	Topic string // that entries are published to; {tenant} stands for the tenant
	Mode  cloudevents.Mode
	// Which events are published: those that workflows and 'flunq emit' emit, the lifecycle
	// events of the specification, and all others of the engine.
	Emitted, Lifecycle, Own bool

	Source  Source   // nil: nothing is read
	Listen  []string // topics that are read; {tenant} stands for the tenant
	Default string   // the tenant of the others
	Trusted []string // topics whose messages may be of the engine's own types
	// Plain is the type of messages without attributes; "": they cannot be read.
	Plain event.Type
	// Workflows are the workflows, as NAME or NAME:VERSION, that events of a type start.
	Workflows map[event.Type]string
	// Start starts an execution. The error wraps cloudevents.ErrRefused if it never can be; it
	// is nil if the execution exists.
	Start func(ctx context.Context, s Start) error

	// Observe, if set, receives what the bridge does.
	Observe func(Activity)
	// Lag, if set, receives the lags of the Source after each Fetch.
	Lag func(map[string]int64)
}

// Start is an execution that an event starts.
type Start struct {
	Tenant, Workflow, ID string
	Input                []byte
}

// Activity is something that a bridge has done.
type Activity struct {
	What   What
	Tenant string
	Topic  string
	Count  int
	Err    error // of all but Published and Received
}

// What a bridge does.
type What string

// Everything that an Activity may be.
const (
	Published   What = "published"   // entries became messages
	Refused     What = "refused"     // the broker will never take an entry: it is a dead letter
	Unpublished What = "unpublished" // entries will be published later
	Received    What = "received"    // messages became entries
	Repeated    What = "repeated"    // messages had been taken before
	Rejected    What = "rejected"    // messages became dead letters
	Unread      What = "unread"      // the broker could not be read
)

// TenantMark stands for the tenant in the names of topics.
const TenantMark = "{tenant}"

func (o *Options) check() error {
	var errs []error
	if o.Process == "" || o.Group == "" {
		errs = append(errs, errors.New("the bridge has no process or no group"))
	}
	if o.Batch < 1 || o.Batch > 1000 {
		errs = append(errs, fmt.Errorf("BRIDGE_BATCH is %d: want 1 to 1000", o.Batch))
	}
	if !strings.Contains(o.Topic, TenantMark) {
		errs = append(errs, fmt.Errorf("events go to topic %q: want a name with %s, or tenants would read each other's events", o.Topic, TenantMark))
	}
	for _, topic := range o.Listen {
		if strings.TrimSuffix(topic, ".>") == o.Topic {
			errs = append(errs, fmt.Errorf("events go to topic %q and are read from there: want two names", topic))
		}
	}
	for _, topic := range o.Trusted {
		if !slices.Contains(o.Listen, topic) {
			errs = append(errs, fmt.Errorf("the trusted topic %q is not among those that are read: %s", topic, strings.Join(o.Listen, ",")))
		}
	}
	return errors.Join(errs...)
}

// Check returns everything that is wrong with the names of topics.
func (o Options) Check() error {
	o.Process, o.Group = "any", "any"
	return o.check()
}

// Topics returns the topics of a tenant: where its events go, and which are read for it.
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

// Bridge holds what the two halves of a process' bridge share: which tenants are its own.
type Bridge struct {
	Out *Out
	In  *In // nil without a source

	streams stream.Streams
	store   *store.Store
	opts    Options

	mu      sync.Mutex
	own     []string // tenants of which this process is the bridge, sorted
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

// renewals is how often a lease is renewed while it lasts.
const renewals = 3

// Step makes the process the bridge of tenants that have none, and renews its leases when that is
// due. Call it about once a second.
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
	if err != nil {
		return now, err
	}
	if all {
		b.renewed = now
		clear(b.asked)
	} else {
		own = append(own, b.tenants()...)
	}
	for _, tenant := range ask {
		b.asked[tenant] = true
	}
	slices.Sort(own)
	b.set(slices.Compact(own))
	return b.renewed.Add(b.opts.Lease / renewals), nil
}

func (b *Bridge) set(own []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !slices.Equal(own, b.own) && !b.closed {
		b.own = own
		close(b.changed)
		b.changed = make(chan struct{})
	}
}

// tenants returns those of which this process is the bridge. The caller must not change the slice.
func (b *Bridge) tenants() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.own
}

// wait waits until this process is the bridge of other tenants, for a moment at most.
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

// Close stops the bridge from reading more.
func (b *Bridge) Close() {
	b.set(nil)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
}

// Release lets other processes be the bridge of the tenants at once. Call it after the last step.
func (b *Bridge) Release(ctx context.Context) error {
	_, err := b.streams.Own(ctx, b.opts.Tenants.Names(), b.opts.Process, 0)
	return err
}
