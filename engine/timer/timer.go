// Package timer is the service that registers scheduled timers and fires due ones, never
// early and without losing any.
package timer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"flunq.io/flunq/engine/delivery"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/timers"
)

// Service is one timer service. Several may run concurrently, in one process or in many.
type Service struct {
	consumer *delivery.Consumer
	timers   timers.Timers
	opts     Options
	watch    *Watch

	looks map[string]timers.Look // timers found due but not fired yet, by timer index
	idle  bool                   // the last read found nothing
}

// Options of a Service.
type Options struct {
	delivery.Options

	Fires     int           // timers fired in one batch; 1 to 1000
	MaxSleep  time.Duration // longest wait between two looks at the timers
	Lookahead time.Duration // a blocking read ends this long before a timer is due; a short one then ends on time
	Watch     *Watch        // shared by the services of a process; nil: this service is the only one
}

// Defaults are the options of an ordinary deployment.
func Defaults() Options {
	o := Options{
		Options: delivery.Defaults("timer", store.TimerGroup),
		Fires:   100, MaxSleep: 4 * time.Second, Lookahead: 100 * time.Millisecond,
	}
	o.Block = 2 * time.Second
	return o
}

// alarms reports whether an alarm ends a read that may block for patience on time.
func (o Options) alarms(patience time.Duration) bool {
	return o.Alarm != nil && patience <= o.Lookahead
}

func (o Options) check() error {
	var errs []error
	if o.Block > 0 && o.MaxSleep <= 0 {
		errs = append(errs, fmt.Errorf("max sleep is %v, want more than 0", o.MaxSleep))
	}
	if o.Fires < 1 || o.Fires > 1000 {
		errs = append(errs, fmt.Errorf("fires is %d, want 1 to 1000", o.Fires))
	}
	if o.Lookahead < 0 {
		errs = append(errs, fmt.Errorf("lookahead is %v, want 0 or more", o.Lookahead))
	}
	return errors.Join(errs...)
}

// New returns a timer service.
func New(st *store.Store, opts Options) (*Service, error) {
	opts.Wants = Handles
	if opts.Block > 0 {
		opts.Claim = opts.Lease / claims
	}
	consumer, err := delivery.NewConsumer(st, opts.Options)
	if err := errors.Join(err, opts.check()); err != nil {
		return nil, err
	}
	if opts.Watch == nil {
		opts.Watch = NewWatch()
	}
	opts.Watch.join()
	return &Service{consumer: consumer, timers: timers.New(st), opts: opts, watch: opts.Watch, looks: map[string]timers.Look{}}, nil
}

// claims is how many times per lease an idle service looks for abandoned entries.
const claims = 8

// Finish acknowledges the events that were read and do not concern timers.
func (s *Service) Finish(ctx context.Context) error { return s.consumer.Finish(ctx) }

// Held returns the messages that were read but not handled yet.
func (s *Service) Held() []store.Message { return s.consumer.Held() }

// Step does one round of work. It returns when to call it again: immediately for a time in the past,
// and for the zero time only when something is written to a stream.
func (s *Service) Step(ctx context.Context) (wake time.Time, err error) {
	now, more, err := s.fire(ctx)
	if store.Down(s.consumer.Store, err) || more && err == nil && !s.watch.single() {
		return now, err
	}
	// Neither a timer that cannot fire nor a backlog of due timers holds up anything else.
	wake, rest := s.register(ctx, now, more)
	if more { // no other service of the process fires them
		wake = now
	}
	return wake, errors.Join(err, rest)
}

// register handles new or abandoned events. It waits for them no longer than until the next timer is
// due.
func (s *Service) register(ctx context.Context, now time.Time, hurry bool) (wake time.Time, err error) {
	if s.consumer.Empty() {
		if s.opts.Block == 0 || hurry {
			now, wake, err = s.consumer.Fill(ctx, 0)
		} else if now, wake, err = s.waitForEvents(ctx); wake.IsZero() && now.IsZero() {
			return s.watch.clock(), err
		}
		if err != nil || s.consumer.Quiet() {
			return earlier(wake, s.watch.upcoming(s)), err
		}
	}
	return now, s.consumer.HandleBatches(ctx, s.wants, s.handle)
}

// waitForEvents blocks for events and returns in time for the next timer. The times are zero if it
// only rested while another service blocked.
func (s *Service) waitForEvents(ctx context.Context) (now, wake time.Time, err error) {
	patience, rest := s.watch.blockFor(s, s.opts)
	if rest != nil {
		select {
		case <-rest:
		case <-ctx.Done():
		}
		return now, wake, nil
	}
	if s.opts.alarms(patience) {
		defer s.opts.Alarm(patience)()
	}
	now, wake, err = s.consumer.Fill(ctx, patience)
	s.idle = s.consumer.Quiet()
	s.watch.arrived(s, now)
	return now, wake, err
}

// wants reports whether the timer service handles events of type t. A TimerSet also forces a new look
// at the timers.
func (s *Service) wants(t event.Type) bool {
	if t == event.TimerSet {
		s.watch.invalidate()
		s.consumer.Claim()
	}
	return setsTimers(t)
}

// setsTimers reports whether events of type t set or cancel timers. An unreadable event is handled by
// the service for its type, otherwise by the worker.
func setsTimers(t event.Type) bool { return t == event.TimerScheduled || t == event.TimerCancelled }

// earlier returns the earlier of two times; zero means never.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// Handles reports whether a timer service reads events of type t. It acknowledges all others without
// reading them.
func Handles(t event.Type) bool { return setsTimers(t) || t == event.TimerSet }
