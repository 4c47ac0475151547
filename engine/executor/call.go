package executor

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/expr"
)

// Caller performs calls to other systems.
type Caller struct {
	Transport http.RoundTripper // how requests go out; never nil
	Limits    Limits            // zero members mean their defaults
	Version   string            // of flunq, for the User-Agent
	Breakers  *Breakers         // shared by all executors of a process; nil: no call is refused
	Memory    *Memory           // likewise; nil: no bound
}

// Call performs a call task and returns its raw output. A failure of the call is a
// *event.Problem (errors.As) that shows no secret; any other error is the engine's. The
// scope is that of the task's definition. ctx and the transport set the deadlines.
func (c *Caller) Call(ctx context.Context, task *dsl.Task, scope *expr.Scope, from Origin) (output any, err error) {
	output, _, err = c.Perform(ctx, task, scope, from)
	return output, err
}

// Perform is like Call, and also returns the last request that was sent; nil if there was
// none.
func (c *Caller) Perform(ctx context.Context, task *dsl.Task, scope *expr.Scope, from Origin) (output any, made *event.Call, err error) {
	reserved := c.reserve(from)
	defer reserved.release()
	return c.perform(ctx, task, scope, from, reserved)
}

// reserve returns an empty reservation of memory for the answers of a call. The caller
// releases it.
func (c *Caller) reserve(from Origin) *reservation {
	return &reservation{memory: c.Memory, tenant: from.Tenant}
}

func (c *Caller) perform(ctx context.Context, task *dsl.Task, scope *expr.Scope, from Origin, reserved *reservation) (output any, made *event.Call, err error) {
	if task.Call == nil {
		return nil, nil, fmt.Errorf("perform %s: not a call", task.Ref)
	}
	run := &run{Caller: c, limits: c.Limits.filled(), origin: from, redactor: newRedactor(scope), reserved: reserved}
	switch {
	case task.Call.HTTP != nil:
		output, err = run.http(ctx, task.Call.HTTP)
	case task.Call.OpenAPI != nil:
		output, err = run.openAPI(ctx, task.Call.OpenAPI)
	default:
		err = configuration("call: %s cannot be performed yet", task.Call.Protocol)
	}
	if err != nil {
		return nil, run.presentableCall(), run.presentable(err)
	}
	return output, run.presentableCall(), nil
}

// run is one performance of a call task.
type run struct {
	*Caller
	*redactor
	limits   Limits
	origin   Origin
	reserved *reservation // memory for answers

	sent       *message // the last request that was sent; nil for none
	first      *url.URL // the URL requested before any redirect
	sentStatus int      // status of the answer, 0 for none
}

// presentableCall returns the last request that was sent, with secrets redacted.
func (r *run) presentableCall() *event.Call {
	if r.sent == nil {
		return nil
	}
	made := &event.Call{Method: r.sent.method, URL: r.redactURL(r.sent.uri), Status: r.sentStatus}
	if r.first != r.sent.uri {
		made.First = r.redactURL(r.first)
	}
	return made
}

// presentable returns err with its texts on one line and secrets redacted.
func (r *run) presentable(err error) error {
	problem, ok := errors.AsType[*event.Problem](err)
	if !ok {
		return err
	}
	shown := *problem
	shown.Detail = printable(r.redactValue(problem.Detail))
	shown.Title = printable(r.redactValue(problem.Title))
	return &shown
}

// authorization returns the value of an Authorization header, empty without a policy.
func (r *run) authorization(policy *dsl.Authentication) (string, error) {
	if policy == nil {
		return "", nil
	}
	scheme, parameter, err := decide.Authorize(policy, r.scope)
	if err != nil {
		return "", err
	}
	r.redactCredentials(scheme, parameter)
	return scheme + " " + parameter, nil
}

func configuration(format string, args ...any) *event.Problem {
	return event.NewProblem(event.Configuration, fmt.Sprintf(format, args...))
}

func expression(format string, args ...any) *event.Problem {
	return event.NewProblem(event.Expression, fmt.Sprintf(format, args...))
}

func validation(format string, args ...any) *event.Problem {
	return event.NewProblem(event.Validation, fmt.Sprintf(format, args...))
}

func communication(format string, args ...any) *event.Problem {
	return event.NewProblem(event.Communication, fmt.Sprintf(format, args...))
}
