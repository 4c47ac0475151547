package actions

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base32"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/definitions"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/examine"
	"flunq.io/flunq/engine/history"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/inspect"
)

// Resetter creates new executions from the beginnings of others' histories.
type Resetter struct {
	Store       *store.Store
	Definitions *definitions.Cache
	Version     string // of the new execution's document; "": that of the other execution
	By, Reason  string // recorded in the new history
	Cancel      bool   // cancel the other execution in the same step
	Dry         bool   // change nothing
}

// ResetResult describes what a reset does.
type ResetResult struct {
	ID        string       `json:"id,omitempty"`
	From      string       `json:"from"`
	Task      string       `json:"task"`
	Events    int          `json:"events"`              // of the new history
	Kept      int          `json:"kept"`                // results of tasks that are kept
	Requests  []string     `json:"requests"`            // tasks that are requested
	Children  []string     `json:"children,omitempty"`  // executions that are started
	Timers    []ResetTimer `json:"timers,omitempty"`    // timers that are set
	Listens   []string     `json:"listens,omitempty"`   // event types
	Cancelled bool         `json:"cancelled,omitempty"` // the other execution is asked to cancel
	Done      bool         `json:"done"`                // false for a dry run
}

// longestReset is the maximum number of events that a new history may begin with: Redis serves no
// other client while it writes them, about 25 ms for 1,000.
const longestReset = 20_000

// ResetTimer is a timer of the new execution.
type ResetTimer struct {
	Task string          `json:"task,omitempty"` // "" for the workflow's
	Kind event.TimerKind `json:"kind"`
	Due  time.Time       `json:"due"`
}

// Reset creates execution id from x; it continues with the given run of a task. If id is empty, it
// is derived, so repeating a reset yields the same id. The error is store.ErrExists if the id
// is in use.
func (m *Resetter) Reset(ctx context.Context, x store.Execution, task, id string) (out ResetResult, err error) {
	env, hash, err := m.document(ctx, x)
	if err != nil {
		return out, err
	}
	id = cmp.Or(id, derivedID(x.ID, task, hash))
	out.ID = id
	switch _, err := m.Store.Execution(ctx, x.Tenant, id); {
	case err == nil:
		return out, fmt.Errorf("execution %s: %w", id, store.ErrExists)
	case !errors.Is(err, store.ErrNotFound):
		return out, err
	}
	now, err := m.Store.NowOf(ctx, x.Tenant)
	if err != nil {
		return out, err
	}
	r := &decide.Reset{Env: env, Execution: id, Task: task, Now: now, By: m.By, Reason: m.Reason}
	done := false
	err = m.Store.EachPage(ctx, x, 0, func(events []event.Event) error {
		for _, e := range events {
			if done {
				return nil
			}
			if done, err = r.Add(e); err != nil {
				return err
			}
		}
		return nil
	})
	if _, diverges := errors.AsType[*decide.Divergence](err); diverges && m.Version != "" {
		return out, fmt.Errorf("the history of execution %s before the task does not follow from version %s: %w", x.ID, m.Version, err)
	} else if diverges {
		return out, fmt.Errorf("rebuild execution %s: %w; if the document uses secrets, give --secrets", x.ID, err)
	}
	if err != nil {
		return out, fmt.Errorf("reset execution %s: %w", x.ID, err)
	}
	if !done {
		return out, fmt.Errorf("execution %s has not begun task %s", x.ID, task)
	}
	if len(r.History) > longestReset {
		return out, fmt.Errorf("reset execution %s: the new history would begin with %s events, and more than %s cannot be written in one step",
			x.ID, history.Number(len(r.History)), history.Number(longestReset))
	}
	out = resultOf(r, x)
	out.Cancelled = m.Cancel && !examine.Ended(x.Status)
	if m.Dry {
		return out, nil
	}
	err = m.commit(ctx, x, hash, r, &out)
	return out, err
}

