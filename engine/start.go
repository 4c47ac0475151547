package engine

import (
	"cmp"
	"context"
	"encoding/json"

	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/store"
)

// Beginning is an execution that is to begin, of a registered workflow.
type Beginning struct {
	Tenant, ID      string
	Namespace, Name string
	Version         string // "" or "latest" is the newest when the worker takes it up
	Input           json.RawMessage
	Nonce           string // in the idempotency keys of its calls; derived from the time of the start if empty
}

// Begin starts an execution. No input is {}. What runs it may be another process;
// one of the same id is store.ErrExists.
func Begin(ctx context.Context, st *store.Store, b Beginning) error {
	now, err := st.Now(ctx)
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
