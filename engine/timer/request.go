package timer

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"flunq.io/flunq/engine/delivery"
	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/timers"
)

// read reads events. With wait, it blocks until there are some or the next timer is due, unless another
// service of the process does: then it rests meanwhile.
func (s *Service) read(ctx context.Context, wait bool) (wake time.Time, err error) {
	var block time.Duration
	if wait {
		var rest <-chan struct{}
		if block, rest = s.watch.blockFor(s, s.opts); rest != nil {
			select {
			case <-rest:
			case <-ctx.Done():
			}
			return s.watch.clock(), nil
		}
		if s.opts.alarms(block) {
			defer s.opts.Alarm(block)()
		}
	}
	f, err := s.consumer.Fetch(ctx, s.opts.Batch, block)
	if wait {
		s.idle = f.Events == 0
		s.watch.arrived(s, f.Now)
	}
	s.hold(slices.DeleteFunc(f.Messages, func(m store.Message) bool {
		if m.Event.Type != event.TimerSet {
			return false
		}
		s.watch.invalidate()
		s.consumer.Claim()
		s.consumer.Ignore(m)
		return true
	}))
	switch {
	case f.Now.IsZero():
		return s.watch.clock(), err
	case err != nil || f.Events == 0:
		return event.Earlier(f.Wake, s.watch.upcoming(s)), err
	default:
		return f.Now, nil
	}
}

// set sets and cancels the timers that the held events request. A poison candidate is handled separately.
// After an error, the next step repeats the whole batch.
func (s *Service) set(ctx context.Context) error {
	for len(s.requests) > 0 {
		batch := s.requests
		if n := slices.IndexFunc(batch, delivery.PoisonCandidate); n >= 0 {
			batch = batch[:max(n, 1)]
		}
		if !s.watch.isolation.Enter(batch[0]) {
			return delivery.ErrBusy
		}
		err := s.consumer.Handle(ctx, batch, func() error { return s.apply(ctx, batch) })
		s.watch.isolation.Leave()
		if err != nil {
			return err
		}
		s.hold(s.requests[len(batch):])
	}
	return nil
}

// hold replaces the requests that are held.
func (s *Service) hold(requests []store.Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.requests = requests; len(requests) == 0 {
		s.requests = nil // so that handled ones can be garbage-collected
	}
}

