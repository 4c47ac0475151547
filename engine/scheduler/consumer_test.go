package scheduler_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"flunq.io/flunq/engine/agenda"
	"flunq.io/flunq/engine/schedule"
	"flunq.io/flunq/engine/scheduler"
)

// mailbox is a Feed that returns each batch once.
type mailbox struct {
	batches   [][]schedule.Message
	committed int
	reasons   map[int64]string // of rejected messages, by offset
	away      bool
}

func (m *mailbox) Fetch(context.Context) (batch []schedule.Message, err error) {
	if m.away {
		return nil, errors.New("away")
	}
	if len(m.batches) > 0 {
		batch, m.batches = m.batches[0], m.batches[1:]
	}
	return batch, nil
}

func (m *mailbox) Commit(_ context.Context, messages []schedule.Message) error {
	m.committed += len(messages)
	return nil
}

func (m *mailbox) Reject(_ context.Context, message schedule.Message, reason string) error {
	m.reasons[message.Offset] = reason
	return nil
}

// Of several messages with one id that arrive together, the first one counts: the same request
// again succeeds, and different content is rejected.
func TestConsumerRepeatedID(t *testing.T) {
	t.Parallel()
	request := func(offset int64, payload string) schedule.Message {
		value := fmt.Appendf(nil, `{"id":"00000000-0000-4000-8000-000000000001","topic":"orders","execute_at":2209006800,"payload":%q}`, payload)
		return schedule.Message{Topic: "requests", Offset: offset, Value: value}
	}
	feed := &mailbox{batches: [][]schedule.Message{{request(0, "YQ=="), request(1, "Yg=="), request(2, "YQ==")}}, reasons: map[int64]string{}}
	ledger := agenda.NewLedger(inMemory(t).connect(), agenda.Defaults())
	if err := ledger.SetPartitions(t.Context(), 0, 4); err != nil {
		t.Fatal(err)
	}
	c := scheduler.NewConsumer(feed, ledger, scheduler.ConsumerOptions{
		APIOptions: scheduler.APIOptions{
			Limits: schedule.DefaultLimits(), Tenant: "default",
			Now: func() time.Time { return time.Unix(2209006800, 0).Add(-time.Hour) },
		},
		Retry: schedule.DefaultRetry(),
	})
	if _, err := c.Step(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(feed.reasons) != 1 || feed.reasons[1] == "" || feed.committed != 3 {
		t.Errorf("rejected %v, committed %d: want the second message rejected, and three committed", feed.reasons, feed.committed)
	}
}

// The pause grows with consecutive failures only.
func TestConsumerPause(t *testing.T) {
	t.Parallel()
	retry := schedule.DefaultRetry()
	feed := &mailbox{}
	c := scheduler.NewConsumer(feed, nil, scheduler.ConsumerOptions{Retry: retry})
	for i, away := range []bool{true, true, false, true} {
		feed.away = away
		pause, _ := c.Step(t.Context())
		if want := []time.Duration{retry.First, 2 * retry.First, retry.First, retry.First}[i]; pause != want {
			t.Errorf("step %d: pause %s, want %s", i, pause, want)
		}
	}
}
