package timer

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/store"
)

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
