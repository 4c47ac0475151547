package executor

import (
	"context"
	"fmt"
	"net/http"

	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/executor/breaker"
	"flunq.io/flunq/engine/executor/call"
	httpcall "flunq.io/flunq/engine/executor/http"
	"flunq.io/flunq/engine/executor/openapi"
	"flunq.io/flunq/engine/expr"
)

// Caller performs calls of all kinds.
type Caller struct {
	Transport http.RoundTripper // how requests go out; never nil
	Limits    httpcall.Limits   // zero members mean their defaults
	Version   string            // of flunq, for the User-Agent
	Breakers  *breaker.Set      // shared by all executors of a process; nil: no call is refused
	Memory    *call.Memory      // likewise; nil: no bound

	Trace func(tenant, execution string, run event.Run) string // see httpcall.Caller
}

// Call performs a call task and returns its raw output. A failure of the call is an
// *event.Problem (errors.As) that shows no secret; any other error is the engine's. The
// scope is that of the task's definition. ctx and the transport set the deadlines.
func (c *Caller) Call(ctx context.Context, task *dsl.Task, scope *expr.Scope, from call.Origin) (output any, err error) {
	output, _, err = c.Perform(ctx, task, scope, from)
	return output, err
}

// Perform is like Call, and also returns the last request that was sent, nil if none was.
func (c *Caller) Perform(ctx context.Context, task *dsl.Task, scope *expr.Scope, from call.Origin) (output any, made *event.Call, err error) {
	reserved := c.Memory.Reserve(from.Tenant)
	defer reserved.Release()
	return c.perform(ctx, task, scope, from, reserved)
}

func (c *Caller) perform(ctx context.Context, task *dsl.Task, scope *expr.Scope, from call.Origin, reserved *call.Reservation) (output any, made *event.Call, err error) {
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
	overHTTP := &httpcall.Caller{Transport: c.Transport, Limits: c.Limits, Version: c.Version, Breakers: c.Breakers, Trace: c.Trace}
	switch {
	case task.HTTP != nil:
		return overHTTP
	case task.OpenAPI != nil:
		return &openapi.Caller{HTTP: overHTTP}
	default:
		return nil
	}
}
