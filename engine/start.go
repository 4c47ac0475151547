package engine

import (
	"cmp"
	"context"
	"encoding/json"

	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/store"
)

// StartRequest describes an execution of a registered workflow to start.
type StartRequest struct {
	Tenant, ID      string
	Namespace, Name string
	Version         string // "" or "latest": the newest one when a worker starts the execution
	Input           json.RawMessage
	Nonce           string // part of its calls' idempotency keys; "": derived from the time of the start
}

// StartExecution starts an execution; any process may run it. A nil input means {}. The error is
// store.ErrExists if the id is in use.
func StartExecution(ctx context.Context, st *store.Store, b StartRequest) error {
	now, err := st.NowOf(ctx, b.Tenant)
	if err != nil {
		return err
	}
	input := b.Input
	if len(input) == 0 {
		input = json.RawMessage("{}")
	}
	data := event.Encode(event.Started{
		Namespace: b.Namespace, Name: b.Name, Version: cmp.Or(b.Version, "latest"), Input: input, Nonce: b.Nonce,
	})
	return st.Start(ctx, event.Event{
		ID: b.ID + "/start", Source: decide.Prefix + "cli", Type: event.ExecutionStarted, Time: now,
		Tenant: b.Tenant, Workflow: b.Namespace + "." + b.Name, Execution: b.ID, Data: data,
	})
}
