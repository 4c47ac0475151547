package expr

import (
	"errors"
	"fmt"
	"math/big"
)

// errDepth is told to people as it stands.
var errDepth = fmt.Errorf("more than %d levels deep", maxDepth)

// errDigits is told to people as it stands.
var errDigits = fmt.Errorf("a number of more than %d digits", maxDigits)

// errMemory is told to people as it stands.
var errMemory = fmt.Errorf("takes too much memory: more than %d MiB (limit expression-memory)", maxMemory>>20)

// grain is how many bytes are worth a step: what a step may allocate anyway.
const grain = 16

// spend charges for work; the error ends the evaluation, whether or not it is caught.
func (m *meter) spend(steps int) error {
	if steps < 0 || !m.charge(steps) {
		return errSteps
	}
	return nil
}

// mapBytes is what a map of n members takes, of whatever size its table is.
func mapBytes(n int) int {
	if n <= 8 {
		return 352
	}
	return 80 * n
}

// copying charges for a copy of the outermost level of v.
func (m *meter) copying(v any) error {
	if fields, ok := v.(map[string]any); ok {
		if err := m.allocate(mapBytes(len(fields))); err != nil {
			return err
		}
	}
	return m.spend(breadth(v))
}

// allocate charges for memory that is worth more than the steps which ask for it.
func (m *meter) allocate(bytes int) error {
	if m.memory -= bytes; m.memory < 0 || bytes < 0 {
		m.stop(errMemory)
		return errMemory
	}
	return nil
}

// weigh is what a walk through v costs in steps. It fails, at a price, where
// that is more than there is left: a value built of itself many times over may
// be small in memory and yet endless to walk through.
func (m *meter) weigh(v any) (int, error) {
	w := weigher{most: max(m.left, 0)}
	if err := w.add(v, 0); err != nil {
		if errors.Is(err, errSteps) {
			m.charge(m.left + 1)
		}
		return 0, err
	}
	return w.sum, nil
}

type weigher struct{ sum, most int }

func (w *weigher) add(v any, depth int) error {
	w.sum++
	switch v := v.(type) {
	case string:
		w.sum += len(v) / grain
	case *big.Int:
		w.sum += v.BitLen() / 64
	case []any:
		return w.list(v, depth+1)
	case map[string]any:
		return w.object(v, depth+1)
	}
	return nil
}

func (w *weigher) check(depth int) error {
	switch {
	case w.sum > w.most:
		return errSteps
	case depth > maxDepth:
		return errDepth
	default:
		return nil
	}
}

func (w *weigher) list(items []any, depth int) error {
	if err := w.check(depth); err != nil {
		return err
	}
	for _, item := range items {
		if err := w.add(item, depth); err != nil {
			return err
		}
	}
	return w.check(depth)
}

func (w *weigher) object(fields map[string]any, depth int) error {
	if err := w.check(depth); err != nil {
		return err
	}
	for key, field := range fields {
		w.sum += 2 + len(key)/grain
		if err := w.add(field, depth); err != nil {
			return err
		}
	}
	return w.check(depth)
}

// breadth is what a copy of the outermost level of v costs.
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

// span is the length of a string or a list.
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
