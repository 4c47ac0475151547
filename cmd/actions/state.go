package actions

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"time"

	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/store"
)

// childrenAtOnce is how many children are looked up at once.
const childrenAtOnce = 50

// Children returns the child executions in the order of their numbered ids. It may return
// slightly more than most.
func Children(ctx context.Context, st *store.Store, x store.Execution, most int) ([]store.Execution, error) {
	var out []store.Execution
	for len(out) < most {
		ids := make([]string, childrenAtOnce)
		for i := range ids {
			ids[i] = x.ID + "." + strconv.Itoa(len(out)+i+1)
		}
		found, err := st.Outlines(ctx, x.Tenant, ids...)
		if err != nil {
			return nil, err
		}
		known := slices.IndexFunc(found, func(child store.Execution) bool { return child.Status == "" })
		if known >= 0 {
			return append(out, found[:known]...), nil
		}
		out = append(out, found...)
	}
	return out, nil
}

// OpenTask is a task that has begun but not ended.
type OpenTask struct {
	Task, Name, Type   string
	Since              time.Time
	Iteration, Attempt string
}

// Trail tracks what a history leaves open: tasks, timers and child executions.
type Trail struct {
	decide.Leftovers

	Tasks []OpenTask
}

// Take processes the next events of the history.
func (t *Trail) Take(events []event.Event) error {
	t.Add(events)
	for _, e := range events {
		switch e.Type {
		case event.TaskRequested:
			var asked event.Requested
			if json.Unmarshal(e.Data, &asked) == nil {
				run := event.ParseRun(e.Task)
				t.Tasks = append(t.Tasks, OpenTask{
					Task: e.Task, Name: asked.TaskName, Type: asked.TaskType, Since: e.Time,
					Iteration: run.Iteration, Attempt: run.Attempt,
				})
			}
		case event.TaskCompleted:
			t.Tasks = slices.DeleteFunc(t.Tasks, func(open OpenTask) bool { return open.Task == e.Task })
		default:
		}
	}
	return nil
}
