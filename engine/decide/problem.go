package decide

import (
	"errors"
	"fmt"

	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/expr"
)

// ProblemOf converts the error of a task to a problem in its published form. It returns an error
// that is not the workflow's fault unchanged.
func (env *Env) ProblemOf(err error, ref string) (*event.Problem, error) {
	var p *event.Problem
	var missing *expr.MissingSecret
	var failure *expr.Failure
	if errors.As(err, &p) || errors.As(err, &missing) || errors.As(err, &failure) {
		return env.publishable(problemOf(err), ref), nil
	}
	return nil, err
}

// problemOf converts an error to a problem.
func problemOf(err error) *event.Problem {
	if p, ok := errors.AsType[*event.Problem](err); ok {
		return p
	}
	if _, ok := errors.AsType[*expr.MissingSecret](err); ok {
		return event.NewProblem(event.Authorization, err.Error())
	}
	return event.NewProblem(event.Expression, err.Error())
}

// invalid returns the problem of data that does not match its schema.
func invalid(what string, err error) *event.Problem {
	return event.NewProblem(event.Validation, what+" does not match its schema: "+err.Error())
}

func unsupported(construct string) *event.Problem {
	return event.NewProblem(event.Configuration, fmt.Sprintf("%q validates, but this version of flunq cannot run it", construct))
}
