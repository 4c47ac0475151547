package kafka

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"flunq.io/flunq/engine/cloudevents"
	"flunq.io/flunq/engine/schedule"
)

// BridgeOptions configures how a bridge uses the brokers.
type BridgeOptions struct {
	Options

	Group  string // consumer group whose offsets record a Receiver's progress
	Create bool   // create missing topics, with Options.Partitions and Options.Replication
	// Created, if set, is called after that.
	Created func(topic string)
}

// create creates missing topics, and returns for each why it could not be created, or nil. It returns
// nothing if topics must not be created.
func (o *BridgeOptions) create(ctx context.Context, topics []string) map[string]error {
	if !o.Create || len(topics) == 0 {
		return nil
	}
	var replies kadm.CreateTopicResponses
	failed := o.admin(ctx, func(ctx context.Context, admin *kadm.Client) (err error) {
		replies, err = admin.CreateTopics(ctx, int32(o.Partitions), int16(o.Replication), nil, topics...)
		return err
	})
	problems := map[string]error{}
	for _, topic := range topics {
		err := failed
		if reply := replies[topic]; reply.Err != nil {
			err = refusal(reply)
		} else if failed == nil && o.Created != nil {
			o.Created(topic)
		}
		if problems[topic] = nil; err != nil && !errors.Is(err, kerr.TopicAlreadyExists) {
			problems[topic] = fmt.Errorf("topic %s does not exist and cannot be created with KAFKA_PARTITIONS=%d and KAFKA_REPLICATION=%d: %w", topic, o.Partitions, o.Replication, err)
		}
	}
	return problems
}

// Inspect returns the state of the brokers and of topics. The lag is the number of messages that a
// Receiver of the topics in listen would begin with; see Receiver.Fetch for after.
func (o BridgeOptions) Inspect(ctx context.Context, topics, listen []string, after func(partition string) (cloudevents.Position, bool)) (State, error) {
	state := State{Lag: -1}
	err := o.admin(ctx, func(ctx context.Context, admin *kadm.Client) (err error) {
		state, err = o.state(ctx, admin, topics)
		if err == nil && len(listen) > 0 {
			state.Lag = o.lag(ctx, admin, listen, after)
		}
		return err
	})
	return state, err
}

// lag returns how many messages of topics are left to receive; -1: unknown, since reading it may be
// forbidden.
func (o *BridgeOptions) lag(ctx context.Context, admin *kadm.Client, topics []string, after func(string) (cloudevents.Position, bool)) int64 {
	meta, err := metadata(ctx, admin, topics)
	if err != nil {
		return -1
	}
	committed, _ := admin.FetchOffsets(ctx, o.Group)
	lag := int64(0)
	for _, topic := range topics {
		if meta.Topics[topic].Err != nil {
			continue
		}
		starts, err := admin.ListStartOffsets(ctx, topic)
		ends, failed := admin.ListEndOffsets(ctx, topic)
		if errors.Join(err, failed, starts.Error(), ends.Error()) != nil {
			return -1
		}
		ends.Each(func(end kadm.ListedOffset) {
			from := begin(meta.Topics[topic], end.Partition, end.Offset, after, committed)
			start, _ := starts.Lookup(topic, end.Partition)
			lag += max(end.Offset-max(from.offset, start.Offset), 0)
		})
	}
	return lag
}

// beginning is where a Receiver begins a partition.
type beginning struct {
	log    string
	offset int64 // -1: at the partition's start
	epoch  int32 // of the record before; -1: unknown
	lost   error // the partition has lost records
}

