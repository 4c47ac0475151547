package executor

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/executor/call"
	"flunq.io/flunq/engine/store"
)

// job is a request that an executor has read.
type job struct {
	message  store.Message
	computes bool // the task needs nothing from outside

	result *event.Completed // once the task is done
	reply  *event.Event     // the event that reports the result
	err    error            // why the reply could not be sent

	reserved *call.Reservation // memory for the response, until the reply is sent

	cancel      context.CancelCauseFunc
	lost        bool // another executor has the request: end early
	unfinished  bool // the request was lost before the task was done
	redelivered *job // the same request, delivered to this process again
}

// Source is the source attribute of an executor's events.
const Source = decide.Prefix + "executor"

// report makes the reply to a request whose task ended at now.
func (j *job) report(now time.Time) {
	m := &j.message
	j.result.DurationMS = now.Sub(m.Read).Milliseconds()
	j.reply = &event.Event{
		ID: m.Event.ID + "/done", Source: Source, Type: event.TaskCompleted, Time: now,
		Tenant: m.Tenant, Workflow: m.Event.Workflow, Execution: m.Event.Execution, Task: m.Event.Task,
		Data: completed(j.result),
	}
}

// completed encodes the data of a reply. It does not escape HTML so that an output that is HTML does
// not grow.
func completed(c *event.Completed) []byte {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(c); err != nil {
		panic(fmt.Sprintf("encode the result of %s: %v", c.TaskID, err)) // outputs are JSON
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n"))
}

// address identifies a message by tenant and stream ID.
type address struct{ tenant, id string }

func addressOf(m *store.Message) address { return address{m.Tenant, m.ID} }
