package delivery

import (
	"context"
	"slices"

	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/store"
)

// HandleBatches handles the buffered messages in the largest possible batches. It calls
// handle with messages of the wanted types, in order; a poison candidate is a batch of its
// own. Messages of other types go to AcknowledgeLater. An error of handle is returned, and the
// next call repeats the whole batch: handle may receive messages that it has already handled.
func (c *Consumer) HandleBatches(ctx context.Context, wanted func(event.Type) bool, handle func(context.Context, []store.Message) error) error {
	c.AcknowledgeLater(c.buffer.takeUnwanted(wanted)...)
	for {
		batch := c.buffer.Next()
		if len(batch) == 0 {
			return nil
		}
		if err := c.handleBatch(ctx, batch, handle); err != nil {
			return err
		}
		c.buffer.Shift(len(batch))
	}
}

func (c *Consumer) handleBatch(ctx context.Context, batch []store.Message, handle func(context.Context, []store.Message) error) error {
	if !c.opts.Isolation.Enter(batch[0]) {
		return ErrBusy
	}
	defer c.opts.Isolation.Leave()
	return c.attempt(ctx, batch, func() error { return handle(ctx, batch) })
}

// attempt calls handle for a batch of messages that Isolation admitted, and reports the result to the
// observer.
func (c *Consumer) attempt(ctx context.Context, batch []store.Message, handle func() error) error {
	if m := batch[0]; PoisonCandidate(m) && Poison(m) == nil {
		if err := c.streams.MarkIsolated(ctx, m); err != nil {
			return err
		}
		if ctx.Err() != nil { // another consumer has claimed the message, or the service is stopping
			return context.Cause(ctx)
		}
	}
	c.reportAll(Began, batch, nil)
	if err := handle(); err != nil {
		c.reportAll(Broken, batch, err)
		return err
	}
	c.reportAll(Done, batch, nil)
	return nil
}

func (c *Consumer) reportAll(what What, msgs []store.Message, err error) {
	if c.opts.Observe == nil {
		return
	}
	for _, m := range msgs {
		c.Report(Activity{What: what, Message: m, Err: err})
	}
}

// takeUnwanted removes and returns the messages of types that are not wanted.
func (b *Buffer) takeUnwanted(wanted func(event.Type) bool) (others []store.Message) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.msgs = slices.DeleteFunc(b.msgs, func(m store.Message) bool {
		if wanted(m.Event.Type) {
			return false
		}
		others = append(others, m)
		return true
	})
	return others
}

// Next returns the messages to handle next: only the first if it is a poison candidate, otherwise
// all before the next candidate.
func (b *Buffer) Next() []store.Message {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := slices.IndexFunc(b.msgs, PoisonCandidate)
	if n < 0 {
		n = len(b.msgs)
	}
	return slices.Clip(b.msgs[:max(n, min(1, len(b.msgs)))])
}

// Shift removes the first n messages.
func (b *Buffer) Shift(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.msgs = b.msgs[n:]; len(b.msgs) == 0 {
		b.msgs = nil
	}
}