// begin returns where a Receiver begins a partition that ends at an offset: after the last record that
// was taken, otherwise at the offset of the group. end is -1 if it is unknown.
func begin(topic kadm.TopicDetail, partition int32, end int64, after func(string) (cloudevents.Position, bool), committed kadm.OffsetResponses) beginning {
	log, name := logOf(topic), cloudevents.PartitionName(topic.Topic, partition)
	p, known := after(name)
	o, found := committed.Lookup(topic.Topic, partition)
	switch {
	case known && p.Of(log) && log != "" && found && o.Err == nil && o.At == p.Offset+1 && o.LeaderEpoch >= 0:
		return beginning{log: p.Log, offset: o.At, epoch: o.LeaderEpoch} // the client finds out how many records are lost
	case known && p.Of(log) && end >= 0 && p.Offset >= end:
		from := beginning{cloudevents.AfterLoss(log, time.Now()), end, -1, fmt.Errorf("%w: %s ends at offset %d, but %d was read before", cloudevents.ErrLost, name, end, p.Offset)}
		if log == "" { // the topic may have been created again
			from.offset = -1
		}
		return from
	case known && p.Of(log):
		return beginning{log: p.Log, offset: p.Offset + 1, epoch: -1}
	case found && o.Err == nil && o.At >= 0:
		return beginning{log: log, offset: o.At, epoch: -1}
	}
	return beginning{log: log, offset: -1, epoch: -1}
}

// Publisher publishes the messages of a bridge. It implements bridge.Sink.
type Publisher struct {
	opts     BridgeOptions
	producer *producer
}

// NewPublisher returns a Publisher. It connects on first use.
func NewPublisher(o BridgeOptions) (*Publisher, error) {
	const never = 100 * 365 * 24 * time.Hour
	o.TopicWait = never // a missing topic is not the fault of its messages
	p, err := newProducer(o.Options)
	if err != nil {
		return nil, err
	}
	return &Publisher{o, p}, nil
}

// Publish implements bridge.Sink. It takes at most Options.Timeout, unless it creates topics.
func (p *Publisher) Publish(ctx context.Context, messages []cloudevents.Message) []error {
	records := make([]*kgo.Record, len(messages))
	for i := range messages {
		m := &messages[i]
		records[i] = &kgo.Record{Topic: m.Topic, Key: m.Key, Value: m.Value}
		for _, h := range m.Headers {
			records[i].Headers = append(records[i].Headers, kgo.RecordHeader{Key: h.Name, Value: []byte(h.Value)})
		}
	}
	errs := p.producer.publish(ctx, records)
	missing := map[string][]int{} // the records of each topic that does not exist
	for i, err := range errs {
		reply, replied := errors.AsType[*kerr.Error](err)
		switch {
		case err == nil:
		case errors.Is(err, kerr.UnknownTopicOrPartition):
			topic := records[i].Topic
			missing[topic] = append(missing[topic], i)
			errs[i] = fmt.Errorf("topic %s does not exist: create it, or set KAFKA_CREATE_TOPICS=true: %w", topic, err)
		case replied && errors.Is(err, schedule.ErrRefused) && ofRecord(reply):
			errs[i] = fmt.Errorf("%w: %w", cloudevents.ErrRefused, reply)
		case replied:
			errs[i] = fmt.Errorf("topic %s: %w", records[i].Topic, explained(reply, "Write and Describe on it"))
		}
	}
	for topic, problem := range p.opts.create(ctx, slices.Sorted(maps.Keys(missing))) {
		var again []*kgo.Record
		for _, i := range missing[topic] {
			again, errs[i] = append(again, records[i]), problem
		}
		if problem != nil {
			continue
		}
		p.producer.topics.retry(topic)
		for n, err := range p.producer.publish(ctx, again) {
			if errs[missing[topic][n]] = err; err != nil {
				errs[missing[topic][n]] = fmt.Errorf("topic %s did not exist, and has been created: %w", topic, err)
			}
		}
	}
	return errs
}

// ofRecord reports whether a broker's reply is about the record itself.
func ofRecord(reply *kerr.Error) bool {
	switch reply {
	case kerr.MessageTooLarge, kerr.RecordListTooLarge, kerr.InvalidRecord, kerr.InvalidTimestamp, kerr.UnsupportedForMessageFormat:
		return true
	}
	return false
}

// Close ends the publisher. Publications in progress may or may not have succeeded.
func (p *Publisher) Close() { p.producer.close() }

