// Package timer is the service that registers what is scheduled, and fires what
// is due: never early, never lost.
package timer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"flunq.io/flunq/engine/delivery"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/store"
)

// Service is one timer service. Several may run side by side, in one process or many.
type Service struct {
	consumer *delivery.Consumer
	store    *store.Store
	opts     Options
	watch    *Watch

	ahead map[string]store.Look // what is due and not fired yet, by the shelf it stands on
	idle  bool                  // the last read found nothing

	requests []store.TimerRequest // room for those of one batch
}

// Options of a Service.
type Options struct {
	delivery.Options

	Fires     int           // timers fired at once; 1 to 1000
	MaxSleep  time.Duration // longest wait between two looks at the timers
	Lookahead time.Duration // a wait ends so long before a timer is due, for a short one that ends just then
	Watch     *Watch        // shared by the services of a process; nil: this one is alone
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

// New is a timer service on what st holds.
func New(st *store.Store, opts Options) (*Service, error) {
	opts.Wants = func(t event.Type) bool { return t == event.TimerSet || concerns(t) }
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
	return &Service{consumer: consumer, store: st, opts: opts, watch: opts.Watch, ahead: map[string]store.Look{}}, nil
}

// claims is how often in a lease an idle service looks for what dead ones have left.
const claims = 8

// Finish acknowledges what was read and is not about timers.
func (s *Service) Finish(ctx context.Context) error { return s.consumer.Finish(ctx) }

// Held are the messages that were read and not handled yet.
func (s *Service) Held() []store.Message { return s.consumer.Held() }

// Step does one round of work. It says when it wants the next one: at once if
// that is past, never (before something is written to a stream) if it is zero.
func (s *Service) Step(ctx context.Context) (wake time.Time, err error) {
	now, more, err := s.fire(ctx)
	if store.Temporary(err) || more && err == nil && !s.watch.single() {
		return now, err
	}
	// A timer that cannot fire, or many that are due, keep nothing else from being done.
	wake, rest := s.register(ctx, now, more)
	if more { // nobody else in the process fires it
		wake = now
	}
	return wake, errors.Join(err, rest)
}

// register takes new events through, or those of dead consumers. It waits for
// them no longer than until the next timer is due.
func (s *Service) register(ctx context.Context, now time.Time, hurry bool) (wake time.Time, err error) {
	if s.consumer.Empty() {
		if s.opts.Block == 0 || hurry {
			now, wake, err = s.consumer.Fill(ctx, 0)
		} else if now, wake, err = s.await(ctx); wake.IsZero() && now.IsZero() {
			return s.watch.clock(), err
		}
		if err != nil || s.consumer.Quiet() {
			return earlier(wake, s.watch.upcoming(s)), err
		}
	}
	return now, s.consumer.Together(ctx, s.wants, s.handle)
}

// await waits for events, and is back in time where the wait is for a timer. The
// times are zero if it has only rested while another service waited.
func (s *Service) await(ctx context.Context) (now, wake time.Time, err error) {
	patience, rest := s.watch.wait(s, s.opts)
	if rest != nil {
		pause(ctx, rest)
		return now, wake, nil
	}
	if s.opts.Alarm != nil && patience <= s.opts.Lookahead && patience < s.opts.Block {
		defer s.opts.Alarm(patience)()
	}
	now, wake, err = s.consumer.Fill(ctx, patience)
	s.idle = s.consumer.Quiet()
	s.watch.arrived(s, now)
	return now, wake, err
}

// wants reports whether the timer service takes events of a type.
func (s *Service) wants(t event.Type) bool {
	if t == event.TimerSet {
		s.watch.stale()
		s.consumer.Claim()
	}
	return concerns(t)
}

// concerns reports whether the timer service takes events of a type. What cannot
// be read is the business of whoever takes its type, and else of the worker.
func concerns(t event.Type) bool { return t == event.TimerScheduled || t == event.TimerCancelled }

// earlier is the first of two moments; zero is never.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
