// Package broker is an in-memory message broker for the simulator, with topics and one consumer
// group. It is as deterministic as its hook.
package broker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"flunq.io/flunq/engine/schedule"
)

// Broker keeps topics and the offsets of one group that reads one of them.
type Broker struct {
	opts Options

	mu        sync.Mutex
	topics    map[string][][]schedule.Message // by topic and partition
	committed []int64                         // of the schedule topic, by partition
	owners    []*Feed                         // the member that reads each partition; nil: none
	targets   []*Feed                         // the member that will read it
	members   []*Feed                         // in the order in which they joined
}

// Options of a Broker.
type Options struct {
	Topics        map[string]int // the number of partitions of each; other topics are refused
	ScheduleTopic string
	ScheduleDLQ   string
	Fetch         int // maximum number of messages that one Fetch returns; 0: all

	// Hook, if set, is called for each request: Produce, Fetch, Commit or Leave. A call with several
	// events sends one request for each. The hook may call carryOut, before or after waiting, or
	// twice like a producer that is not idempotent. It returns what the client sees: nil if the
	// reply arrives, or an error instead of the reply. So it can crash the client before or after
	// the request, lose the request or its reply, delay, rebalance, and be unavailable.
	Hook func(ctx context.Context, request, topic string, carryOut func()) error
}

// New returns a Broker whose topics are empty.
func New(opts Options) *Broker {
	b := &Broker{opts: opts, topics: map[string][][]schedule.Message{}}
	for name, partitions := range opts.Topics {
		b.topics[name] = make([][]schedule.Message, partitions)
	}
	n := opts.Topics[opts.ScheduleTopic]
	b.committed, b.owners, b.targets = make([]int64, n), make([]*Feed, n), make([]*Feed, n)
	return b
}

// request carries out a request under the lock, through the hook.
func (b *Broker) request(ctx context.Context, name, topic string, do func()) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	carryOut := func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		do()
	}
	if b.opts.Hook == nil {
		carryOut()
		return nil
	}
	if err := b.opts.Hook(ctx, name, topic, carryOut); err != nil {
		return fmt.Errorf("%s %s: %w", strings.ToLower(name), topic, err)
	}
	return nil
}

// Records returns all records of a topic, partition by partition.
func (b *Broker) Records(topic string) []schedule.Message {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Concat(b.topics[topic]...)
}

// Committed returns the committed offset of each partition of the schedule topic.
func (b *Broker) Committed() []int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.committed)
}

// Put appends a record, as another program would, and returns it with its partition and offset.
func (b *Broker) Put(m schedule.Message) schedule.Message {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.put(m)
}

func (b *Broker) put(m schedule.Message) schedule.Message {
	topic := b.topics[m.Topic]
	n := schedule.Partition(string(m.Key), len(topic))
	m.Partition, m.Offset = int32(n), int64(len(topic[n]))
	m.Key, m.Value, m.Headers = slices.Clone(m.Key), slices.Clone(m.Value), slices.Clone(m.Headers)
	topic[n] = append(topic[n], m)
	return m
}

// produce appends a record.
func (b *Broker) produce(ctx context.Context, m schedule.Message) error {
	var refused error
	err := b.request(ctx, "Produce", m.Topic, func() {
		if b.topics[m.Topic] == nil {
			refused = fmt.Errorf("%w: topic %s does not exist", schedule.ErrRefused, m.Topic)
			return
		}
		b.put(m)
	})
	if err != nil {
		return err
	}
	return refused
}

// Publish implements scheduler.Sink.
func (b *Broker) Publish(ctx context.Context, events []schedule.Event) []error {
	errs := make([]error, len(events))
	for i := range events {
		e := &events[i]
		m := schedule.Message{Topic: e.Topic, Key: []byte(e.RecordKey()), Value: e.Payload, Headers: e.RecordHeaders()}
		errs[i] = b.produce(ctx, m)
	}
	return errs
}

// Expel removes a process from the group, like a broker after the session timeout. Other
// members read what the process has not committed again.
func (b *Broker) Expel(process string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, f := range slices.Clone(b.members) {
		if f.process == process {
			b.leave(f)
		}
	}
}

// Rebalance moves partitions among the members of the group: partition p goes to member p + shift.
// A member gives up a partition when it next fetches.
func (b *Broker) Rebalance(shift int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.assign(shift)
}

