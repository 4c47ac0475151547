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

// Caller performs calls to the world outside.
type Caller struct {
	Transport http.RoundTripper // how requests go out; never nil
	Limits    Limits            // members that are zero mean their defaults
	Version   string            // of flunq, for the User-Agent
	Breakers  *Breakers         // shared by all executors of a process; nil: every call is made
	Memory    *Memory           // likewise; nil: there is no bound
}

// Call performs a call task and gives its raw output. What goes wrong for the
// workflow is a *event.Problem (errors.As) that shows no secret; everything
// else is the engine's failure. The scope is that of the task's definition;
// deadlines are those of ctx and of the transport.
func (c *Caller) Call(ctx context.Context, task *dsl.Task, scope *expr.Scope, from Origin) (output any, err error) {
	output, _, err = c.Perform(ctx, task, scope, from)
	return output, err
}

// Perform is Call, and tells which request was made last; nil if none was.
func (c *Caller) Perform(ctx context.Context, task *dsl.Task, scope *expr.Scope, from Origin) (output any, made *event.Call, err error) {
	room := c.reserve(from)
	defer room.release()
	return c.perform(ctx, task, scope, from, room)
}

// reserve is what the answers of a call take of the memory there is. Whoever performs
// the call releases it.
func (c *Caller) reserve(from Origin) *reservation {
	return &reservation{memory: c.Memory, tenant: from.Tenant}
}

func (c *Caller) perform(ctx context.Context, task *dsl.Task, scope *expr.Scope, from Origin, room *reservation) (output any, made *event.Call, err error) {
	if task.Call == nil {
		return nil, nil, fmt.Errorf("perform %s: not a call", task.Ref)
	}
	run := &run{Caller: c, limits: c.Limits.filled(), origin: from, redactor: newRedactor(scope), reserved: room}
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
	reserved *reservation // of the memory for answers

	sent       *message // the last request that went out, nil for none …
	first      *url.URL // … which one that was not redirected to asked for …
	sentStatus int      // … and the status of the answer, 0 for none
}

// presentableCall is the request that went out last, fit to be shown.
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

// presentable is err with its detail fit to be shown: one line, no secrets.
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

// authorization is the value of an Authorization header, or empty.
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