// Receiver reads the messages of a bridge. It implements bridge.Source. It is not a member of its
// group: the positions in Redis determine where it begins. It commits offsets so that Kafka's tools
// show its progress, and begins there if Redis has lost the positions.
type Receiver struct {
	opts      BridgeOptions
	client    *kgo.Client
	topics    map[string]*receivedTopic // that are read
	failed    []error                   // of partitions, while others had messages
	refreshed time.Time                 // when the partitions were last read
	taken     map[string]map[int32]kadm.Offset
	committed time.Time // when offsets were last committed
}

// receivedTopic is a topic that is being read.
type receivedTopic struct {
	log        string
	partitions map[int32]*receivedPartition
}

type receivedPartition struct {
	log   string
	epoch int32 // of the last fetched record; -1: unknown
	next  int64 // the offset that follows the last fetched record; -1: unknown
	end   int64 // of the partition, at the last refresh or fetched record; -1: unknown
}

const (
	refreshInterval = 5 * time.Second // how often to look for new partitions and topics
	commitInterval  = time.Second
)

// NewReceiver returns a Receiver. It connects on first use.
func NewReceiver(o BridgeOptions) (*Receiver, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	return &Receiver{opts: o, topics: map[string]*receivedTopic{}, taken: map[string]map[int32]kadm.Offset{}}, nil
}

// Fetch implements bridge.Source. It waits for at most Options.Wait. Topics that do not exist have no
// messages.
func (r *Receiver) Fetch(ctx context.Context, topics []string, after func(string) (cloudevents.Position, bool)) ([]cloudevents.Message, error) {
	if err := r.prepare(ctx, topics, after); err != nil {
		return nil, err
	}
	r.commitOffsets(ctx)
	ctx, cancel := context.WithTimeout(ctx, r.opts.Wait)
	defer cancel()
	fetches := r.client.PollRecords(ctx, maxFetched)
	var out []cloudevents.Message
	var errs []error
	fetches.EachPartition(func(p kgo.FetchTopicPartition) {
		partition := r.partition(p.Topic, p.Partition)
		if partition == nil {
			return
		}
		if p.Err != nil && !errors.Is(p.Err, context.DeadlineExceeded) && !errors.Is(p.Err, context.Canceled) {
			errs = append(errs, fmt.Errorf("read %s/%d: %w", p.Topic, p.Partition, explained(p.Err, "Read and Describe on it")))
		}
		if partition.next >= 0 && p.LogStartOffset > partition.next {
			errs = append(errs, fmt.Errorf("%w: %s/%d has removed the offsets %d to %d before they were read: their retention is too short, or they were deleted", cloudevents.ErrLost, p.Topic, p.Partition, partition.next, p.LogStartOffset-1))
			partition.next = p.LogStartOffset
		}
		for _, record := range p.Records {
			if record.Offset < partition.next { // the partition has lost records, and others have these offsets
				partition.log = cloudevents.AfterLoss(r.topics[p.Topic].log, time.Now())
				errs = append(errs, fmt.Errorf("%w: %s/%d continues at offset %d, but %d was read before", cloudevents.ErrLost, p.Topic, p.Partition, record.Offset, partition.next-1))
			}
			partition.epoch, partition.next, partition.end = record.LeaderEpoch, record.Offset+1, p.HighWatermark
			if record.Attrs.IsControl() { // the end of a transaction
				continue
			}
			m := cloudevents.Message{
				Topic: record.Topic, Partition: record.Partition, Offset: record.Offset, Log: partition.log, Key: record.Key, Value: record.Value,
			}
			for _, h := range record.Headers {
				m.Headers = append(m.Headers, cloudevents.Header{Name: h.Key, Value: string(h.Value)})
			}
			out = append(out, m)
		}
	})
	if len(out) > 0 {
		// A loss is noticed only once.
		r.failed = append(slices.DeleteFunc(r.failed, func(err error) bool { return !errors.Is(err, cloudevents.ErrLost) }), errs...)
		return out, nil
	}
	if len(errs) > 0 {
		r.refreshed = time.Time{}
	}
	return nil, errors.Join(errs...)
}

