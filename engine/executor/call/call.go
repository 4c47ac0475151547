// Package call holds what the kinds of calls, each of which has its own package, have in common: what a
// call may use while it runs, and its errors.
//
// A new kind has a parser and a struct in package dsl (calls, CallTask), a Kind in a package beside this
// one, and a case in executor.Caller. Its keys are in cmd/editor/schema.yaml, graph.Detail describes it.
package call

import (
	"context"
	"errors"
	"time"

	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/expr"
	"flunq.io/flunq/engine/expr/canonical"
)

// Kind performs one kind of call, such as HTTP. Each kind has its own package, which does not know
// the service that calls it.
//
// A Kind sends its requests through the HTTP client of the engine (Client of package http): that has
// the breakers, the limits and the guard of private networks, and mocks, recordings and the simulator
// replace its transport. A call over a connection of its own would really go out in 'flunq sim'.
type Kind interface {
	// Call performs a call task. It returns its raw output and the last request that was sent, nil
	// if none was. A failure of the call is an *event.Problem (errors.As); any other error
	// is the engine's. ctx sets the deadline.
	Call(ctx context.Context, task *dsl.CallTask, run *Run) (output any, made *event.Call, err error)
}

// Origin is the execution and task run that makes a call, and the time.
type Origin struct {
	Tenant    string
	Execution string
	Nonce     string // of the execution, for the idempotency key
	Run       event.Run
	Now       time.Time // the engine's time, for the breakers; zero: they ignore the call
}

// Run is one run of a call task. It evaluates the task's expressions and remembers the secrets
// they read so that nothing shown later contains them.
type Run struct {
	Origin Origin
	Memory *Reservation // for responses

	scope   *expr.Scope // the task's scope, observing which variables are read
	read    bool        // a secret was read since this was last set to false
	secrets event.Redactor
}

// NewRun returns a run in the scope of a task's definition. The caller releases the memory.
func NewRun(scope *expr.Scope, from Origin, memory *Reservation) *Run {
	r := &Run{Origin: from, Memory: memory}
	watched := *scope
	if variable := scope.Var; variable != nil {
		watched.Var = func(name string) (any, error) {
			value, err := variable(name)
			switch members, _ := value.(map[string]any); name {
			case "secrets":
				r.read = true
				r.redactSecrets(members)
			case "authorization":
				r.read = true
				r.redactAll(members["parameter"])
			}
			return value, err
		}
	}
	r.scope = &watched
	return r
}

// Input returns the task's input.
func (r *Run) Input() any { return r.scope.Dot }

// Eval returns a value's data; where names the member in errors. A string made from secrets is
// redacted as a whole, also as a direct member of an object.
func (r *Run) Eval(where string, v *expr.Value) (any, error) {
	if v == nil {
		return nil, nil
	}
	if fields := v.Fields(); fields != nil {
		out := make(map[string]any, len(fields))
		for _, f := range fields {
			data, err := r.Eval(where+"."+f.Key, f.Value)
			if err != nil {
				return nil, err
			}
			out[f.Key] = data
		}
		return out, nil
	}
	r.read = false
	data, err := v.Eval(r.scope)
	if err != nil {
		if problem, ok := errors.AsType[*event.Problem](err); ok {
			return nil, problem
		}
		if r.read {
			// jq's message may quote part of the secret, which redaction would not find.
			return nil, Expression("%s: cannot evaluate the expression, which reads a secret", where)
		}
		return nil, Expression("%s: %v", where, err)
	}
	if r.read {
		r.redactDerived(data)
	}
	return data, nil
}

// Members evaluates a value that must be an object, or null for an empty one.
func (r *Run) Members(where string, v *expr.Value) (map[string]any, error) {
	data, err := r.Eval(where, v)
	if err != nil || data == nil {
		return nil, err
	}
	members, ok := data.(map[string]any)
	if !ok {
		return nil, Expression("%s is %s, want an object", where, canonical.Kind(data))
	}
	return members, nil
}

// Authorization returns the value of an Authorization header, empty without a policy.
func (r *Run) Authorization(policy *dsl.Authentication) (string, error) {
	if policy == nil {
		return "", nil
	}
	scheme, parameter, err := decide.Authorize(policy, r.scope)
	if err != nil {
		return "", err
	}
	r.RedactCredentials(scheme, parameter)
	return scheme + " " + parameter, nil
}
