package timer

import (
	"context"
	"time"

	"flunq.io/flunq/engine/delivery"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/store"
)

// handle takes events through, in their order. An error is Redis', and the events
// are to be handled again; what is wrong with one itself is dealt with here.
func (s *Service) handle(ctx context.Context, msgs []store.Message) error {
	wishes := s.wishes[:0]
	defer func() { s.wishes = wishes; clear(wishes) }()
	for i := range msgs {
		w := store.Wish{Message: &msgs[i], Back: msgs[i].Event.Type == event.TimerCancelled}
		if err := understand(&w); err == nil {
			wishes = append(wishes, w)
		} else if err := s.desk.Reject(ctx, msgs[i], err, event.TimerDead); err != nil {
			return err
		}
	}
	if len(wishes) == 0 {
		return nil
	}
	granted, now, err := s.store.Grant(ctx, wishes...)
	if err != nil {
		return err
	}
	s.watch.hear(now, soonest(wishes))
	for i, g := range granted {
		if err := s.settle(ctx, &wishes[i], g); err != nil {
			return err
		}
	}
	return nil
}

// soonest is when the first of the timers that are to be set is due; zero if none is.
func soonest(wishes []store.Wish) (at time.Time) {
	for i := range wishes {
		if w := &wishes[i]; !w.Back {
			at = earlier(at, w.Timer.Due())
		}
	}
	return at
}

// understand takes the timer that a message asks for into its wish; an error is the
// message's own.
func understand(w *store.Wish) (err error) {
	if err := delivery.Poison(*w.Message); err != nil {
		return err
	}
	w.Timer, w.Text, err = timerOf(w.Message)
	return delivery.As(delivery.Permanent, err)
}

// settle tells what became of a wish, or deals with its message.
func (s *Service) settle(ctx context.Context, w *store.Wish, g store.Granted) error {
	if g.Err != nil {
		return s.desk.Reject(ctx, *w.Message, g.Err, event.TimerDead)
	}
	what := delivery.Registered
	if w.Back {
		what = delivery.Cancelled
	}
	if g.Mine && s.opts.Observe != nil {
		t := w.Timer
		s.desk.Tell(delivery.Activity{What: what, Message: *w.Message, Timer: &t})
	}
	return nil
}
