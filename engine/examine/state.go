package examine

import (
	"context"

	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/definitions"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/store"
)

// State rebuilds the state of an execution from its snapshot and the history after it.
func State(ctx context.Context, st *store.Store, defs *definitions.Cache, x store.Execution) (*decide.State, error) {
	env, err := defs.Hash(ctx, x.Tenant, x.Workflow, x.Definition)
	if err != nil {
		return nil, err
	}
	state, err := decide.Restore(env, x.Snapshot)
	if err != nil {
		return nil, err
	}
	err = st.EachPage(ctx, x, state.Version, func(events []event.Event) error { return state.Replay(env, events) })
	return state, err
}

// Ended reports whether an execution with this status has ended.
func Ended(status string) bool {
	return decide.Status(status).Ended()
}
