package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kgo"

	"flunq.io/flunq/engine/schedule"
)

// Sink publishes events as records: an event's key as key, its payload as value, and its
// schedule.Event.RecordHeaders as headers. It implements scheduler.Sink. It never creates topics.
type Sink struct{ producer *producer }

// NewSink returns a Sink. It connects on first use.
func NewSink(o Options) (*Sink, error) {
	p, err := newProducer(o)
	if err != nil {
		return nil, err
	}
	return &Sink{p}, nil
}

// Publish implements scheduler.Sink. It takes at most Options.Timeout.
func (s *Sink) Publish(ctx context.Context, events []schedule.Event) []error {
	records := make([]*kgo.Record, len(events))
	for i := range events {
		e := &events[i]
		records[i] = &kgo.Record{Topic: e.Topic, Key: []byte(e.RecordKey()), Value: e.Payload, Headers: headers(e.RecordHeaders())}
	}
	return s.producer.publish(ctx, records)
}

// Close ends the sink. Publications in progress may or may not have succeeded.
func (s *Sink) Close() { s.producer.close() }

func headers(from []schedule.Header) []kgo.RecordHeader {
	out := make([]kgo.RecordHeader, len(from))
	for i, h := range from {
		out[i] = kgo.RecordHeader{Key: h.Name, Value: []byte(h.Value)}
	}
	return out
}
