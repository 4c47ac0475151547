package actions

import (
	"context"
	"encoding/json"
	"fmt"
	"io"

	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/sim/recording"
)

// MaxChildren is the maximum number of child executions to read.
const MaxChildren = 1000

// Recorder writes recordings of executions.
type Recorder struct {
	Store   *store.Store
	Version string // of flunq
	Out     io.Writer
}

// Begin begins the recording of an execution. It needs the first event of the history.
func (r Recorder) Begin(ctx context.Context, x store.Execution, first []event.Event) (*recording.Export, error) {
	if len(first) == 0 {
		return nil, fmt.Errorf("execution %s has not begun: there is nothing to record", x.ID)
	}
	var started event.Started
	if err := decide.DecodeData(first[0], &started); err != nil {
		return nil, err
	}
	def, err := definition(ctx, r.Store, x)
	if err != nil {
		return nil, err
	}
	if def == nil {
		return nil, fmt.Errorf("the document of execution %s is unknown: it cannot be recorded (-o json has its events)", x.ID)
	}
	with, err := childDocuments(ctx, r.Store, x, map[string]bool{x.Definition: true})
	if err != nil {
		return nil, err
	}
	return recording.NewExport(r.Out, recording.Exported{
		Version: r.Version, Definition: def, With: with, Input: started.Input,
		ID: x.ID, Tenant: x.Tenant, Start: first[0].Time,
		Document: func(hash string) (*dsl.Definition, error) {
			before := x
			before.Definition = hash
			return definition(ctx, r.Store, before)
		},
	}), nil
}

// childDocuments returns the documents of an execution's descendants so far, except those in seen.
func childDocuments(ctx context.Context, st *store.Store, x store.Execution, seen map[string]bool) ([]*dsl.Definition, error) {
	children, err := Children(ctx, st, x, MaxChildren)
	if err != nil {
		return nil, err
	}
	var out []*dsl.Definition
	for _, child := range children {
		if !seen[child.Definition] {
			seen[child.Definition] = true
			def, err := definition(ctx, st, child)
			if err != nil {
				return nil, err
			}
			if def != nil {
				out = append(out, def)
			}
		}
		more, err := childDocuments(ctx, st, child, seen)
		if err != nil {
			return nil, err
		}
		out = append(out, more...)
	}
	return out, nil
}

// definition returns the definition that an execution runs; nil if it is unknown or unreadable.
func definition(ctx context.Context, st *store.Store, x store.Execution) (*dsl.Definition, error) {
	text, err := DocumentText(ctx, st, x)
	if err != nil || text == "" {
		return nil, err
	}
	def, _, err := dsl.Parse(x.Workflow, []byte(text))
	if err != nil {
		return nil, nil //nolint:nilerr // written by another version of flunq
	}
	return def, nil
}

// Problem returns the error that ended an execution, nil if there is none.
func Problem(x store.Execution) (*event.Problem, error) {
	if len(x.Error) == 0 {
		return nil, nil // no error
	}
	p := new(event.Problem)
	if err := json.Unmarshal(x.Error, p); err != nil {
		return nil, fmt.Errorf("read the error of execution %s: %w", x.ID, err)
	}
	return p, nil
}
