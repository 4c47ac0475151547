package budget

import (
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

// overLimit is the value with which a function of an expression panics when it exceeds a limit. Then
// the error is its result, see function.
type overLimit struct{ error }

// spend charges for work. If too few steps are left, it panics, and the evaluation ends, even if the
// expression catches the error.
func (m *Meter) spend(steps int) {
	if steps < 0 || !m.charge(steps) {
		panic(overLimit{errSteps})
	}
}

// walk charges for several walks through the whole of v.
func (m *Meter) walk(v any, times int) { m.spend(m.weigh(v) * times) }

// mapBytes estimates the memory of a map of n members, whatever the size of its table.
func mapBytes(n int) int {
	if n <= 8 {
		return 352
	}
	return 80 * n
}

// copying charges for a shallow copy of v.
func (m *Meter) copying(v any) {
	if fields, ok := v.(map[string]any); ok {
		m.allocate(mapBytes(len(fields)))
	}
	m.spend(breadth(v))
}

// allocate charges, like spend, for memory beyond what its steps cover.
func (m *Meter) allocate(bytes int) {
	if m.memory -= bytes; m.memory < 0 || bytes < 0 {
		m.stop(errMemory)
		panic(overLimit{errMemory})
	}
}

// weigh returns the cost in steps of a walk through v. If that exceeds what is left, it charges
// and panics: a value that contains itself many times may be small in memory and yet take forever
// to walk through.
func (m *Meter) weigh(v any) int {
	w := weigher{Meter: m}
	w.add(v, 0)
	return w.sum
}

type weigher struct {
	*Meter
	sum int
}

func (w *weigher) add(v any, depth int) {
	w.sum++
	switch v := v.(type) {
	case string:
		w.sum += len(v) / grain
	case *big.Int:
		w.sum += v.BitLen() / 64
	case []any:
		w.check(depth + 1)
		for _, item := range v {
			w.add(item, depth+1)
		}
		w.check(depth + 1)
	case map[string]any:
		w.check(depth + 1)
		for key, field := range v {
			w.sum += 2 + len(key)/grain
			w.add(field, depth+1)
		}
		w.check(depth + 1)
	}
}

func (w *weigher) check(depth int) {
	switch {
	case w.sum > max(w.left, 0):
		w.spend(w.left + 1)
	case depth > canonical.MaxDepth:
		panic(overLimit{canonical.ErrDepth})
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
