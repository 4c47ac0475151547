package executor

import (
	"context"

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

// address identifies a message by tenant and stream ID.
type address struct{ tenant, id string }

func addressOf(m *store.Message) address { return address{m.Tenant, m.ID} }
