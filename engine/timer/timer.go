// Package timer is the service that registers what is scheduled, and fires what
// is due: never early, never lost.
package timer

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"flunq.io/flunq/engine/delivery"
	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/store"
)

// Service is one timer service. Several may run side by side, in one process or many.
type Service struct {
	desk  *delivery.Desk
	store *store.Store
	opts  Options
	next  time.Time // when the next timer is due, as far as is known
}

// Options of a Service.
type Options struct {
	delivery.Options

	Fires     int           // timers fired at once; 1 to 1000
	MaxSleep  time.Duration // longest wait between two looks at the timers
	Lookahead time.Duration // a wait ends so long before a timer is due, for a short one that ends just then

	// Alarm, if set, sees to it that Redis does something after a time, unless it
	// is stopped before: an idle Redis ends a read that waits up to 100 ms late.
	Alarm func(time.Duration) (stop func())
}

// Defaults are the options of an ordinary deployment.
func Defaults() Options {
	return Options{
		Options: delivery.Defaults("timer", store.TimerGroup),
		Fires:   100, MaxSleep: time.Second, Lookahead: 100 * time.Millisecond,
	}
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
	desk, err := delivery.NewDesk(st, opts.Options)
	if err := errors.Join(err, opts.check()); err != nil {
		return nil, err
	}
	return &Service{desk: desk, store: st, opts: opts}, nil
}

// Held are the messages that were read and not handled yet.
func (s *Service) Held() []store.Message { return s.desk.Held() }

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

// register takes new events through, or those of dead consumers. It waits for
// them no longer than until the next timer is due.
func (s *Service) register(ctx context.Context, now time.Time) (wake time.Time, err error) {
	if s.desk.Empty() {
		now, wake, err = s.await(ctx, s.patience(now))
		if err != nil || s.desk.Empty() {
			return earlier(wake, s.next), err
		}
	}
	return now, s.desk.Work(ctx, concerns, s.handle)
}

// await waits for events, and is back in time where the wait is for a timer.
func (s *Service) await(ctx context.Context, patience time.Duration) (now, wake time.Time, err error) {
	if s.opts.Alarm != nil && !s.next.IsZero() && patience <= s.opts.Lookahead {
		defer s.opts.Alarm(patience)()
	}
	return s.desk.Fill(ctx, patience)
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
	for _, tenant := range s.store.Shelves(s.opts.Tenants.Names()) {
		due, next, at, wrong := s.store.Due(ctx, tenant, s.opts.Fires)
		if wrong == nil && len(due) > 0 {
			wrong = s.publish(ctx, tenant, due, at)
			fired = fired || wrong == nil
		}
		if wrong != nil {
			s.desk.Tell(delivery.Activity{What: delivery.Unfired, Err: wrong})
		}
		now, err = at, errors.Join(err, wrong)
		s.next = earlier(s.next, next)
	}
	return now, fired, err
}

// publish fires timers, and takes up the tenants that they are of.
func (s *Service) publish(ctx context.Context, tenant string, due []store.Due, now time.Time) error {
	s.desk.Tell(delivery.Activity{What: delivery.Firing, At: now})
	fired, err := s.store.Fire(ctx, tenant, due)
	if err != nil || fired < len(due) {
		return err // somebody else was faster with some of them: it is not known with which
	}
	for _, d := range due {
		if d.Err == nil {
			s.opts.Tenants.Add(d.Tenant)
			s.desk.Tell(delivery.Activity{What: delivery.Fired, Timer: &d.Timer, At: now})
		}
	}
	return nil
}

// patience is how long a read may wait. Less than a millisecond is waited for
// in full ones, since that is what Redis counts in.
func (s *Service) patience(now time.Time) time.Duration {
	if s.opts.Block == 0 {
		return 0
	}
	wait := min(s.opts.Block, s.opts.MaxSleep)
	if !s.next.IsZero() {
		left := s.next.Sub(now)
		if left > s.opts.Lookahead {
			left -= s.opts.Lookahead
		}
		wait = min(wait, left)
	}
	return max(wait.Round(time.Millisecond), time.Millisecond)
}

