package delivery

import (
	"context"
	"slices"
	"time"

	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/store"
)

// Fill reads new messages into the empty buffer, blocking for up to block. If there are none,
// wake is when abandoned entries may become claimable.
func (c *Consumer) Fill(ctx context.Context, block time.Duration) (now, wake time.Time, err error) {
	f, err := c.Fetch(ctx, c.opts.Batch, block)
	c.quiet = f.Events == 0
	c.setBuffer(f.Messages)
	return f.Now, f.Wake, err
}

// Empty reports whether the buffer is empty.
func (c *Consumer) Empty() bool { return len(c.buffer) == 0 }

// Quiet reports whether the last Fill found no events at all, not even unwanted ones.
func (c *Consumer) Quiet() bool { return c.quiet }

// HandleBatches handles the buffered messages in the largest possible batches. It calls
// handle with messages of the wanted types, in order; a poison candidate is a batch of its
// own. Messages of other types are acknowledged with the next Fetch. An error of handle is returned,
// and the next call repeats the whole batch: handle may receive messages that it has already handled.
func (c *Consumer) HandleBatches(ctx context.Context, wanted func(event.Type) bool, handle func(context.Context, []store.Message) error) error {
	c.mu.Lock()
	c.buffer = c.dropUnwanted(c.buffer, wanted)
	c.mu.Unlock()
	for batch := c.batch(); len(batch) > 0; batch = c.batch() {
		if err := c.handleBatch(ctx, batch, handle); err != nil {
			return err
		}
		c.setBuffer(c.buffer[len(batch):])
	}
	return nil
}

// batch returns the messages to handle next: only the first if it is a poison candidate, otherwise
// all before the next candidate.
func (c *Consumer) batch() []store.Message {
	n := slices.IndexFunc(c.buffer, PoisonCandidate)
	if n < 0 {
		n = len(c.buffer)
	}
	return slices.Clip(c.buffer[:max(n, min(1, len(c.buffer)))])
}

// setBuffer replaces the buffer. Only the goroutine that fills and handles it may call it.
func (c *Consumer) setBuffer(msgs []store.Message) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.buffer = msgs; len(msgs) == 0 {
		c.buffer = nil // so that handled messages can be garbage-collected
	}
}

func (c *Consumer) handleBatch(ctx context.Context, batch []store.Message, handle func(context.Context, []store.Message) error) error {
	if !c.opts.Isolation.Enter(batch[0]) {
		return ErrBusy
	}
	defer c.opts.Isolation.Leave()
	return c.attempt(ctx, batch, func() error { return handle(ctx, batch) })
}

// Handle calls handle with a message that Isolation admitted, and reports the result to the
// observer.
func (c *Consumer) Handle(ctx context.Context, m store.Message, handle func(context.Context, store.Message) error) error {
	return c.attempt(ctx, []store.Message{m}, func() error { return handle(ctx, m) })
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
