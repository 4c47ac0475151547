package timer

import (
	"context"
	"time"

	"flunq.io/flunq/engine/delivery"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/timers"
)

// handle handles events in order. It returns only errors of Redis, after which the events
// are to be handled again. It settles errors of an event itself.
func (s *Service) handle(ctx context.Context, msgs []store.Message) error {
	requests := s.requests[:0]
	defer func() { s.requests = requests; clear(requests) }()
	for i := range msgs {
		w := timers.Request{Message: &msgs[i], Back: msgs[i].Event.Type == event.TimerCancelled}
		if err := readRequest(&w); err == nil {
			requests = append(requests, w)
		} else if err := s.consumer.Reject(ctx, msgs[i], err, event.TimerDead); err != nil {
			return err
		}
	}
	if len(requests) == 0 {
		return nil
	}
	applied, now, err := s.timers.Apply(ctx, requests...)
	if err != nil {
		return err
	}
	s.watch.recordSet(now, soonest(requests))
	for i, g := range applied {
		if err := s.finish(ctx, &requests[i], g); err != nil {
			return err
		}
	}
	return nil
}

// soonest returns when the first of the requested timers is due; zero if none is set.
func soonest(requests []timers.Request) (at time.Time) {
	for i := range requests {
		if w := &requests[i]; !w.Back {
			at = earlier(at, w.Timer.Due())
		}
	}
	return at
}

// readRequest reads the timer of a request. An error is the message's own.
func readRequest(w *timers.Request) (err error) {
	if err := delivery.Poison(*w.Message); err != nil {
		return err
	}
	w.Timer, w.Text, err = timerOf(w.Message)
	return delivery.As(delivery.Permanent, err)
}

// finish reports an applied request to the observer, or rejects its message.
func (s *Service) finish(ctx context.Context, w *timers.Request, g timers.Applied) error {
	if g.Err != nil {
		return s.consumer.Reject(ctx, *w.Message, g.Err, event.TimerDead)
	}
	what := delivery.Registered
	if w.Back {
		what = delivery.Cancelled
	}
	if g.Mine && s.opts.Observe != nil {
		t := w.Timer
		s.consumer.Report(delivery.Activity{What: what, Message: *w.Message, Timer: &t})
	}
	return nil
}
