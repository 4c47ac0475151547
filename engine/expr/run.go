package expr

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/itchyny/gojq"
)

const (
	maxSource = 64 << 10  // bytes of an expression
	maxSteps  = 5_000_000 // steps of gojq's machine, or equivalent work, for one Eval
	maxMemory = 128 << 20 // bytes that one Eval allocates, beyond what its steps cover
)

// errSteps is shown to users as it is.
var errSteps = fmt.Errorf("takes too long: more than %d steps (limit expression-steps)", maxSteps)

// errSecret replaces a message that may quote a secret.
var errSecret = errors.New("does not suit the data; more is not said, because the expression reads a secret")

// meter counts the work of an evaluation. It is a context because gojq checks its context
// before every step; no clock is involved.
type meter struct {
	left   int
	memory int       // bytes left to allocate beyond what steps cover
	gone   bool      // an update marked a value as deleted
	iter   gojq.Iter // gojq's machine, once it runs
	due    int       // steps until its next inspection
	looks  int       // inspections so far
	failed error     // why it was stopped, if not for its steps

	patterns map[[2]string]*regex // those that it has used
}

func newMeter() *meter { return &meter{left: maxSteps, memory: maxMemory, due: stride} }

// Done is called once per step. While steps are left, it returns nil, which costs nothing
// to create.
func (m *meter) Done() <-chan struct{} {
	if !m.charge(1) {
		return over()
	}
	if m.due--; m.due > 0 {
		return nil
	}
	m.due = stride
	if err := m.look(); err != nil {
		m.stop(err)
		return over()
	}
	if m.looks++; m.looks%yieldAfter == 0 {
		runtime.Gosched()
	}
	return nil
}

// yieldAfter is the number of inspections (some hundred microseconds of work) after which
// an evaluation lets other goroutines run. The runtime would preempt it only after 10 ms.
const yieldAfter = 64

// stop ends the evaluation at its next step.
func (m *meter) stop(err error) {
	if m.left = -1; m.failed == nil {
		m.failed = err
	}
}

// over returns a closed channel.
func over() <-chan struct{} {
	done := make(chan struct{})
	close(done)
	return done
}

// charge subtracts steps. It returns false if none are left.
func (m *meter) charge(steps int) bool {
	if m.left < 0 {
		return false
	}
	m.left -= steps
	return m.left >= 0
}

// Err returns why the evaluation ends.
func (m *meter) Err() error {
	if m.failed != nil {
		return m.failed
	}
	if m.left < 0 {
		return errSteps
	}
	return nil
}

// Deadline reports that there is none.
func (m *meter) Deadline() (deadline time.Time, ok bool) { return time.Time{}, false }

// Value returns nil.
func (m *meter) Value(any) any { return nil }

var _ context.Context = (*meter)(nil)

// run evaluates the code until it has most results, and checks their size.
func (p *Program) run(s *Scope, most int) (results []any, err error) {
	m := newMeter()
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
	m.iter = iter
	size := maxResult
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
		if v, err = measured(v, &size); err != nil {
			return nil, p.failure(err)
		}
		if results = append(results, v); len(results) >= most {
			if most > 1 {
				return nil, p.failure(fmt.Errorf("more than %d results (limit expression-results)", most))
			}
			return results, nil
		}
	}
}

// arguments returns the values of the variables, in the order of the code's parameters.
func (p *Program) arguments(s *Scope, m *meter) ([]any, error) {
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

// refusal returns the Failure for an error of jq. The error's message quotes values, so it
// is replaced if one of them may be derived from a secret.
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
	options := append(guards(), gojq.WithVariables(append(names, "$"+nowName, "$"+meterName)))
	return gojq.Compile(query, options...)
}