// apply sets and cancels timers, in the order of their events. It returns only errors of Redis, after
// which the same events must be handled again; an invalid event is dead-lettered.
func (s *Service) apply(ctx context.Context, msgs []store.Message) error {
	var requests []timers.Request
	for i := range msgs {
		m := &msgs[i]
		req, err := timers.Request{Message: m, Cancel: m.Event.Type == event.TimerCancelled}, delivery.Poison(*m)
		if err == nil {
			req.Timer, err = timerOf(m)
			err = delivery.As(delivery.Permanent, err)
		}
		if err == nil {
			requests = append(requests, req)
		} else if err := s.consumer.Reject(ctx, *m, err, event.TimerDead); err != nil {
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
	var first time.Time // when the first new timer is due
	for i := range requests {
		if req := &requests[i]; !req.Cancel {
			first = event.Earlier(first, s.watch.reference(req.Tenant, req.Timer.Due()))
		}
	}
	s.watch.recordSet(s.watch.reference(requests[len(requests)-1].Tenant, now), first)
	for i, a := range applied {
		req := &requests[i]
		if a.Err != nil {
			if err := s.consumer.Reject(ctx, *req.Message, a.Err, event.TimerDead); err != nil {
				return err
			}
		} else if a.Mine && s.opts.Observe != nil {
			what, t := delivery.Registered, req.Timer
			if req.Cancel {
				what = delivery.Cancelled
			}
			s.consumer.Report(delivery.Activity{What: what, Message: *req.Message, Timer: &t})
		}
	}
	return nil
}

// timerRequest is a timer as producers write it.
type timerRequest struct {
	event.Timer

	FireAt   string `json:"fire_at"`
	Duration string `json:"duration"`
}

// timerOf reads the timer of an event, in any of the forms that producers write. Producers may omit
// what the event's attributes say, and give a duration instead of a time.
func timerOf(m *store.Message) (event.Timer, error) {
	if m.Err != nil {
		return event.Timer{}, m.Err
	}
	t, usual := event.ScanTimer(string(m.Event.Data))
	if !usual || t.FireAt.IsZero() {
		var a timerRequest
		if err := json.Unmarshal(m.Event.Data, &a); err != nil {
			return a.Timer, fmt.Errorf("read the timer of event %s: %w (want an object with fire_at, duration_ms or duration)", m.Event.ID, err)
		}
		at, err := a.moment(m.Event.Time)
		if err != nil && (m.Event.Type != event.TimerCancelled || !a.Keyed()) { // the key suffices to cancel it
			return a.Timer, fmt.Errorf("the timer of event %s %w", m.Event.ID, err)
		}
		t = a.Timer
		t.FireAt = at
	}
	t.Tenant, t.MovedTo = m.Tenant, time.Time{}
	t.Execution = cmp.Or(t.Execution, m.Event.Execution)
	if t.Execution == m.Event.Execution {
		t.Workflow = cmp.Or(t.Workflow, m.Event.Workflow)
	}
	if t.ForOne() {
		return readInput(m, t)
	}
	t.TaskID, t.Kind = cmp.Or(t.TaskID, m.Event.Task), cmp.Or(t.Kind, event.WaitTimer)
	t.Event, t.Input, t.OnReject, t.ParkedUntil = nil, nil, "", time.Time{}
	if t.Kind == event.DeliveryTimer {
		return t, fmt.Errorf("the timer of event %s is of kind delivery, which only the engine sets: leave kind out", m.Event.ID)
	}
	return t, nil
}

// readInput completes and checks a timer that concerns an execution as a whole. Its key defaults to the
// id of its event.
func readInput(m *store.Message, t event.Timer) (event.Timer, error) {
	t.TaskID, t.TaskName, t.Event, t.ParkedUntil = "", "", nil, time.Time{}
	err := store.CheckIDs(t.Tenant, t.Execution)
	if cancels := m.Event.Type == event.TimerCancelled; err == nil && !cancels {
		var e event.Event
		if e, err = t.ReadInput(); err == nil && t.Key == "" {
			if t.Key = e.ID; e.ID == t.InputID() { // the event has no id of its own
				t.Key = m.Event.ID
			}
		}
		if err == nil {
			_, err = event.ParseRejection(t.OnReject)
		}
	}
	if err == nil {
		err = event.CheckInputKey(t.Key)
	}
	if err != nil {
		return t, fmt.Errorf("the timer of event %s: %w", m.Event.ID, err)
	}
	return t, nil
}

// moment returns when the timer is due if its durations count from since.
func (r timerRequest) moment(since time.Time) (time.Time, error) {
	switch {
	case r.FireAt != "":
		at, err := time.Parse(time.RFC3339Nano, r.FireAt)
		if err != nil {
			return at, fmt.Errorf("has fire_at %q, want RFC 3339 such as 2026-01-31T12:00:00.5Z or …+01:00", r.FireAt)
		}
		return at.UTC(), nil
	case r.DurationMS > 0:
		const day = int64(24 * time.Hour / time.Millisecond)
		d := dsl.Duration{Days: r.DurationMS / day, Clock: time.Duration(r.DurationMS%day) * time.Millisecond}
		return d.From(since), nil
	case r.Duration != "":
		d, err := dsl.ParseDuration(r.Duration)
		if err != nil {
			return since, fmt.Errorf("has duration %q, want ISO 8601 such as PT2S, or 30m45s: %w", r.Duration, err)
		}
		return d.From(since), nil
	default:
		return since, errors.New("has neither fire_at (RFC 3339) nor duration_ms (above 0) nor duration (PT2S, 30m45s)")
	}
}
