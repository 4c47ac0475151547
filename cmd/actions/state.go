package actions

import (
	"context"
	"errors"
	"slices"
	"strconv"

	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/history"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/registry"
)

// childrenAtOnce is how many children are read in one request.
const childrenAtOnce = 50

// Children returns the child executions in the order of their numbered ids. It may return
// slightly more than limit.
func Children(ctx context.Context, st *store.Store, x store.Execution, limit int) ([]store.Execution, error) {
	var out []store.Execution
	for len(out) < limit {
		ids := make([]string, childrenAtOnce)
		for i := range ids {
			ids[i] = x.ID + "." + strconv.Itoa(len(out)+i+1)
		}
		found, err := st.Outlines(ctx, x.Tenant, ids...)
		if err != nil {
			return nil, err
		}
		if missing := slices.IndexFunc(found, func(child store.Execution) bool { return child.Status == "" }); missing >= 0 {
			return append(out, found[:missing]...), nil
		}
		out = append(out, found...)
	}
	return out, nil
}

// IDs returns the ids of executions.
func IDs(executions []store.Execution) []string {
	ids := make([]string, len(executions))
	for i, x := range executions {
		ids[i] = x.ID
	}
	return ids
}

// DocumentText returns the document that an execution runs, "" if it is unknown.
func DocumentText(ctx context.Context, st *store.Store, x store.Execution) (string, error) {
	if x.Definition == "" {
		return "", nil
	}
	text, err := registry.New(st).DefinitionByHash(ctx, x.Tenant, x.Workflow, x.Definition)
	if errors.Is(err, store.ErrNotFound) {
		return "", nil
	}
	return text, err
}

// Started returns what an execution began with, nil if its history does not say.
func Started(ctx context.Context, st *store.Store, tenant, id string) (*event.Started, error) {
	first, err := st.History(ctx, tenant, id, 0, 1)
	started := new(event.Started)
	if err != nil || len(first) == 0 || first[0].Type != event.ExecutionStarted || decide.DecodeData(first[0], started) != nil {
		return nil, err
	}
	return started, nil
}

// Listening says how many executions listen.
func Listening(n int) string {
	if n == 1 {
		return "1 execution listens"
	}
	return history.Count(n, "execution") + " listen"
}
