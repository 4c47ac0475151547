package store_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/redistest"
	"flunq.io/flunq/engine/store/stream"
	"flunq.io/flunq/engine/store/wire"
)

// meter counts the bytes of the arguments sent to Redis.
type meter struct{ bytes int }

func (m *meter) DialHook(next redis.DialHook) redis.DialHook { return next }

func (m *meter) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (m *meter) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		for _, arg := range cmd.Args() {
			m.bytes += len(fmt.Sprint(arg))
		}
		return next(ctx, cmd)
	}
}

// What one transition costs: it answers a message, writes one history entry and
// publishes one request.
func BenchmarkCommit(b *testing.B) {
	for name, open := range map[string]func(testing.TB) wire.Redis{"redis": redistest.Start, "miniredis": startMini} {
		b.Run(name, func(b *testing.B) {
			rdb := open(b)
			st := store.New(rdb, store.Options{})
			if err := stream.New(st).Groups(b.Context(), tenant); err != nil {
				b.Fatal(err)
			}
			var m meter
			rdb.AddHook(&m)
			var version int64
			for b.Loop() {
				b.StopTimer()
				message := delivered(b, st, version)
				m.bytes = 0
				b.StartTimer()
				got, err := st.Commit(b.Context(), step(version, &message))
				if err != nil || got != store.Committed {
					b.Fatal(got, err)
				}
				version++
			}
			b.ReportMetric(float64(m.bytes), "bytes/commit")
		})
	}
}

func startMini(tb testing.TB) wire.Redis {
	tb.Helper()
	return redistest.Connect(tb, miniredis.RunT(tb).Addr())
}

// delivered returns a message for a commit.
func delivered(b *testing.B, st *store.Store, n int64) store.Message {
	b.Helper()
	e := historyEvent(fmt.Sprint("in", n), event.TaskCompleted)
	e.Data = json.RawMessage(`{}`)
	if err := st.Publish(b.Context(), e); err != nil {
		b.Fatal(err)
	}
	for {
		got, err := stream.New(st).Read(b.Context(), reader(store.WorkerGroup, "w1"), 1, 0)
		msgs := got.Messages
		if err != nil || len(msgs) != 1 {
			b.Fatal(msgs, err)
		}
		if msgs[0].Event.ID == e.ID {
			return msgs[0]
		}
		if err := stream.New(st).AcknowledgeOwned(b.Context(), msgs[0]); err != nil {
			b.Fatal(err)
		}
	}
}
