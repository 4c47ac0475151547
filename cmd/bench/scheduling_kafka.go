package bench

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

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
	const topicWait = 10 * time.Second
	admin := kadm.NewClient(client)
	creating, cancel := context.WithTimeout(ctx, topicWait)
	_, err = admin.CreateTopic(creating, rawPartitions, -1, nil, schedulerTopic)
	cancel()
	if err != nil {
		return fmt.Errorf("create the topic %s in Kafka: %w", schedulerTopic, err)
	}
	defer func() {
		tidy, cancel := context.WithTimeout(context.WithoutCancel(ctx), topicWait)
		defer cancel()
		_, failed := admin.DeleteTopic(tidy, schedulerTopic)
		err = errors.Join(err, failed)
	}()
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
