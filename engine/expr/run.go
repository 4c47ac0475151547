package expr

import (
	"context"
	"fmt"
	"time"

	"github.com/itchyny/gojq"
)

const (
	maxSource = 64 << 10  // bytes of an expression
	maxSteps  = 5_000_000 // of gojq's machine, or their like, for one Eval
	maxMemory = 128 << 20 // bytes that one Eval allocates, beyond what its steps are worth
)

// errSteps is told to people as it stands.
var errSteps = fmt.Errorf("takes too long: more than %d steps (limit expression-steps)", maxSteps)

// meter counts an evaluation's work. It is a context because gojq asks its
// context before every step whether to go on; no clock is involved.
type meter struct {
	left   int
	memory int       // bytes that it may still allocate beyond what steps are worth
	gone   bool      // an update took something away
	iter   gojq.Iter // gojq's machine, once it runs
	due    int       // steps until the next look at it
	failed error     // what it was stopped for, if not for its steps

	patterns map[[2]string]*regex // that it has used
}

func newMeter() *meter { return &meter{left: maxSteps, memory: maxMemory, due: stride} }

// Done is asked once per step. Until the work is used up it is the channel that
// never closes, which costs nothing to make.
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
	return nil
}

// stop ends the evaluation at its next step.
func (m *meter) stop(err error) {
	if m.left = -1; m.failed == nil {
		m.failed = err
	}
}

// over is a channel that is closed.
func over() <-chan struct{} {
	done := make(chan struct{})
	close(done)
	return done
}

// charge takes work that is worth some steps; false means that none is left.
func (m *meter) charge(steps int) bool {
	if m.left < 0 {
		return false
	}
	m.left -= steps
	return m.left >= 0
}

// Err is why the evaluation ends.
func (m *meter) Err() error {
	if m.failed != nil {
		return m.failed
	}
	if m.left < 0 {
		return errSteps
	}
	return nil
}

// Deadline is none.
func (m *meter) Deadline() (deadline time.Time, ok bool) { return time.Time{}, false }

// Value is none.
func (m *meter) Value(any) any { return nil }

var _ context.Context = (*meter)(nil)

// run evaluates the code until it has so many results, and vouches for their size.
func (p *Program) run(s *Scope, most int) (results []any, err error) {
	m := newMeter()
	args, err := p.arguments(s, m)
	if err != nil {
		return nil, err
	}
	defer func() {
		// gojq panics where data is not what it takes for a value: a bug, but not one to die of.
		if r := recover(); r != nil {
			results, err = nil, p.failure(fmt.Errorf("cannot be evaluated: %v", r))
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
		if err, failed := v.(error); failed {
			return nil, p.failure(err)
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

// arguments are the values of the variables, in the order of the code's.
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

// variable looks a variable up, and for $secrets what will be read from it.
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

// assemble compiles a resolved query.
func assemble(query *gojq.Query, vars []string) (*gojq.Code, error) {
	names := make([]string, 0, len(vars)+2)
	for _, name := range vars {
		names = append(names, "$"+name)
	}
	options := append(guards(), gojq.WithVariables(append(names, "$"+nowName, "$"+meterName)))
	return gojq.Compile(query, options...)
}
