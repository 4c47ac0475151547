package expr

import (
	"errors"
	"fmt"
	"slices"

	"github.com/itchyny/gojq"

	"flunq.io/flunq/engine/expr/budget"
)

const (
	maxSource  = 64 << 10 // bytes of an expression
	maxResults = 100_000
)

// errSecret replaces a message that may quote a secret.
var errSecret = errors.New("does not suit the data; more is not said, because the expression reads a secret")

// run evaluates the code until it has limit results, and checks their size.
func (p *Program) run(s *Scope, limit int) (results []any, err error) {
	m := budget.NewMeter()
	args, err := p.arguments(s, m)
	if err != nil {
		return nil, err
	}
	defer func() {
		// gojq panics on values of unexpected types: a bug, but the process must survive it.
		if r := recover(); r != nil {
			results, err = nil, p.refusal(fmt.Errorf("cannot be evaluated: %v", r))
		}
	}()
	iter := p.code.RunWithContext(m, s.Dot, args...)
	m.Watch(iter)
	for {
		v, ok := iter.Next()
		if !ok {
			return results, nil
		}
		if err, failed := v.(error); failed && m.Err() != nil {
			return nil, p.failure(err)
		} else if failed {
			return nil, p.refusal(err)
		}
		if v, err = m.Result(v); err != nil {
			return nil, p.failure(err)
		}
		switch results = append(results, v); {
		case limit == 1:
			return results, nil
		case len(results) > limit:
			return nil, p.failure(fmt.Errorf("more than %d results (limit expression-results)", limit))
		}
	}
}

// arguments returns the values of the variables, in the order of the code's parameters.
func (p *Program) arguments(s *Scope, m *budget.Meter) ([]any, error) {
	args := make([]any, 0, len(p.vars)+2)
	for _, name := range p.vars {
		v, err := p.variable(s, name)
		if err != nil {
			return nil, err
		}
		args = append(args, v)
	}
	return append(args, float64(s.Now.UnixMicro())/1e6, m), nil
}

// variable returns a variable's value. For $secrets it checks that the secrets to be read
// exist.
func (p *Program) variable(s *Scope, name string) (any, error) {
	v, err := s.Var(name)
	if err != nil || name != "secrets" {
		return v, err
	}
	if object, ok := v.(map[string]any); ok {
		for _, secret := range p.secrets {
			if _, ok := object[secret]; !ok {
				return nil, &MissingSecret{Name: secret}
			}
		}
	}
	return v, nil
}

func (p *Program) failure(err error) error {
	return &Failure{Source: p.src, Message: err.Error()}
}

// refusal returns the Failure for an error of jq. The error's message quotes values, so it is
// replaced if one of them may be derived from a secret.
func (p *Program) refusal(err error) error {
	if slices.Contains(p.vars, "secrets") || slices.Contains(p.vars, "authorization") {
		err = errSecret
	}
	return p.failure(err)
}

// assemble compiles a resolved query.
func assemble(query *gojq.Query, vars []string) (*gojq.Code, error) {
	names := make([]string, 0, len(vars)+2)
	for _, name := range vars {
		names = append(names, "$"+name)
	}
	options := append(budget.Functions(), gojq.WithVariables(append(names, "$"+nowName, "$"+meterName)))
	return gojq.Compile(query, options...)
}