// derivedID returns the default id of the execution that a reset creates.
func derivedID(execution, task, hash string) string {
	sum := sha256.Sum256([]byte(execution + "\n" + task + "\n" + hash))
	suffix := "reset-" + strings.ToLower(base32.StdEncoding.EncodeToString(sum[:10]))
	if id := execution + "-" + suffix; store.CheckExecution(id) == nil {
		return id
	}
	return suffix
}

// document returns the new execution's document, and its hash.
func (m *Resetter) document(ctx context.Context, x store.Execution) (*decide.Env, string, error) {
	if m.Version != "" {
		return m.Definitions.Version(ctx, x.Tenant, x.Workflow, m.Version)
	}
	env, err := m.Definitions.Hash(ctx, x.Tenant, x.Workflow, x.Definition)
	return env, x.Definition, err
}

// resultOf describes what a reset does.
func resultOf(r *decide.Reset, x store.Execution) ResetResult {
	out := ResetResult{ID: r.Execution, From: x.ID, Task: r.Task, Events: len(r.History), Listens: r.Listen}
	for _, e := range r.History {
		var c event.Completed
		if e.Type == event.TaskCompleted && decide.DecodeData(e, &c) == nil && c.Status == "" {
			out.Kept++
		}
	}
	for _, e := range r.Publish {
		switch e.Type {
		case event.TaskRequested, event.TaskCompleted:
			if e.Task != "" {
				out.Requests = append(out.Requests, e.Task)
			}
		case event.ExecutionStarted:
			out.Children = append(out.Children, e.Execution)
		case event.TimerScheduled:
			var t event.Timer
			if decide.DecodeData(e, &t) == nil {
				out.Timers = append(out.Timers, ResetTimer{Task: t.TaskID, Kind: t.Kind, Due: t.Due()})
			}
		default:
		}
	}
	return out
}

// lifecycle returns the lifecycle events of the new history, if a bridge reads the tenant's stream;
// a bridge that does not publish them skips them.
func (m *Resetter) lifecycle(ctx context.Context, tenant string, r *decide.Reset) (out []event.Event, err error) {
	streams, err := inspect.New(m.Store).Streams(ctx, []string{tenant})
	if err != nil || !slices.ContainsFunc(streams[0].Groups, func(g inspect.Group) bool { return strings.HasPrefix(g.Name, store.BridgePrefix) }) {
		return nil, err
	}
	l := history.Lifecycle{Version: r.Env.Definition().Document.Version}
	for i, e := range r.History {
		out = append(out, l.Add(int64(i)+1, e)...)
	}
	return out, nil
}

// commit writes the new execution, and asks the other one to cancel, in one step.
func (m *Resetter) commit(ctx context.Context, x store.Execution, hash string, r *decide.Reset, out *ResetResult) error {
	publish, err := m.lifecycle(ctx, x.Tenant, r)
	if err != nil {
		return err
	}
	publish = append(publish, r.Publish...)
	for i := range publish {
		if publish[i].Type == event.TaskRequested {
			publish[i].Ext = map[string]string{event.DefinitionAttribute: hash}
		}
	}
	if out.Cancelled {
		reason := "reset to " + r.Task + " as " + r.Execution
		if m.Reason != "" {
			reason += ": " + m.Reason
		}
		publish = append(publish, Signals()["cancel"].Event(x, reason, m.By, r.Now))
	}
	snapshot, err := r.State.Snapshot()
	if err != nil {
		return err
	}
	outcome, err := m.Store.Commit(ctx, store.Commit{
		Tenant: x.Tenant, Execution: r.Execution, Workflow: x.Workflow, Definition: hash,
		History: r.History, Publish: publish, Listen: r.Listen,
		Status: string(r.State.Status), Snapshot: snapshot, Now: r.Now,
	})
	if err == nil && outcome != store.Committed {
		err = fmt.Errorf("execution %s: %w", r.Execution, store.ErrExists)
	}
	out.Done = err == nil
	return err
}
