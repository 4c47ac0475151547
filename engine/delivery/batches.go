package delivery

import (
	"context"
	"slices"

	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/store"
)

// HandleBatches handles the buffered messages in the largest possible batches. It calls
// handle with messages of the wanted types, in order; a poison candidate is a batch of its
// own. Messages of other types go to Pass. If handle returns an error, so does
// HandleBatches, and its next call repeats the whole batch: handle may receive messages
// again that it has already handled.
func (d *Consumer) HandleBatches(ctx context.Context, wanted func(event.Type) bool, handle func(context.Context, []store.Message) error) error {
	d.Pass(d.buffer.TakeUnwanted(wanted)...)
	for {
		batch := d.buffer.Next()
		if len(batch) == 0 {
			return nil
		}
		if err := d.handleBatch(ctx, batch, handle); err != nil {
			return err
		}
		d.buffer.Shift(len(batch))
	}
}

func (d *Consumer) handleBatch(ctx context.Context, batch []store.Message, handle func(context.Context, []store.Message) error) error {
	if !d.opts.Isolation.Enter(batch[0]) {
		return ErrBusy
	}
	defer d.opts.Isolation.Leave()
	if PoisonCandidate(batch[0]) && Poison(batch[0]) == nil {
		if err := d.streams.MarkIsolated(ctx, batch[0]); err != nil {
			return err
		}
	}
	d.reportAll(Began, batch, nil)
	err := handle(ctx, batch)
	if err != nil {
		d.reportAll(Broken, batch, err)
		return err
	}
	d.reportAll(Done, batch, nil)
	return nil
}

func (d *Consumer) reportAll(what What, msgs []store.Message, err error) {
	if d.opts.Observe == nil {
		return
	}
	for _, m := range msgs {
		d.Report(Activity{What: what, Message: m, Err: err})
	}
}

// TakeUnwanted removes and returns the messages that are not of a wanted type.
func (s *Buffer) TakeUnwanted(wanted func(event.Type) bool) (others []store.Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for i := range s.msgs {
		if wanted(s.msgs[i].Event.Type) {
			n++
		}
	}
	switch n {
	case len(s.msgs):
		return nil
	case 0:
		others, s.msgs = s.msgs, nil
		return others
	}
	kept := make([]store.Message, 0, n)
	others = make([]store.Message, 0, len(s.msgs)-n)
	for i := range s.msgs {
		if wanted(s.msgs[i].Event.Type) {
			kept = append(kept, s.msgs[i])
		} else {
			others = append(others, s.msgs[i])
		}
	}
	s.msgs = kept
	return others
}

// Next returns the messages to handle next: the first one if it is a poison candidate,
// else all up to the next candidate.
func (s *Buffer) Next() []store.Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := slices.IndexFunc(s.msgs, PoisonCandidate)
	if n < 0 {
		n = len(s.msgs)
	}
	return slices.Clip(s.msgs[:max(n, min(1, len(s.msgs)))])
}

// Shift removes the first n messages.
func (s *Buffer) Shift(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.msgs = s.msgs[n:]; len(s.msgs) == 0 {
		s.msgs = nil
	}
}
