package delivery

import (
	"context"
	"slices"

	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/store"
)

// Together handles what the desk holds, as much at once as may be: handle is called
// with the messages of the wanted types, in their order, a suspect alone; all others
// are passed. It stops at an error, which is not the messages' own, and goes on from
// there the next time: handle may be given again what it has dealt with already.
func (d *Consumer) Together(ctx context.Context, wanted func(event.Type) bool, handle func(context.Context, []store.Message) error) error {
	d.Pass(d.buffer.Sift(wanted)...)
	for {
		batch := d.buffer.Ahead()
		if len(batch) == 0 {
			return nil
		}
		if err := d.handleAll(ctx, batch, handle); err != nil {
			return err
		}
		d.buffer.Shift(len(batch))
	}
}

// handleAll takes messages through, among which a suspect is alone.
func (d *Consumer) handleAll(ctx context.Context, batch []store.Message, handle func(context.Context, []store.Message) error) error {
	if !d.opts.Isolation.Enter(batch[0]) {
		return ErrBusy
	}
	defer d.opts.Isolation.Leave()
	if PoisonCandidate(batch[0]) && Poison(batch[0]) == nil {
		if err := d.Store.MarkIsolated(ctx, batch[0]); err != nil {
			return err
		}
	}
	d.tellAll(Began, batch, nil)
	err := handle(ctx, batch)
	if err != nil {
		d.tellAll(Broken, batch, err)
		return err
	}
	d.tellAll(Done, batch, nil)
	return nil
}

// tellAll shows the observer the same of many messages.
func (d *Consumer) tellAll(what What, msgs []store.Message, err error) {
	if d.opts.Observe == nil {
		return
	}
	for _, m := range msgs {
		d.Tell(Activity{What: what, Message: m, Err: err})
	}
}

// Sift takes the messages off the shelf that are not of a wanted type.
func (s *Buffer) Sift(wanted func(event.Type) bool) (others []store.Message) {
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

// Ahead are the messages to handle next: the first one, and if it is no suspect
// those behind it up to the next suspect.
func (s *Buffer) Ahead() []store.Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := slices.IndexFunc(s.msgs, PoisonCandidate)
	if n < 0 {
		n = len(s.msgs)
	}
	return slices.Clip(s.msgs[:max(n, min(1, len(s.msgs)))])
}

// Shift forgets the first messages.
func (s *Buffer) Shift(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.msgs = s.msgs[n:]; len(s.msgs) == 0 {
		s.msgs = nil
	}
}