// handle takes one event through. An error is Redis', and the event is to be
// handled again; what is wrong with the event itself is dealt with here.
func (s *Service) handle(ctx context.Context, m store.Message) error {
	err := delivery.Poison(m)
	var t event.Timer
	if err == nil {
		t, err = timerOf(m)
		err = delivery.As(delivery.Permanent, err)
	}
	if err == nil {
		err = s.set(ctx, m, t)
	}
	if err == nil {
		return nil
	}
	return s.desk.Reject(ctx, m, err, event.TimerDead)
}

// set registers a timer, or takes it back.
func (s *Service) set(ctx context.Context, m store.Message, t event.Timer) (err error) {
	what := delivery.Registered
	if m.Event.Type == event.TimerCancelled {
		what = delivery.Cancelled
		_, err = s.store.Unschedule(ctx, m, t)
	} else {
		_, err = s.store.Schedule(ctx, m, t)
	}
	if err == nil {
		s.desk.Tell(delivery.Activity{What: what, Message: m, Timer: &t})
	}
	return err
}

// asked is a timer as producers write it.
type asked struct {
	event.Timer

	FireAt   string `json:"fire_at"`
	Duration string `json:"duration"`
}

// timerOf reads the timer of an event. Producers may leave out what the event
// itself says, and say for how long instead of until when.
func timerOf(m store.Message) (event.Timer, error) {
	if m.Err != nil {
		return event.Timer{}, m.Err
	}
	var a asked
	if err := json.Unmarshal(m.Event.Data, &a); err != nil {
		return a.Timer, fmt.Errorf("read the timer of event %s: %w (want an object with fire_at, duration_ms or duration)", m.Event.ID, err)
	}
	t := a.Timer
	t.Tenant, t.Event, t.MovedTo = m.Tenant, nil, time.Time{}
	t.Execution = cmp.Or(t.Execution, m.Event.Execution)
	if t.Execution == m.Event.Execution {
		t.Workflow = cmp.Or(t.Workflow, m.Event.Workflow)
	}
	t.TaskID = cmp.Or(t.TaskID, m.Event.Task)
	t.Kind = cmp.Or(t.Kind, event.WaitTimer)
	if t.Kind == event.DeliveryTimer {
		return t, fmt.Errorf("the timer of event %s is of kind delivery, which only the engine sets: leave kind out", m.Event.ID)
	}
	at, err := a.moment(cmp.Or(m.Event.Time, m.Read))
	if err != nil && m.Event.Type == event.TimerCancelled && t.Keyed() {
		err = nil // the key says enough
	}
	if err != nil {
		return t, fmt.Errorf("the timer of event %s %w", m.Event.ID, err)
	}
	t.FireAt = at
	return t, nil
}

// moment is when the timer is due, if its durations count from since.
func (a asked) moment(since time.Time) (time.Time, error) {
	switch {
	case a.FireAt != "":
		at, err := time.Parse(time.RFC3339Nano, a.FireAt)
		if err != nil {
			return at, fmt.Errorf("has fire_at %q, want RFC 3339 such as 2026-01-31T12:00:00.5Z or …+01:00", a.FireAt)
		}
		return at.UTC(), nil
	case a.DurationMS > 0:
		const day = int64(24 * time.Hour / time.Millisecond)
		d := dsl.Duration{Days: a.DurationMS / day, Clock: time.Duration(a.DurationMS%day) * time.Millisecond}
		return d.From(since), nil
	case a.Duration != "":
		d, err := dsl.ParseDuration(a.Duration)
		if err != nil {
			return since, fmt.Errorf("has duration %q, want ISO 8601 such as PT2S, or 30m45s: %w", a.Duration, err)
		}
		return d.From(since), nil
	default:
		return since, errors.New("has neither fire_at (RFC 3339) nor duration_ms (above 0) nor duration (PT2S, 30m45s)")
	}
}
