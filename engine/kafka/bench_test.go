package kafka_test

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"flunq.io/flunq/engine/kafka"
)

// BenchmarkPublish compares the sink, which 20 workers call with batches of 50, with a client
// that is fed the same records without waiting.
func BenchmarkPublish(b *testing.B) {
	const batch, callers = 50, 20
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(12, "orders"), kfake.BlackholeProduce())
	if err != nil {
		b.Fatal(err)
	}
	defer cluster.Close()
	o := kafka.Defaults()
	o.Brokers = cluster.ListenAddrs()
	all := events(batch, "orders")
	rate := func(b *testing.B, publish func()) {
		b.Helper()
		var left atomic.Int64
		left.Store(int64(b.N))
		var running sync.WaitGroup
		b.ResetTimer()
		for range callers {
			running.Go(func() {
				for left.Add(-1) >= 0 {
					publish()
				}
			})
		}
		running.Wait()
		b.ReportMetric(float64(b.N*batch)/b.Elapsed().Seconds(), "records/s")
	}
	b.Run("sink", func(b *testing.B) {
		sink, err := kafka.NewSink(o)
		if err != nil {
			b.Fatal(err)
		}
		defer sink.Close()
		rate(b, func() {
			for _, err := range sink.Publish(b.Context(), all) {
				if err != nil {
					b.Error(err)
				}
			}
		})
	})
	b.Run("client", func(b *testing.B) {
		cl, err := kgo.NewClient(kgo.SeedBrokers(o.Brokers...))
		if err != nil {
			b.Fatal(err)
		}
		defer cl.Close()
		rate(b, func() {
			for i := range all {
				e := &all[i]
				r := &kgo.Record{Topic: e.Topic, Key: []byte(e.ID), Value: e.Payload}
				for _, h := range e.RecordHeaders() {
					r.Headers = append(r.Headers, kgo.RecordHeader{Key: h.Name, Value: []byte(h.Value)})
				}
				cl.Produce(b.Context(), r, func(_ *kgo.Record, err error) {
					if err != nil {
						b.Error(err)
					}
				})
			}
		})
		if err := cl.Flush(b.Context()); err != nil {
			b.Error(err)
		}
	})
}
