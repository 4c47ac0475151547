package budget

import (
	"errors"
	"fmt"
	"math/big"

	"flunq.io/flunq/engine/expr/canonical"
)

// errDigits is shown to users unchanged.
var errDigits = fmt.Errorf("a number of more than %d digits", canonical.MaxDigits)

// errMemory is shown to users unchanged.
var errMemory = fmt.Errorf("takes too much memory: more than %d MiB (limit expression-memory)", maxMemory>>20)

// grain is the number of bytes that one step covers.
const grain = 16

// spend charges for work. Its error ends the evaluation, even if the expression catches it.
func (m *Meter) spend(steps int) error {
	if steps < 0 || !m.charge(steps) {
		return errSteps
	}
	return nil
}

// walk charges for several walks through the whole of v.
func (m *Meter) walk(v any, times int) error {
	weight, err := m.weigh(v)
	if err != nil {
		return err
	}
	return m.spend(weight * times)
}

// mapBytes estimates the memory of a map of n members, whatever the size of its table.
func mapBytes(n int) int {
	if n <= 8 {
		return 352
	}
	return 80 * n
}

// copying charges for a shallow copy of v.
func (m *Meter) copying(v any) error {
	if fields, ok := v.(map[string]any); ok {
		if err := m.allocate(mapBytes(len(fields))); err != nil {
			return err
		}
	}
	return m.spend(breadth(v))
}

// allocate charges for memory beyond what its steps cover.
func (m *Meter) allocate(bytes int) error {
	if m.memory -= bytes; m.memory < 0 || bytes < 0 {
		m.stop(errMemory)
		return errMemory
	}
	return nil
}

// weigh returns the cost in steps of a walk through v. If that exceeds what is left, it charges
// and fails: a value that contains itself many times may be small in memory and yet take forever
// to walk through.
func (m *Meter) weigh(v any) (int, error) {
	w := weigher{limit: max(m.left, 0)}
	if err := w.add(v, 0); err != nil {
		if errors.Is(err, errSteps) {
			m.charge(m.left + 1)
		}
		return 0, err
	}
	return w.sum, nil
}

type weigher struct{ sum, limit int }

func (w *weigher) add(v any, depth int) error {
	w.sum++
	switch v := v.(type) {
	case string:
		w.sum += len(v) / grain
	case *big.Int:
		w.sum += v.BitLen() / 64
	case []any:
		if err := w.check(depth + 1); err != nil {
			return err
		}
		for _, item := range v {
			if err := w.add(item, depth+1); err != nil {
				return err
			}
		}
		return w.check(depth + 1)
	case map[string]any:
		if err := w.check(depth + 1); err != nil {
			return err
		}
		for key, field := range v {
			w.sum += 2 + len(key)/grain
			if err := w.add(field, depth+1); err != nil {
				return err
			}
		}
		return w.check(depth + 1)
	}
	return nil
}

func (w *weigher) check(depth int) error {
	switch {
	case w.sum > w.limit:
		return errSteps
	case depth > canonical.MaxDepth:
		return canonical.ErrDepth
	default:
		return nil
	}
}

// breadth returns the cost of a shallow copy of v.
func breadth(v any) int {
	switch v := v.(type) {
	case string:
		return len(v) / grain
	case []any:
		return len(v)
	case map[string]any:
		return 4 * len(v)
	case *big.Int:
		return v.BitLen() / 64
	default:
		return 0
	}
}

// span returns the length of a string or a list.
func span(v any) int {
	switch v := v.(type) {
	case string:
		return len(v)
	case []any:
		return len(v)
	default:
		return 1
	}
}
