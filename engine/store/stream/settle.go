package stream

import (
	"context"
	"errors"
	"time"

	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/timers"
	"flunq.io/flunq/engine/store/wire"
)

// Retry postpones a message: after delay it is delivered again, as an event with the same id. It does
// nothing and returns false if the consumer no longer owns the message.
func (s Streams) Retry(ctx context.Context, m store.Message, delay time.Duration) (mine bool, err error) {
	now, err := s.store.NowOf(ctx, m.Tenant)
	if err != nil {
		return false, err
	}
	t := event.Timer{
		Tenant: m.Tenant, Workflow: m.Event.Workflow, Execution: m.Event.Execution, TaskID: m.Event.Task,
		FireAt: now.Add(delay), DurationMS: delay.Milliseconds(), Kind: event.DeliveryTimer, Key: m.ID,
		Event: event.Encode(m.Postponed(now)),
	}
	keys := []string{s.keys.Stream(m.Tenant), s.keys.Timers(m.Tenant)}
	args := append([]any{m.Group, m.ID, m.Consumer, timers.FormatScore(t.FireAt), event.TimerText(&t)}, timers.New(s.store).SetEvent(t)...)
	n, err := retryScript().Run(ctx, s.rdb, keys, args...).Int()
	return n == 1, store.Failed("postpone a message", err)
}

// Reply is a message and the event that replies to it.
type Reply struct {
	Message *store.Message
	Event   *event.Event
}

// The limits of one call of replyScript, which blocks Redis while it runs.
const (
	maxReplies = 100
	maxData    = 1 << 20
)

// Replies replies to messages of one tenant that were delivered to one consumer, and reports which were
// answered. Messages that the consumer no longer owns are not. After an error the caller may repeat
// the call: no message is answered twice.
func (s Streams) Replies(ctx context.Context, replies []Reply) ([]bool, error) {
	sent := make([]bool, len(replies))
	for from := 0; from < len(replies); {
		part, n, data := replies[from:], 0, 0
		var answered store.IDRange
		for ; n < len(part) && n < maxReplies && (n == 0 || data+len(part[n].Event.Data) <= maxData); n++ {
			data += len(part[n].Event.Data)
			answered.Add(part[n].Message.ID)
		}
		m := part[0].Message
		const own, each = 7, 10 // arguments
		args := make([]any, 0, own+each*n)
		args = append(args, m.Group, m.Consumer, m.Tenant, answered.First, answered.Last, store.PendingCount(n), !s.rdb.Embedded)
		for _, r := range part[:n] {
			args = s.store.AppendEvent(append(args, &r.Message.ID), r.Event, m.Tenant, false)
		}
		out, err := replyScript().Run(ctx, s.rdb, []string{s.keys.Stream(m.Tenant)}, args...).Slice()
		if err == nil && len(out) != 1+n {
			err = wire.ErrReply
		}
		if err != nil {
			return sent, store.Failed("reply", err)
		}
		for i, was := range out[1:] {
			_, sent[from+i] = was.(string)
		}
		if wrong, _ := out[0].(string); wrong != "" {
			return sent, store.Failed("reply", errors.New(wrong))
		}
		from += n
	}
	return sent, nil
}

// AcknowledgeOwned acknowledges a message if the consumer still owns it: another consumer that has
// claimed it may still have to handle it.
func (s Streams) AcknowledgeOwned(ctx context.Context, m store.Message) error {
	err := acknowledgeScript().Run(ctx, s.rdb, []string{s.keys.Stream(m.Tenant)}, m.Group, m.ID, m.Consumer).Err()
	return store.Failed("acknowledge", err)
}
