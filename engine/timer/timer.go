// Package timer is the service that registers what is scheduled, and fires what
// is due: never early, never lost.
package timer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/store"
)

// Service is one timer service. Several may run side by side, in one process or many.
type Service struct {
	store  *store.Store
	opts   Options
	reader store.Reader
	todo   []store.Message // read, and not handled yet
	next   time.Time       // when the next timer is due, as far as is known
}

// Options of a Service.
type Options struct {
	Group, Consumer string
	Tenants         []string
	Batch           int           // events read, or timers fired, at once; 1 to 1000
	Block           time.Duration // how long a read waits for events; 0 in simulation
	MaxSleep        time.Duration // longest wait between two looks at the timers
	Lease           time.Duration // after which a silent consumer's events are claimed
	Attempts        int           // deliveries of an event before it is given up
	RetryDelay      time.Duration // before the second delivery; it grows with the attempts
}

// Defaults are the options of an ordinary deployment.
func Defaults() Options {
	return Options{
		Group: store.TimerGroup, Tenants: []string{"default"},
		Batch: 100, Block: time.Second, MaxSleep: time.Second, Lease: 30 * time.Second,
		Attempts: 3, RetryDelay: 200 * time.Millisecond,
	}
}

func (o Options) check() error {
	var errs []error
	if o.Consumer == "" {
		errs = append(errs, errors.New("the timer service has no consumer name"))
	}
	if len(o.Tenants) == 0 {
		errs = append(errs, errors.New("the timer service has no tenants"))
	}
	if o.Block > 0 && o.MaxSleep <= 0 {
		errs = append(errs, fmt.Errorf("max sleep is %v, want more than 0", o.MaxSleep))
	}
	if o.Batch < 1 || o.Batch > 1000 {
		errs = append(errs, fmt.Errorf("batch is %d, want 1 to 1000", o.Batch))
	}
	if o.Lease <= 0 {
		errs = append(errs, fmt.Errorf("lease is %v, want more than 0", o.Lease))
	}
	if o.Attempts < 1 {
		errs = append(errs, fmt.Errorf("attempts is %d, want 1 or more", o.Attempts))
	}
	return errors.Join(errs...)
}

// New is a timer service on what st holds.
func New(st *store.Store, opts Options) (*Service, error) {
	if err := opts.check(); err != nil {
		return nil, err
	}
	reader := store.Reader{Group: opts.Group, Consumer: opts.Consumer, Tenants: opts.Tenants}
	return &Service{store: st, opts: opts, reader: reader}, nil
}

// Held are the messages that were read and not handled yet.
func (s *Service) Held() []store.Message { return s.todo }

// Step does one round of work. It says when it wants the next one: at once if
// that is past, never (before something is written to a stream) if it is zero.
func (s *Service) Step(ctx context.Context) (wake time.Time, err error) {
	now, fired, err := s.fire(ctx)
	if store.Temporary(err) || fired && err == nil {
		return now, err
	}
	// A timer that cannot fire keeps nothing else from being done.
	wake, rest := s.register(ctx, now)
	return wake, errors.Join(err, rest)
}

// register takes new events through, or those of dead consumers.
func (s *Service) register(ctx context.Context, now time.Time) (wake time.Time, err error) {
	wake, now, err = s.fetch(ctx, now)
	if err != nil || len(s.todo) == 0 {
		return earlier(wake, s.next), err
	}
	var rest []store.Message
	for len(s.todo) > 0 {
		m := s.todo[0]
		if !concerns(m.Event.Type) {
			rest = append(rest, m)
		} else if err := s.handle(ctx, m); err != nil {
			return now, err
		}
		s.todo = s.todo[1:]
	}
	return now, s.store.Ack(ctx, rest...)
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

// fire publishes what is due.
func (s *Service) fire(ctx context.Context) (now time.Time, fired bool, err error) {
	s.next = time.Time{}
	for _, tenant := range s.store.Shelves(s.opts.Tenants) {
		due, next, at, wrong := s.store.Due(ctx, tenant, s.opts.Batch)
		if wrong == nil {
			_, wrong = s.store.Fire(ctx, tenant, due)
			fired = fired || len(due) > 0 && wrong == nil
		}
		now, err = at, errors.Join(err, wrong)
		s.next = earlier(s.next, next)
	}
	return now, fired, err
}

// fetch reads new events, or claims those of dead consumers. It waits no longer
// than until the next timer is due.
func (s *Service) fetch(ctx context.Context, now time.Time) (wake, read time.Time, err error) {
	if len(s.todo) > 0 {
		return now, now, nil
	}
	s.todo, read, err = s.store.Read(ctx, s.reader, s.opts.Batch, s.patience(now))
	if err != nil || len(s.todo) > 0 {
		return read, read, err
	}
	s.todo, wake, err = s.store.Orphans(ctx, s.reader, s.opts.Lease, s.opts.Batch, read)
	return wake, read, err
}

// patience is how long a read may wait. Less than a millisecond is waited for
// in full ones, since that is what Redis counts in.
func (s *Service) patience(now time.Time) time.Duration {
	if s.opts.Block == 0 {
		return 0
	}
	wait := min(s.opts.Block, s.opts.MaxSleep)
	if !s.next.IsZero() {
		wait = min(wait, s.next.Sub(now))
	}
	return max(wait.Round(time.Millisecond), time.Millisecond)
}

// handle takes one event through. An error is Redis', and the event is to be
// handled again; what is wrong with the event itself is dealt with here.
func (s *Service) handle(ctx context.Context, m store.Message) error {
	t, err := timerOf(m)
	if err != nil {
		return s.reject(ctx, m, err)
	}
	if m.Event.Type == event.TimerCancelled {
		_, err = s.store.Unschedule(ctx, m, t)
	} else {
		_, err = s.store.Schedule(ctx, m, t)
	}
	return err
}

// timerOf reads the timer of an event. Producers may leave out what the event
// itself says, and say for how long instead of until when.
func timerOf(m store.Message) (event.Timer, error) {
	var t event.Timer
	if m.Err != nil {
		return t, m.Err
	}
	if err := json.Unmarshal(m.Event.Data, &t); err != nil {
		return t, fmt.Errorf("read the timer of event %s: %w", m.Event.ID, err)
	}
	t.Tenant = m.Tenant
	if t.Execution == "" {
		t.Execution, t.Workflow = m.Event.Execution, m.Event.Workflow
	}
	if t.TaskID == "" {
		t.TaskID = m.Event.Task
	}
	if t.FireAt.IsZero() {
		if t.DurationMS <= 0 || m.Event.Time.IsZero() {
			return t, fmt.Errorf("the timer of event %s has neither fire_at nor duration_ms", m.Event.ID)
		}
		t.FireAt = m.Event.Time.Add(time.Duration(t.DurationMS) * time.Millisecond)
	}
	return t, nil
}

// reject delivers an event again later, or gives it up and tells the worker.
func (s *Service) reject(ctx context.Context, m store.Message, cause error) error {
	attempt := m.Attempt + 1
	if attempt < s.opts.Attempts {
		_, err := s.store.Retry(ctx, m, time.Duration(attempt)*s.opts.RetryDelay)
		return err
	}
	dead := event.Dead{Reason: cause.Error(), Attempts: attempt, Service: s.opts.Group}
	_, err := s.store.Bury(ctx, m, dead, []event.Event{m.Obituary(event.TimerDead, dead)})
	return err
}
