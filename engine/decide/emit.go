package decide

import (
	"fmt"
	"slices"
	"time"

	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/expr/canonical"
)

// emit publishes the event of an emit task to the tenant's stream, or the request to set or
// cancel the timer of an input.
func (m *machine) emit(output any) error {
	envelope, ok := output.(map[string]any)
	if !ok {
		return event.NewProblem(event.Runtime, "the emitted event is no object")
	}
	e := eventOf(envelope)
	e.Tenant, e.Workflow, e.Execution = m.Tenant, m.Workflow, m.Execution
	if e.Time.IsZero() {
		e.Time = m.Now
	}
	for _, name := range event.OwnAttributes() { // a document must not set what the engine itself says of a message, such as its attempts
		delete(e.Ext, name)
	}
	in, err := inputTimer(envelope, m.Now)
	if err != nil {
		return err
	}
	if in != nil {
		e = inputRequest(e, in, m.Now)
	}
	m.d.Publish = append(m.d.Publish, e)
	return nil
}

// inputTimer returns the timer that the event attributes of an emit task ask for, or nil if they
// ask for none. It sets neither the timer's event, nor its execution unless the attributes name one.
func inputTimer(envelope map[string]any, now time.Time) (*event.Timer, error) {
	if !slices.ContainsFunc(event.InputAttributes(), func(name string) bool { return envelope[name] != nil }) {
		return nil, nil
	}
	text := func(name string) string {
		if envelope[name] == nil {
			return ""
		}
		return canonical.Text(envelope[name])
	}
	t := &event.Timer{Kind: event.InputTimer, Execution: text(event.InputExecutionAttribute), OnReject: text(event.InputRejectAttribute)}
	if envelope[event.InputCancelAttribute] != nil {
		t.Key = text(event.InputCancelAttribute)
		for _, name := range []string{event.InputAfterAttribute, event.InputAtAttribute, event.InputKeyAttribute, event.InputRejectAttribute} {
			if envelope[name] != nil {
				return nil, event.NewProblem(event.Configuration, "the event has the attributes "+event.InputCancelAttribute+" and "+name+": cancelling an input sends none")
			}
		}
		if err := event.CheckInputKey(t.Key); err != nil {
			return nil, badAttribute(event.InputCancelAttribute, err)
		}
		return t, nil
	}
	if t.Key = text(event.InputKeyAttribute); envelope[event.InputKeyAttribute] == nil {
		t.Key = text("id")
	} else if err := event.CheckInputKey(t.Key); err != nil {
		return nil, badAttribute(event.InputKeyAttribute, err)
	}
	if _, _, err := dsl.ParseRejection(t.OnReject); err != nil {
		return nil, badAttribute(event.InputRejectAttribute, err)
	}
	due, err := inputDue(envelope, now)
	if err != nil {
		return nil, err
	}
	// Inputs with the same key get increasing due times, even those due immediately.
	if t.FireAt = now.Add(time.Microsecond); due.After(t.FireAt) {
		t.FireAt = due
	}
	t.DurationMS = t.FireAt.Sub(now).Milliseconds() // 0 if it is due immediately
	return t, nil
}

// inputDue returns the time that an input's attributes give, by default now.
func inputDue(envelope map[string]any, now time.Time) (time.Time, error) {
	after, at := envelope[event.InputAfterAttribute], envelope[event.InputAtAttribute]
	switch {
	case after != nil && at != nil:
		return now, event.NewProblem(event.Configuration, "the event has both attributes "+event.InputAfterAttribute+" and "+event.InputAtAttribute+", want one")
	case after != nil:
		d, err := dsl.ParseDuration(after)
		if err != nil {
			return now, badAttribute(event.InputAfterAttribute, err)
		}
		return d.From(now), nil
	case at != nil:
		instant, err := time.Parse(time.RFC3339Nano, canonical.Text(at))
		if err != nil {
			return now, badAttribute(event.InputAtAttribute, fmt.Errorf("%q, want a time such as 2026-01-31T08:00:00Z", canonical.Text(at)))
		}
		return instant.UTC(), nil
	default:
		return now, nil
	}
}

func badAttribute(name string, err error) error {
	return event.NewProblem(event.Expression, fmt.Sprintf("the attribute %s of the event: %v", name, err))
}

// inputRequest returns the event that asks the timer service for the input e, or to cancel one.
// Its execution is that of e, unless the timer names another.
func inputRequest(e event.Event, t *event.Timer, now time.Time) event.Event {
	typ, what := event.TimerScheduled, "/input"
	tenant, workflow, execution := e.Tenant, e.Workflow, e.Execution
	if e.Ext[event.InputCancelAttribute] != "" {
		typ, what = event.TimerCancelled, "/cancel"
	} else {
		t.Input = event.EncodeInput(e.WithoutAddress())
	}
	t.Tenant = tenant
	if t.Execution == "" || t.Execution == execution {
		t.Execution, t.Workflow = execution, workflow
	}
	return event.Event{
		ID: e.ID + what, Source: Source, Type: typ, Time: now,
		Tenant: tenant, Workflow: t.Workflow, Execution: t.Execution, Data: event.Encode(t),
	}
}

// InputRequest returns the event that asks the timer service for an input, as an emit task does,
// if the attributes of e ask for one; otherwise it returns e. An input that names no execution is
// for the given one.
func InputRequest(e event.Event, execution string, now time.Time) (event.Event, error) {
	if !e.Addressed() {
		return e, nil
	}
	envelope := map[string]any{"id": e.ID}
	for name, value := range e.Ext {
		envelope[name] = value
	}
	t, err := inputTimer(envelope, now)
	if err != nil {
		return e, err
	}
	e.Execution = execution
	request := inputRequest(e, t, now)
	request.ID = request.Execution + "/" + request.ID
	return request, nil
}
