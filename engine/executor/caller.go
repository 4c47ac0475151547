package executor

import (
	"context"
	"fmt"

	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/executor/call"
	httpcall "flunq.io/flunq/engine/executor/http"
	"flunq.io/flunq/engine/executor/openapi"
	"flunq.io/flunq/engine/expr"
)

// Caller performs calls of all kinds.
type Caller struct {
	HTTP   *httpcall.Caller // shared by all executors of a process
	Memory *call.Memory     // shared by all executors of a process; nil: no limit
}

// Call performs a call task and returns its raw output, and the last request that was sent, nil if none
// was. A failure of the call is an *event.Problem (errors.As) that shows no secret; any other error is the
// engine's. The scope is that of the task's definition. ctx and the transport set the deadlines. The caller
// releases the memory in reserved.
func (c *Caller) Call(ctx context.Context, task *dsl.Task, scope *expr.Scope, from call.Origin, reserved *call.Reservation) (output any, made *event.Call, err error) {
	if task.Call == nil {
		return nil, nil, fmt.Errorf("perform %s: not a call", task.Ref)
	}
	run := call.NewRun(scope, from, reserved)
	if kind := c.kind(task.Call); kind != nil {
		output, made, err = kind.Call(ctx, task.Call, run)
	} else {
		err = call.Configuration("call: %s cannot be performed yet", task.Call.Protocol)
	}
	if err != nil {
		return nil, made, run.RedactError(err)
	}
	return output, made, nil
}

// kind returns the Kind that performs a call, or nil for protocols that are not implemented.
func (c *Caller) kind(task *dsl.CallTask) call.Kind {
	switch {
	case task.HTTP != nil:
		return c.HTTP
	case task.OpenAPI != nil:
		return &openapi.Caller{HTTP: c.HTTP}
	default:
		return nil
	}
}
