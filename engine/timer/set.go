package timer

import (
	"context"
	"time"

	"flunq.io/flunq/engine/delivery"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/timers"
)

// handle sets and cancels timers, in the order of their events. It returns only errors of
// Redis, after which the same events must be handled again; an invalid event is
// dead-lettered.
func (s *Service) handle(ctx context.Context, msgs []store.Message) error {
	var requests []timers.Request
	for i := range msgs {
		req := timers.Request{Message: &msgs[i], Cancel: msgs[i].Event.Type == event.TimerCancelled}
		if err := readRequest(&req); err == nil {
			requests = append(requests, req)
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
	s.watch.recordSet(s.watch.reference(requests[len(requests)-1].Tenant, now), s.soonest(requests))
	for i, g := range applied {
		if err := s.finish(ctx, &requests[i], g); err != nil {
			return err
		}
	}
	return nil
}

// soonest returns when the first of the requested timers is due, by the clock of the watch; zero if
// none is set.
func (s *Service) soonest(requests []timers.Request) (at time.Time) {
	for i := range requests {
		if req := &requests[i]; !req.Cancel {
			at = earlier(at, s.watch.reference(req.Tenant, req.Timer.Due()))
		}
	}
	return at
}

// readRequest reads the timer of a request. An error concerns the message itself.
func readRequest(req *timers.Request) (err error) {
	if err := delivery.Poison(*req.Message); err != nil {
		return err
	}
	req.Timer, err = timerOf(req.Message)
	return delivery.As(delivery.Permanent, err)
}

// finish reports an applied request to the observer, or rejects its message.
func (s *Service) finish(ctx context.Context, req *timers.Request, applied timers.Applied) error {
	if applied.Err != nil {
		return s.consumer.Reject(ctx, *req.Message, applied.Err, event.TimerDead)
	}
	what := delivery.Registered
	if req.Cancel {
		what = delivery.Cancelled
	}
	if applied.Mine && s.opts.Observe != nil {
		t := req.Timer
		s.consumer.Report(delivery.Activity{What: what, Message: *req.Message, Timer: &t})
	}
	return nil
}
