package kafka

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"flunq.io/flunq/engine/schedule"
)

// Feed reads requests from the schedule topic as a member of its group, and sends requests to it. It
// implements scheduler.Feed and scheduler.Producer. Only Send and Lag may be called concurrently. A Feed
// joins the group on the first call of Fetch.
//
// Partitions do not move between a Fetch that returns messages and the next one, so fetched messages
// are handled by one process, unless it takes so long that the broker considers it dead. Offsets are
// committed about once a second, when partitions move, and by Close.
type Feed struct {
	opts     Options
	producer *producer

	group  *kgo.Client     // nil before the first Fetch
	epochs map[int32]int32 // leader epochs, by partition, at the time of the fetch
	exists bool            // the topic
	lost   []error         // reports of lost requests for the next Fetch

	lags   sync.Mutex // guards unread and next
	unread map[int32]int64
	next   map[int32]int64 // the offset after the last fetched or lost one, by partition
}

// sessionTimeout is how long nobody reads the partitions of a process that was killed. A request for an
// event in a minute must still be in time, so the 45 s that are usual are too long. If a process is only slow,
// another one reads its requests again and finds their events stored. By default, brokers accept 6 s or more
// (group.min.session.timeout.ms).
const sessionTimeout = 10 * time.Second

// maxFetched is the maximum number of messages that Fetch returns.
const maxFetched = 500

// NewFeed returns a Feed. It connects on first use.
func NewFeed(o Options) (*Feed, error) {
	p, err := newProducer(o)
	if err != nil {
		return nil, err
	}
	return &Feed{opts: o, producer: p, epochs: map[int32]int32{}, unread: map[int32]int64{}, next: map[int32]int64{}}, nil
}

// Send implements scheduler.Producer.
func (f *Feed) Send(ctx context.Context, events []schedule.Event) []error {
	errs := make([]error, len(events))
	var records []*kgo.Record
	var at []int
	for i := range events {
		value, err := events[i].Request()
		if err != nil {
			errs[i] = fmt.Errorf("%w: %w", schedule.ErrRefused, err)
			continue
		}
		records, at = append(records, &kgo.Record{Topic: f.opts.ScheduleTopic, Key: []byte(events[i].ID), Value: value}), append(at, i)
	}
	for n, err := range f.producer.publish(ctx, records) {
		errs[at[n]] = f.missing(err)
	}
	return errs
}

// missing adds advice to the error for a missing schedule topic.
func (f *Feed) missing(err error) error {
	if errors.Is(err, kerr.UnknownTopicOrPartition) {
		return fmt.Errorf(`topic %s does not exist ("flunq schedule init" creates it): %w`, f.opts.ScheduleTopic, err)
	}
	return err
}

// Fetch implements scheduler.Feed. It waits for at most Options.Wait.
func (f *Feed) Fetch(ctx context.Context) ([]schedule.Message, error) {
	ctx, cancel := context.WithTimeout(ctx, f.opts.Wait)
	defer cancel()
	cl, err := f.join(ctx)
	if err != nil {
		return nil, err
	}
	cl.AllowRebalance()
	if err := errors.Join(f.lost...); err != nil {
		f.lost = nil
		return nil, err
	}
	fetches := cl.PollRecords(ctx, maxFetched)
	f.note(fetches, cl.CommittedOffsets()[f.opts.ScheduleTopic])
	messages := make([]schedule.Message, 0, fetches.NumRecords())
	fetches.EachRecord(func(r *kgo.Record) {
		f.epochs[r.Partition] = r.LeaderEpoch
		m := schedule.Message{Topic: r.Topic, Partition: r.Partition, Offset: r.Offset, Key: r.Key, Value: r.Value}
		for _, h := range r.Headers {
			m.Headers = append(m.Headers, schedule.Header{Name: h.Key, Value: string(h.Value)})
		}
		messages = append(messages, m)
	})
	if len(messages) > 0 {
		return messages, nil // an error of another partition will recur
	}
	cl.AllowRebalance()
	var failed error // the partitions' errors are alike
	for _, e := range fetches.Errors() {
		if !errors.Is(e.Err, context.DeadlineExceeded) && !errors.Is(e.Err, context.Canceled) {
			failed = fmt.Errorf("read topic %s as group %s: %w", f.opts.ScheduleTopic, f.opts.Group, explained(e.Err, "Read and Describe on the topic"))
		}
	}
	if errors.Is(failed, kerr.UnknownTopicID) { // it was deleted: join again, as a client that does not know it
		_ = f.leave(ctx) // there is nothing to commit to
	}
	return nil, failed
}

// note records how many messages the partitions have after those that were fetched, and which ones were
// removed before they could be fetched.
func (f *Feed) note(fetches kgo.Fetches, committed map[int32]kgo.EpochOffset) {
	f.lags.Lock()
	defer f.lags.Unlock()
	fetches.EachPartition(func(p kgo.FetchTopicPartition) {
		at, known := committed[p.Partition]
		if next := max(at.Offset, f.next[p.Partition]); known && at.Offset >= 0 && p.LogStartOffset > next {
			f.lost = append(f.lost, fmt.Errorf("requests are lost: %s/%d has removed the offsets %d to %d before group %s read them: its retention is too short, or they were deleted", p.Topic, p.Partition, next, p.LogStartOffset-1, f.opts.Group))
			f.next[p.Partition] = p.LogStartOffset
		}
		if n := len(p.Records); n > 0 {
			f.next[p.Partition] = p.Records[n-1].Offset + 1
			f.unread[p.Partition] = p.HighWatermark - f.next[p.Partition]
		}
	})
}