// prepare makes the client read exactly the partitions of the topics. After an error that concerns only
// some of them, the next Fetch reads the others.
func (r *Receiver) prepare(ctx context.Context, topics []string, after func(string) (cloudevents.Position, bool)) error {
	for topic := range r.topics {
		if !slices.Contains(topics, topic) {
			r.stop() // drop buffered messages of the topic
			break
		}
	}
	if time.Since(r.refreshed) < refreshInterval {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, r.opts.Timeout)
	defer cancel()
	if r.client == nil {
		cl, err := r.opts.client(
			kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.FetchMaxWait(r.opts.Wait),
			kgo.KeepControlRecords(), // since they count as lag until they are read
		)
		if err != nil {
			return err
		}
		r.client = cl
	}
	meta, err := metadata(ctx, kadm.NewClient(r.client), topics)
	if err != nil {
		r.setEnds(nil)
		return fmt.Errorf("ask Kafka at %s for topics: %w", strings.Join(r.opts.Brokers, ","), err)
	}
	var missing, readable []string
	errs := r.failed
	for _, topic := range topics {
		detail := meta.Topics[topic]
		known := r.topics[topic]
		if known != nil && (detail.Err != nil && errors.Is(detail.Err, kerr.UnknownTopicOrPartition) || detail.Err == nil && logOf(detail) != known.log) {
			r.stop() // it was deleted: a new client begins, which does not know it
			return r.prepare(ctx, topics, after)
		}
		switch {
		case detail.Err == nil:
			readable = append(readable, topic)
		case errors.Is(detail.Err, kerr.UnknownTopicOrPartition):
			missing = append(missing, topic)
		default:
			errs = append(errs, fmt.Errorf("read topic %s: %w", topic, explained(detail.Err, "Read and Describe on it")))
		}
	}
	problems := r.opts.create(ctx, missing)
	lost, err := r.add(ctx, meta, readable, after)
	if err != nil {
		return err
	}
	errs, r.failed = append(errs, lost...), nil
	r.refreshed = time.Now()
	for _, topic := range missing {
		problem, tried := problems[topic]
		if tried && problem == nil {
			r.refreshed = time.Time{}
		}
		errs = append(errs, problem)
	}
	return errors.Join(errs...)
}

// setEnds sets the ends of the partitions that are being read.
func (r *Receiver) setEnds(ends kadm.ListedOffsets) {
	for topic := range r.topics {
		for n, partition := range r.topics[topic].partitions {
			partition.end = offsetIn(ends, topic, n)
		}
	}
}

// offsetIn returns the listed offset of a partition; -1 if it is unknown.
func offsetIn(listed kadm.ListedOffsets, topic string, partition int32) int64 {
	if o, known := listed.Lookup(topic, partition); known && o.Err == nil {
		return o.Offset
	}
	return -1
}

// logOf identifies a topic.
func logOf(detail kadm.TopicDetail) string {
	if detail.ID == (kadm.TopicID{}) {
		return ""
	}
	return detail.ID.String()
}