func (b *Broker) assign(shift int) {
	for p := range b.targets {
		b.targets[p] = nil
		if n := len(b.members); n > 0 {
			b.targets[p] = b.members[(p+shift)%n]
		}
	}
}

func (b *Broker) leave(f *Feed) {
	b.members = slices.DeleteFunc(b.members, func(m *Feed) bool { return m == f })
	for p, owner := range b.owners {
		if owner == f {
			b.owners[p] = nil
		}
	}
	clear(f.positions)
	clear(f.marks)
	b.assign(0)
}

// Feed is a member of the group and a producer of requests. It implements scheduler.Feed and
// scheduler.Producer.
type Feed struct {
	broker    *Broker
	process   string
	positions map[int]int64 // the next offset to read, by partition
	marks     map[int]int64 // the offset to commit, by partition
	closed    bool
}

// errClosed is the error of Fetch after Close.
var errClosed = errors.New("the feed is closed")

// Feed returns the feed of a process, which joins the group with its first fetch.
func (b *Broker) Feed(process string) *Feed {
	return &Feed{broker: b, process: process, positions: map[int]int64{}, marks: map[int]int64{}}
}

// Send implements scheduler.Producer.
func (f *Feed) Send(ctx context.Context, events []schedule.Event) []error {
	errs := make([]error, len(events))
	for i := range events {
		value, err := events[i].Request()
		if err == nil {
			m := schedule.Message{Topic: f.broker.opts.ScheduleTopic, Key: []byte(events[i].ID), Value: value}
			err = f.broker.produce(ctx, m)
		}
		errs[i] = err
	}
	return errs
}

// Fetch implements scheduler.Feed. It does not wait.
func (f *Feed) Fetch(ctx context.Context) ([]schedule.Message, error) {
	b := f.broker
	if f.closed {
		return nil, errClosed
	}
	var fetched []schedule.Message
	err := b.request(ctx, "Fetch", b.opts.ScheduleTopic, func() {
		if !slices.Contains(b.members, f) {
			b.members = append(b.members, f)
			b.assign(0)
		}
		f.commit()
		fetched = nil
		for p, partition := range b.topics[b.opts.ScheduleTopic] {
			switch {
			case b.owners[p] == f && b.targets[p] != f:
				b.owners[p] = nil
				delete(f.positions, p)
			case b.owners[p] == nil && b.targets[p] == f:
				b.owners[p], f.positions[p] = f, b.committed[p]
			}
			if b.owners[p] != f {
				continue
			}
			some := partition[f.positions[p]:]
			if limit := b.opts.Fetch; limit > 0 && len(fetched)+len(some) > limit {
				some = some[:limit-len(fetched)]
			}
			fetched = append(fetched, some...)
		}
	})
	if err != nil { // the client continues from the same position
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, m := range fetched {
		f.positions[int(m.Partition)] = m.Offset + 1
	}
	return fetched, nil
}

// Commit implements scheduler.Feed. The broker learns of it with the next Fetch, or by Close.
func (f *Feed) Commit(ctx context.Context, messages []schedule.Message) error {
	return f.broker.request(ctx, "Commit", f.broker.opts.ScheduleTopic, func() {
		for _, m := range messages {
			if p := int(m.Partition); f.broker.owners[p] == f {
				f.marks[p] = max(f.marks[p], m.Offset+1)
			}
		}
	})
}

func (f *Feed) commit() {
	for p, next := range f.marks {
		f.broker.committed[p] = max(f.broker.committed[p], next)
	}
	clear(f.marks)
}

// Reject implements scheduler.Feed.
func (f *Feed) Reject(ctx context.Context, m schedule.Message, reason string) error {
	m.Headers = append(slices.Clone(m.Headers), schedule.Header{Name: "flunq-reason", Value: reason})
	m.Topic = f.broker.opts.ScheduleDLQ
	return f.broker.produce(ctx, m)
}

// Close commits and leaves the group.
func (f *Feed) Close(ctx context.Context) error {
	f.closed = true
	return f.broker.request(ctx, "Leave", f.broker.opts.ScheduleTopic, func() {
		f.commit()
		f.broker.leave(f)
	})
}
