// Package timer is the service that sets requested timers and fires due ones, never early and without
// losing any. The documentation of package engine follows a timer through it.
package timer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
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

	polls map[string]timers.Poll // timers found due but not fired yet, by timer index
	idle  bool                   // the last read found nothing

	mu       sync.Mutex      // Held is called at any time
	requests []store.Message // read and not applied yet, in order
}

// Options of a Service.
type Options struct {
	delivery.Options

	Fires     int           // timers fired in one batch; 1 to 1000
	MaxSleep  time.Duration // longest wait between two polls of the timers
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
	return &Service{consumer: consumer, timers: timers.New(st), opts: opts, watch: opts.Watch, polls: map[string]timers.Poll{}}, nil
}

// claims is how many times per lease an idle service looks for abandoned entries.
const claims = 8

// Step does one round of work. It returns when to call it again: immediately for a time in the past,
// and for the zero time only when something is written to a stream.
func (s *Service) Step(ctx context.Context) (wake time.Time, err error) {
	now, more, err := s.fire(ctx)
	if store.Down(s.consumer.Store, err) || more && err == nil && !s.watch.single() {
		return now, err
	}
	// Neither a timer that cannot fire nor a backlog of due timers holds up anything else.
	wake, otherErr := now, error(nil)
	if len(s.requests) == 0 {
		wake, otherErr = s.read(ctx, !more && s.opts.Block > 0)
	}
	if otherErr == nil {
		otherErr = s.set(ctx)
	}
	if more { // no other service of the process fires them
		wake = now
	}
	return wake, errors.Join(err, otherErr)
}

// fire publishes due timers, unless another service of the process is doing so, and reports whether
// more are due.
func (s *Service) fire(ctx context.Context) (now time.Time, more bool, err error) {
	sleep := s.opts.MaxSleep
	if s.opts.Block == 0 {
		sleep = 0
	}
	if !s.watch.begin(s, sleep) {
		return s.watch.clock(), false, nil
	}
	var next time.Time
	indexes := s.timers.Indexes(s.opts.Tenants.Names())
	reference := s.pollAll(ctx, indexes)
	for _, tenant := range indexes {
		poll, otherErr := s.fireOn(ctx, tenant)
		if otherErr != nil {
			s.consumer.Report(delivery.Activity{What: delivery.Unfired, Err: otherErr})
		}
		now = s.watch.reference(tenant, poll.Now)
		next, more = event.Earlier(next, s.watch.reference(tenant, poll.Next)), more || len(poll.Due)+len(poll.Misplaced) > 0
		err = errors.Join(err, otherErr)
	}
	if !reference.IsZero() {
		now = reference
	}
	s.watch.recordPoll(now, next)
	if err != nil {
		s.watch.invalidate()
	}
	if !more {
		s.watch.end()
	}
	return now, more, err
}

// pollAll polls the timers of all tenants of a cluster in one call, for fireOn, and returns the
// time of the watch's reference clock. A failed poll is left to fireOn. On a single Redis it does
// nothing.
func (s *Service) pollAll(ctx context.Context, indexes []string) (reference time.Time) {
	if !s.consumer.Store.Keys().Clustered() {
		return reference
	}
	unknown := slices.DeleteFunc(slices.Clone(indexes), func(tenant string) bool { _, known := s.polls[tenant]; return known })
	polls, reference := s.timers.PollAll(ctx, unknown, s.batchFor(0))
	for i, tenant := range unknown {
		if !polls[i].Now.IsZero() {
			s.polls[tenant] = polls[i]
			s.watch.recordClock(tenant, polls[i].Now, reference)
		}
	}
	return reference
}

// fireOn publishes the due timers of one index and polls for the next due ones.
func (s *Service) fireOn(ctx context.Context, tenant string) (poll timers.Poll, err error) {
	poll, known := s.polls[tenant]
	delete(s.polls, tenant)
	if !known {
		if poll, err = s.timers.Poll(ctx, tenant, s.batchFor(0)); err != nil {
			return poll, err
		}
	}
	for len(poll.Misplaced) > 0 && len(poll.Due) == 0 { // they precede due timers
		if err := s.timers.CorrectScores(ctx, tenant, poll.Misplaced); err != nil {
			return poll, err
		}
		if poll, err = s.timers.Poll(ctx, tenant, s.batchFor(0)); err != nil {
			return poll, err
		}
	}
	if len(poll.Due) == 0 {
		return poll, nil
	}
	s.consumer.Report(delivery.Activity{What: delivery.Firing, At: poll.Now})
	fired, after, err := s.timers.Fire(ctx, tenant, poll, s.batchFor(len(poll.Due)))
	if err == nil && fired == len(poll.Due) {
		s.fired(poll) // otherwise another process fired some of them, and it is unknown which
	}
	if err == nil && len(after.Due) > 0 {
		s.polls[tenant] = after
	}
	return after, err
}

// batchFor returns how many timers to request if due timers were due last time: twice as many, up to
// the limit.
func (s *Service) batchFor(due int) int {
	const minimum = 16
	return min(max(minimum, 2*due), s.opts.Fires)
}

// fired adds the tenants of fired timers to the tenant set and reports these timers to the observer.
func (s *Service) fired(poll timers.Poll) {
	for i, d := range poll.Due {
		if d.Err != nil {
			continue
		}
		if i == 0 || d.Tenant != poll.Due[i-1].Tenant {
			s.opts.Tenants.Add(d.Tenant)
		}
		if s.opts.Observe != nil {
			t := d.Timer
			s.consumer.Report(delivery.Activity{What: delivery.Fired, Timer: &t, At: poll.Now})
		}
	}
}

// Handles reports whether a timer service reads events of type t. It acknowledges all others without
// reading them. An unreadable event is handled by the service for its type, otherwise by the worker.
func Handles(t event.Type) bool {
	return t == event.TimerScheduled || t == event.TimerCancelled || t == event.TimerSet
}

// Finish acknowledges the events that were read and do not concern timers.
func (s *Service) Finish(ctx context.Context) error { return s.consumer.Finish(ctx) }

// Held returns the messages that were read but not handled yet.
func (s *Service) Held() []store.Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Concat(s.requests, s.consumer.Held())
}
