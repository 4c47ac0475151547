package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"time"

	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/timers"
)

// StartRequest describes an execution of a registered workflow to start.
type StartRequest struct {
	Tenant, ID      string
	Namespace, Name string
	Version         string // "" or "latest": the newest version when a worker starts the execution
	Input           json.RawMessage
	Nonce           string // part of its calls' idempotency keys; "": derived from the start time
	Labels          event.Labels
	Trace           map[string]string // the sender's trace context, see event.TraceAttributes
	Now             time.Time         // zero: StartExecution asks Redis for the time
}

// ScheduleStart sets a timer that starts an execution at a time. The key identifies it among the
// inputs of the execution: ScheduleStart moves an earlier timer with the same key and reports
// that it did. The error is store.ErrExists if the id is in use.
func ScheduleStart(ctx context.Context, st *store.Store, r StartRequest, at time.Time, key string) (t event.Timer, moved bool, err error) {
	now, err := st.NowOf(ctx, r.Tenant)
	if err != nil {
		return t, false, err
	}
	e := startEvent(r, time.Time{})
	t = event.Timer{
		Tenant: r.Tenant, Workflow: e.Workflow, Execution: r.ID, FireAt: at.UTC(), DurationMS: max(at.Sub(now).Milliseconds(), 0),
		Kind: event.StartTimer, Key: key, Input: event.EncodeInput(e),
	}
	moved, err = timers.New(st).SetInput(ctx, t, now)
	return t, moved, err
}

// Start starts an execution of the workflow that def defines, see StartExecution.
func (e *Engine) Start(ctx context.Context, def *dsl.Definition, r StartRequest) error {
	doc := def.Document
	r.Namespace, r.Name, r.Version = doc.Namespace, doc.Name, doc.Version
	return StartExecution(ctx, e.Store, r)
}

// StartExecution starts an execution, which any process may run. A nil input means {}. The error
// is store.ErrExists if the id is in use.
func StartExecution(ctx context.Context, st *store.Store, r StartRequest) error {
	if r.Now.IsZero() {
		now, err := st.NowOf(ctx, r.Tenant)
		if err != nil {
			return err
		}
		r.Now = now
	}
	return st.Start(ctx, startEvent(r, r.Now))
}

// startEvent returns the event that starts an execution.
func startEvent(r StartRequest, now time.Time) event.Event {
	input := r.Input
	if len(input) == 0 {
		input = json.RawMessage("{}")
	}
	data := event.Encode(event.Started{
		Namespace: r.Namespace, Name: r.Name, Version: cmp.Or(r.Version, "latest"), Input: input, Nonce: r.Nonce, Labels: r.Labels,
	})
	return event.Event{
		ID: r.ID + "/start", Source: decide.Prefix + "cli", Type: event.ExecutionStarted, Time: now,
		Tenant: r.Tenant, Workflow: r.Namespace + "." + r.Name, Execution: r.ID, Data: data, Ext: r.Trace,
	}
}