// Lag returns, for each partition that this process reads, the number of messages after the last
// fetched one.
func (f *Feed) Lag() map[int32]int64 {
	f.lags.Lock()
	defer f.lags.Unlock()
	return maps.Clone(f.unread)
}

// revoked commits marked offsets, as the client does by default, and forgets partitions that now
// belong to other members of the group.
func (f *Feed) revoked(ctx context.Context, cl *kgo.Client, lost map[string][]int32) {
	_ = f.commit(ctx, cl) // what is not committed is read again
	f.lags.Lock()
	defer f.lags.Unlock()
	for _, p := range lost[f.opts.ScheduleTopic] {
		delete(f.unread, p)
		delete(f.next, p)
	}
}

// commit commits marked offsets, for at most Options.Wait. The client by itself would wait for a
// coordinator that hangs, and delay Fetch and the end of the process.
func (f *Feed) commit(ctx context.Context, cl *kgo.Client) error {
	ctx, cancel := context.WithTimeout(ctx, f.opts.Wait)
	defer cancel()
	committed := make(chan error, 1)
	go func() { committed <- cl.CommitMarkedOffsets(ctx) }()
	select {
	case err := <-committed:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// join returns the member of the group once the topic exists: otherwise the member would silently
// wait for it.
func (f *Feed) join(ctx context.Context) (*kgo.Client, error) {
	if !f.exists {
		s, err := f.producer.session(&f.producer.shared)
		if err != nil {
			return nil, err
		}
		errs := []error{nil}
		if f.producer.topics.check(ctx, s, []*kgo.Record{{Topic: f.opts.ScheduleTopic}}, errs); errs[0] != nil {
			return nil, fmt.Errorf("read requests: %w", f.missing(errs[0]))
		}
		f.exists = true
	}
	if f.group != nil {
		return f.group, nil
	}
	cl, err := f.opts.client(
		kgo.ConsumerGroup(f.opts.Group),
		kgo.ConsumeTopics(f.opts.ScheduleTopic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.Balancers(kgo.CooperativeStickyBalancer()),
		kgo.BlockRebalanceOnPoll(),
		kgo.SessionTimeout(sessionTimeout),
		kgo.OnPartitionsRevoked(f.revoked),
		kgo.AutoCommitMarks(),
		kgo.AutoCommitInterval(time.Second),
		kgo.FetchMaxWait(f.opts.Wait),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), // requests of aborted transactions were never made
	)
	f.group = cl
	return cl, err
}

// Commit implements scheduler.Feed.
func (f *Feed) Commit(_ context.Context, messages []schedule.Message) error {
	offsets := map[int32]kgo.EpochOffset{}
	for _, m := range messages {
		if next := m.Offset + 1; next > offsets[m.Partition].Offset {
			offsets[m.Partition] = kgo.EpochOffset{Epoch: f.epochs[m.Partition], Offset: next}
		}
	}
	f.group.MarkCommitOffsets(map[string]map[int32]kgo.EpochOffset{f.opts.ScheduleTopic: offsets})
	return nil
}

// Reject implements scheduler.Feed: it publishes the message unchanged to the dead letter topic, with
// the reason and the place of the message in headers.
func (f *Feed) Reject(ctx context.Context, m schedule.Message, reason string) error {
	r := &kgo.Record{Topic: f.opts.ScheduleDLQ, Key: m.Key, Value: m.Value, Headers: headers(append(slices.Clip(m.Headers),
		schedule.Header{Name: "flunq-reason", Value: reason},
		schedule.Header{Name: "flunq-topic", Value: m.Topic},
		schedule.Header{Name: "flunq-partition", Value: strconv.Itoa(int(m.Partition))},
		schedule.Header{Name: "flunq-offset", Value: strconv.FormatInt(m.Offset, 10)},
	))}
	err := f.producer.publish(ctx, []*kgo.Record{r})[0]
	if errors.Is(err, schedule.ErrRefused) && len(r.Value) > 0 {
		// The headers make it too large: without the value, they say where to find it.
		r = &kgo.Record{Topic: r.Topic, Key: r.Key, Headers: r.Headers}
		err = f.producer.publish(ctx, []*kgo.Record{r})[0]
	}
	if err != nil {
		return fmt.Errorf("reject %s/%d at %d to %s: %w", m.Topic, m.Partition, m.Offset, f.opts.ScheduleDLQ, err)
	}
	return nil
}

// Close commits marked offsets and leaves the group. No other call may be in progress.
func (f *Feed) Close(ctx context.Context) error {
	f.producer.close()
	return f.leave(ctx)
}

// leave commits marked offsets and leaves the group.
func (f *Feed) leave(ctx context.Context) error {
	if f.group == nil {
		return nil
	}
	err := f.commit(ctx, f.group)
	f.group.CloseAllowingRebalance()
	f.group, f.exists = nil, false
	return err
}
