// Package budget bounds the work and the memory of an evaluation by gojq, identically on every
// machine. It counts gojq's steps. Functions that gojq counts as one step, even if they do a lot of
// work, are replaced or preceded by a function that charges for the work.
package budget

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"github.com/itchyny/gojq"

	"flunq.io/flunq/engine/expr/canonical"
)

const (
	maxSteps  = 5_000_000 // steps of gojq's machine, or equivalent work, for one evaluation
	maxMemory = 128 << 20 // bytes that one evaluation allocates, beyond what its steps cover
	maxResult = 16 << 20  // bytes of JSON
)

// errSteps is shown to users unchanged.
var errSteps = fmt.Errorf("takes too long: more than %d steps (limit expression-steps)", maxSteps)

// errTooLarge is shown to users unchanged.
var errTooLarge = fmt.Errorf("the result is larger than %d MiB (limit expression-result)", maxResult>>20)

// Meter counts the work of one evaluation. It is a context because gojq checks its context before
// every step; no clock is involved.
type Meter struct {
	left        int
	memory      int       // bytes left to allocate beyond what steps cover
	results     int       // bytes of JSON left for results
	deletes     bool      // an update marked a value as deleted
	iter        gojq.Iter // gojq's machine, once it runs
	due         int       // steps until its next inspection
	inspections int       // so far
	failed      error     // why it was stopped, unless it ran out of steps

	patterns map[[2]string]*regex // those that it has used so far
}

var _ context.Context = (*Meter)(nil)

// NewMeter returns the meter of an evaluation that has not begun.
func NewMeter() *Meter {
	return &Meter{left: maxSteps, memory: maxMemory, results: maxResult, due: stride}
}

// Watch makes the meter inspect gojq's machine, which runs with the meter as its context.
func (m *Meter) Watch(machine gojq.Iter) { m.iter = machine }

// Result returns a result in canonical form. It fails if all results together are too large.
func (m *Meter) Result(v any) (any, error) {
	size, err := canonical.Size(v, m.results)
	if err != nil {
		return nil, err
	}
	if m.results -= size; m.results < 0 {
		return nil, errTooLarge
	}
	return canonical.Form(v), nil
}

// Done is called once per step. While steps are left, it returns nil, which costs nothing.
func (m *Meter) Done() <-chan struct{} {
	if !m.charge(1) {
		return over()
	}
	if m.due--; m.due > 0 {
		return nil
	}
	m.due = stride
	if err := m.inspect(); err != nil {
		m.stop(err)
		return over()
	}
	if m.inspections++; m.inspections%yieldAfter == 0 {
		runtime.Gosched()
	}
	return nil
}

// yieldAfter is the number of inspections (some hundred microseconds of work) after which
// an evaluation lets other goroutines run. The runtime would preempt it only after 10 ms.
const yieldAfter = 64

// stop ends the evaluation at its next step.
func (m *Meter) stop(err error) {
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
func (m *Meter) charge(steps int) bool {
	if m.left < 0 {
		return false
	}
	m.left -= steps
	return m.left >= 0
}

// Err returns why the evaluation ends.
func (m *Meter) Err() error {
	if m.failed != nil {
		return m.failed
	}
	if m.left < 0 {
		return errSteps
	}
	return nil
}

// Deadline implements context.Context: there is no deadline.
func (m *Meter) Deadline() (deadline time.Time, ok bool) { return time.Time{}, false }

// Value implements context.Context: there are no values.
func (m *Meter) Value(any) any { return nil }
