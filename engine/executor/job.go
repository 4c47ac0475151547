package executor

import (
	"context"
	"time"

	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/store"
)

// job is a request in the hands of an executor.
type job struct {
	message store.Message
	light   bool // the task only computes

	result *event.Completed // what it came to, once it has been done …
	reply  *event.Event     // … and the report of it
	err    error            // why that could not be sent

	room *reservation // of the memory for answers, until that has been sent

	cancel context.CancelCauseFunc
	lost   bool // it is to end early, as the request is another's …
	undone bool // … and so it has …
	again  *job // … though the request is ours again: what is to be done for it
}

// Source is the source of an executor's events.
const Source = decide.Prefix + "executor"

// report makes the reply to a request whose task was done by some time.
func (j *job) report(now time.Time) {
	m := &j.message
	j.result.DurationMS = now.Sub(m.Read).Milliseconds()
	j.reply = &event.Event{
		ID: m.Event.ID + "/done", Source: Source, Type: event.TaskCompleted, Time: now,
		Tenant: m.Tenant, Workflow: m.Event.Workflow, Execution: m.Event.Execution, Task: m.Event.Task,
		Data: completed(j.result),
	}
}

// address names a message: its stream, and where it stands there.
type address struct{ tenant, id string }

func addressOf(m *store.Message) address { return address{m.Tenant, m.ID} }