// add adds the partitions that are not read yet, and returns an error for each that has lost records. It
// sets the ends of all partitions of the topics.
func (r *Receiver) add(ctx context.Context, meta kadm.Metadata, topics []string, after func(string) (cloudevents.Position, bool)) (lost []error, err error) {
	admin := kadm.NewClient(r.client)
	list := func(offsets func(context.Context, ...string) (kadm.ListedOffsets, error), topics []string) kadm.ListedOffsets {
		if len(topics) == 0 {
			return nil
		}
		ctx, cancel := context.WithTimeout(ctx, r.opts.Wait) // a broker that hangs must not delay what the others have
		defer cancel()
		listed, _ := offsets(ctx, topics...)
		return listed
	}
	ends := list(admin.ListEndOffsets, topics)
	r.setEnds(ends)
	unread := r.unread(meta, topics)
	if len(unread) == 0 {
		return nil, nil
	}
	committed, err := admin.FetchOffsets(ctx, r.opts.Group)
	if err != nil && !errors.Is(err, kerr.GroupIDNotFound) {
		return nil, fmt.Errorf("read the offsets of group %s: %w", r.opts.Group, explained(err, "Describe on it"))
	}
	starts := list(admin.ListStartOffsets, slices.Collect(maps.Keys(unread)))
	for topic, offsets := range unread {
		if r.topics[topic] == nil {
			r.topics[topic] = &receivedTopic{log: logOf(meta.Topics[topic]), partitions: map[int32]*receivedPartition{}}
		}
		for partition := range offsets {
			next, end := offsetIn(starts, topic, partition), offsetIn(ends, topic, partition)
			from := begin(meta.Topics[topic], partition, end, after, committed)
			if lost = append(lost, from.lost); from.offset >= 0 {
				next, offsets[partition] = from.offset, kgo.NewOffset().At(from.offset).WithEpoch(from.epoch)
			}
			r.topics[topic].partitions[partition] = &receivedPartition{log: from.log, epoch: from.epoch, next: next, end: end}
		}
	}
	r.client.AddConsumePartitions(unread)
	return lost, nil
}

// unread returns the partitions that are not read yet, with their start offsets.
func (r *Receiver) unread(meta kadm.Metadata, topics []string) map[string]map[int32]kgo.Offset {
	unread := map[string]map[int32]kgo.Offset{}
	for _, topic := range topics {
		for partition := range meta.Topics[topic].Partitions {
			if r.partition(topic, partition) != nil {
				continue
			}
			if unread[topic] == nil {
				unread[topic] = map[int32]kgo.Offset{}
			}
			unread[topic][partition] = kgo.NewOffset().AtStart()
		}
	}
	return unread
}

// partition returns a partition that is being read, or nil.
func (r *Receiver) partition(topic string, partition int32) *receivedPartition {
	known := r.topics[topic]
	if known == nil {
		return nil
	}
	return known.partitions[partition]
}

// stop forgets all reading state. The next Fetch begins again.
func (r *Receiver) stop() {
	if r.client != nil {
		r.client.Close()
	}
	r.client, r.topics, r.refreshed = nil, map[string]*receivedTopic{}, time.Time{}
}

// Commit implements bridge.Source.
func (r *Receiver) Commit(_ context.Context, messages []cloudevents.Message) {
	for i := range messages {
		m := &messages[i]
		if r.taken[m.Topic] == nil {
			r.taken[m.Topic] = map[int32]kadm.Offset{}
		}
		offset := kadm.Offset{Topic: m.Topic, Partition: m.Partition, At: m.Offset + 1, LeaderEpoch: -1}
		if partition := r.partition(m.Topic, m.Partition); partition != nil {
			offset.LeaderEpoch = partition.epoch
		}
		r.taken[m.Topic][m.Partition] = offset
	}
}

// commitOffsets commits offsets from time to time. Failures do not matter: the offsets are only informative.
func (r *Receiver) commitOffsets(ctx context.Context) {
	if len(r.taken) == 0 || time.Since(r.committed) < commitInterval || r.client == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, r.opts.Wait) // a coordinator that hangs must not delay the messages
	defer cancel()
	offsets := kadm.Offsets{}
	for _, partitions := range r.taken {
		for _, o := range partitions {
			offsets.Add(o)
		}
	}
	if _, err := kadm.NewClient(r.client).CommitOffsets(ctx, r.opts.Group, offsets); err == nil {
		clear(r.taken)
	}
	r.committed = time.Now()
}

// Lags implements bridge.Source. Do not call it concurrently with Fetch.
func (r *Receiver) Lags() map[string]int64 {
	out := map[string]int64{}
	for name, topic := range r.topics {
		for n, partition := range topic.partitions {
			if partition.next >= 0 && partition.end >= 0 {
				out[cloudevents.PartitionName(name, n)] = max(partition.end-partition.next, 0)
			}
		}
	}
	return out
}

// Close commits offsets and ends the receiver.
func (r *Receiver) Close(ctx context.Context) {
	r.committed = time.Time{}
	r.commitOffsets(ctx)
	r.stop()
}
