package schedule_test

import (
	"testing"
	"time"

	"flunq.io/flunq/engine/schedule"
)

// Whatever the bytes, a valid request that was read stays the same when it is sent and read again.
func FuzzMessage(f *testing.F) {
	f.Add([]byte("key"), []byte(`{"id":"00000000-0000-4000-8000-000000000001","topic":"orders","execute_at":1795525200,"payload":"YQ=="}`), "")
	f.Add([]byte("key"), []byte(`{"id":"00000000-0000-4000-8000-000000000001","topic":"orders","execute_at_ms":1795525200007,"payload":"YQ==","headers":{"a":"b"},"key":"k","tenant":"t"}`), "")
	f.Add([]byte("00000000-0000-4000-8000-000000000001"), []byte("payload"), "1795525200")
	f.Add([]byte("order-1"), []byte("payload"), "-1")
	f.Fuzz(func(t *testing.T, key, value []byte, epoch string) {
		m := schedule.Message{Topic: "schedule_events", Partition: 3, Offset: 7, Key: key, Value: value}
		if epoch != "" {
			m.Headers = []schedule.Header{{Name: "scheduler-epoch", Value: epoch}, {Name: "scheduler-target-topic", Value: "orders"}}
		}
		id, content, err := m.Request()
		if err != nil || schedule.DefaultLimits().CheckQueued(id, content, time.Unix(1795520000, 0)) != nil {
			return
		}
		e := schedule.Event{ID: id, Content: content}
		sent, err := e.Request()
		if err != nil {
			t.Fatal(err)
		}
		again := schedule.Message{Value: sent}
		// JSON cannot hold bytes that are not UTF-8, which headers of other programs may contain.
		if id2, content2, err := again.Request(); err != nil || id2 != id || epoch == "" && !content2.Equal(content) {
			t.Errorf("%s %+v is read again as %s %+v: %v", id, content, id2, content2, err)
		}
	})
}
