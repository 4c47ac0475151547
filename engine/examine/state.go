package examine

import (
	"context"
	"fmt"

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
	err = EachPage(ctx, st, x, state.Version, func(events []event.Event) error { return state.Replay(env, events) })
	return state, err
}

// HistoryPage is the number of history entries per read.
const HistoryPage = 1000

// EachPage calls take with the history of an execution after a version, up to x.Version, in
// batches. The error is a *HistoryError if entries are missing.
func EachPage(ctx context.Context, st *store.Store, x store.Execution, after int64, take func([]event.Event) error) error {
	for after < x.Version {
		events, err := st.History(ctx, x.Tenant, x.ID, after, int(min(HistoryPage, x.Version-after)))
		if err != nil {
			return err
		}
		if len(events) == 0 {
			return &HistoryError{Execution: x.ID, Have: after, Want: x.Version}
		}
		if err := take(events); err != nil {
			return err
		}
		after += int64(len(events))
	}
	return nil
}

// HistoryError reports a history whose last entries are missing.
type HistoryError struct {
	Execution  string
	Have, Want int64 // versions
}

func (e *HistoryError) Error() string {
	return fmt.Sprintf("history of execution %s ends at version %d, want %d", e.Execution, e.Have, e.Want)
}

// Ended reports whether an execution with this status has ended.
func Ended(status string) bool {
	return status == "completed" || status == "faulted" || status == "cancelled"
}
