package bench

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"flunq.io/flunq/engine/kafka"
	"flunq.io/flunq/engine/schedule"
)

// fireToKafka measures how fast a backlog is fired to Kafka. The limit is bare loops with a
// client like that of the sink.
func (s scheduling) fireToKafka(ctx context.Context) (err error) {
	if len(s.opts.Kafka) == 0 {
		return nil
	}
	opts := kafka.Defaults()
	opts.Brokers = s.opts.Kafka
	client, err := kgo.NewClient(kgo.SeedBrokers(opts.Brokers...), kgo.ProducerLinger(opts.Linger),
		kgo.ProducerBatchCompression(kgo.SnappyCompression(), kgo.NoCompression()))
	if err != nil {
		return fmt.Errorf("connect to Kafka: %w", err)
	}
	defer client.Close()
	if err := createTopic(ctx, client); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, deleteTopic(context.WithoutCancel(ctx), client)) }()
	loops := func(l limits, ctx context.Context, n int) (time.Duration, error) {
		return l.rawFirings(ctx, n, func(ctx context.Context, events []rawEvent) error { return produce(ctx, client, events) })
	}
	bare, err := s.limits().measure(ctx, "claim, produce, finish", s.opts.size(20_000, 300), loops)
	if err != nil {
		return err
	}
	sink, err := kafka.NewSink(opts)
	if err != nil {
		return fmt.Errorf("connect to Kafka: %w", err)
	}
	defer sink.Close()
	var p *schedulerProcess
	got, err := s.drainBacklog(ctx, drain{
		measuring: "events fired to Kafka", of: "event", fill: s.overdue,
		start: func(ctx context.Context) (*services, error) {
			if p, err = s.process(ctx, sink); err != nil {
				return nil, err
			}
			return &p.services, nil
		},
		count: func(context.Context, int) (int, error) { return int(p.fired.Load()), nil },
	}, s.opts.size(100_000, 500))
	if got.n == 0 {
		return err
	}
	s.add(Result{Name: "overdue, fired to Kafka", Unit: "events/s", Rate: got.rate(), Count: got.n, Cost: got.cost}.
		beside(bare, fmt.Sprintf("%d loops of a claim script, produce and a finish script", rawPartitions)))
	return err
}

// topicWait is the time-out of creating and deleting a topic.
const topicWait = 10 * time.Second

// createTopic creates the topic of the bench, which must not exist.
func createTopic(ctx context.Context, client *kgo.Client) error {
	ctx, cancel := context.WithTimeout(ctx, topicWait)
	defer cancel()
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = schedulerTopic, rawPartitions, -1
	request := kmsg.NewPtrCreateTopicsRequest()
	request.Topics, request.TimeoutMillis = append(request.Topics, topic), int32(topicWait.Milliseconds())
	reply, err := request.RequestWith(ctx, client)
	if err == nil && len(reply.Topics) > 0 {
		err = kerr.ErrorForCode(reply.Topics[0].ErrorCode)
	}
	if err != nil {
		return fmt.Errorf("create the topic %s in Kafka: %w", schedulerTopic, err)
	}
	return nil
}

func deleteTopic(ctx context.Context, client *kgo.Client) error {
	ctx, cancel := context.WithTimeout(ctx, topicWait)
	defer cancel()
	topic := kmsg.NewDeleteTopicsRequestTopic()
	topic.Topic = new(schedulerTopic)
	request := kmsg.NewPtrDeleteTopicsRequest()
	request.Topics, request.TopicNames = append(request.Topics, topic), []string{schedulerTopic}
	if _, err := request.RequestWith(ctx, client); err != nil {
		return fmt.Errorf("delete the topic %s in Kafka: %w", schedulerTopic, err)
	}
	return nil
}

// produce produces events as the scheduler does.
func produce(ctx context.Context, client *kgo.Client, events []rawEvent) error {
	records := make([]*kgo.Record, len(events))
	for i, e := range events {
		ms, _ := strconv.ParseInt(e.due, 10, 64) // written by rawEvents
		headers := (&schedule.Event{ID: e.id, Content: schedule.Content{Due: time.UnixMilli(ms)}}).RecordHeaders()
		records[i] = &kgo.Record{Topic: schedulerTopic, Key: []byte(e.id), Value: []byte(e.payload)}
		for _, h := range headers {
			records[i].Headers = append(records[i].Headers, kgo.RecordHeader{Key: h.Name, Value: []byte(h.Value)})
		}
	}
	return client.ProduceSync(ctx, records...).FirstErr()
}
