package budget

import (
	"errors"
	"fmt"
	"math/bits"
	"strings"

	"github.com/itchyny/gojq"

	"flunq.io/flunq/engine/expr/canonical"
)

const (
	maxGrowth = 100_000 // how far an index may be beyond a list's end
	maxFormat = 1 << 10 // bytes of a date, and of its format
)

// guard is a function that an expression calls before work that gojq counts as one step, however
// large it is. It charges for the work, or rejects it. M is a *Meter, or the *update that includes one.
type guard[M any] func(m M, dot any, args []any) (any, error)

// Functions returns the functions that expressions call. Each takes the given number of arguments,
// and the meter or the update.
func Functions() []gojq.CompilerOption {
	patterns := &regexes{}
	options := []gojq.CompilerOption{
		function("__deep", 1, guardDeep),
		function("__shallow", 0, guardShallow),
		function("__caught", 0, guardCaught),
		function("__parent", 0, isParent),
		function("__chars", 0, guardChars),
		function("__each", 0, guardEach),
		function("__object", 0, guardObject),
		function("__entries", 0, guardEntries),
		function("__key", 1, guardKey),
		function("__text", 1, guardText),
		function("__pair", 1, guardPair),
		function("__sort", 0, guardSort),
		function("__cells", 0, guardCells),
		function("__numeral", 0, guardNumeral),
		function("__date", 0, guardDate),
		function("__order", 1, guardOrder),
		function("__fromjson", 0, decodeText),
		function("__match", 3, patterns.match),
		function("__between", 1, between),
		function("__replace", 2, replace),
		function("__update", 0, newUpdate),
		function("__path", 1, guardPath),
		function("__found", 0, wasFound),
		function("__setpath", 1, guardSetpath),
		function("__delpaths", 1, deletePaths),
		function("__deleted", 0, markDeleted),
		function("__sweep", 0, sweep),
	}
	for op := gojq.OpAdd; op <= gojq.OpLe; op++ {
		if name, f := operators(op); f != nil {
			options = append(options, function(name, 2, func(m *Meter, _ any, args []any) (any, error) {
				return f(m, args[0], args[1])
			}))
		}
	}
	return options
}

func function[M any](name string, arity int, f guard[M]) gojq.CompilerOption {
	return gojq.WithFunction(name, arity+1, arity+1, func(dot any, args []any) (result any) {
		m, ok := args[arity].(M)
		if !ok {
			panic("budget: " + name + " without its meter")
		}
		defer func() {
			switch r := recover().(type) {
			case nil:
			case overLimit:
				result = r.error
			default:
				panic(r)
			}
		}()
		v, err := f(m, dot, args[:arity])
		if err != nil {
			return err
		}
		return v
	})
}

// guardDeep charges for several walks through the whole value; the argument is their number.
func guardDeep(m *Meter, dot any, args []any) (any, error) {
	times, _ := args[0].(int)
	m.walk(dot, times)
	return dot, nil
}

// guardShallow charges for a shallow copy of the value.
func guardShallow(m *Meter, dot any, _ []any) (any, error) {
	m.spend(breadth(dot))
	return dot, nil
}

// caughtSteps is the cost of an error that is caught: gojq formats its message, which quotes values.
const caughtSteps = 20

// guardCaught charges for an error that was caught.
func guardCaught(m *Meter, dot any, _ []any) (any, error) {
	m.spend(caughtSteps)
	return dot, nil
}

// isParent reports whether a value can have members. Iterating over any other value is an error.
func isParent(_ *Meter, dot any, _ []any) (any, error) {
	switch dot.(type) {
	case []any, map[string]any:
		return true, nil
	default:
		return false, nil
	}
}

// guardChars charges for finding a position in a string, where gojq counts from the start.
func guardChars(m *Meter, dot any, _ []any) (any, error) {
	if text, ok := dot.(string); ok {
		m.spend(len(text) / grain)
		return dot, nil
	}
	return dot, nil
}

// guardEach charges for the members that gojq lists, and sorts by key, before it iterates.
func guardEach(m *Meter, dot any, _ []any) (any, error) {
	switch v := dot.(type) {
	case []any:
		m.allocate(32 * len(v))
		m.spend(len(v) / 8)
		return dot, nil
	case map[string]any:
		m.allocate(32 * len(v))
		m.spend(len(v) * bits.Len(uint(len(v))) / 2)
		return dot, nil
	default:
		return dot, nil
	}
}

// guardObject charges for a new object.
func guardObject(m *Meter, dot any, _ []any) (any, error) {
	fields, _ := dot.(map[string]any)
	m.allocate(mapBytes(len(fields)))
	return dot, nil
}

// guardEntries charges for converting an object to a list of objects.
func guardEntries(m *Meter, dot any, _ []any) (any, error) {
	if fields, ok := dot.(map[string]any); ok {
		m.allocate((mapBytes(2) + 64) * len(fields))
	}
	m.spend(breadth(dot))
	return dot, nil
}

// guardKey rejects lists as keys: jq would search for them, as indices does.
func guardKey(_ *Meter, _ any, args []any) (any, error) {
	if _, ok := args[0].([]any); ok {
		return nil, errors.New("a list cannot be an index, use indices")
	}
	return args[0], nil
}

func guardText(_ *Meter, _ any, args []any) (any, error) {
	if _, ok := args[0].(string); !ok {
		return nil, fmt.Errorf("expected a string for object key but got: %s", Describe(args[0]))
	}
	return args[0], nil
}

// guardPair charges for comparing every part of one value with every part of another.
func guardPair(m *Meter, dot any, args []any) (any, error) {
	a, b := m.weigh(dot), m.weigh(args[0])
	// Strings are searched as lists of characters.
	if text, ok := dot.(string); ok {
		a = len(text) + 1
		b = max(b, span(args[0])/8)
	}
	if b > 0 && a > m.left/b*4 {
		m.spend(m.left + 1)
	}
	m.spend(a + a*b/4)
	return dot, nil
}

// guardSort charges for sorting the value, or by it.
func guardSort(m *Meter, dot any, _ []any) (any, error) {
	m.walk(dot, max(1, bits.Len(uint(span(dot)))))
	return dot, nil
}

// guardCells charges for the cells of a table.
func guardCells(m *Meter, dot any, _ []any) (any, error) {
	rows, ok := dot.([]any)
	if !ok {
		return dot, nil
	}
	longest := 1
	for _, row := range rows {
		longest = max(longest, span(row))
	}
	if longest > m.left/max(1, len(rows)) {
		m.spend(m.left + 1)
	}
	m.spend(longest * len(rows))
	return dot, nil
}

func guardNumeral(m *Meter, dot any, _ []any) (any, error) {
	if text, ok := dot.(string); ok && len(text) > canonical.MaxDigits {
		return nil, errDigits
	}
	m.spend(breadth(dot))
	return dot, nil
}

// guardDate bounds the length of dates and their formats.
func guardDate(m *Meter, dot any, _ []any) (any, error) {
	if text, ok := dot.(string); ok && len(text) > maxFormat {
		return nil, fmt.Errorf("a date or its format of %d bytes, want at most %d", len(text), maxFormat)
	}
	m.spend(breadth(dot) + 1)
	return dot, nil
}

// guardOrder charges for a Bessel function, whose cost grows with its order.
func guardOrder(m *Meter, _ any, args []any) (any, error) {
	n, _ := gojq.ToInt(args[0])
	if n < -m.left || n > m.left {
		m.spend(m.left + 1)
	}
	m.spend(max(n, -n))
	return args[0], nil
}

func decodeText(m *Meter, dot any, _ []any) (any, error) {
	text, ok := dot.(string)
	if !ok {
		return nil, fmt.Errorf("fromjson cannot be applied to: %s", Describe(dot))
	}
	m.allocate(decodedBytes(text))
	m.spend(len(text) / 2)
	v, err := canonical.Decode([]byte(text))
	if err != nil {
		return nil, fmt.Errorf("fromjson: %w", err)
	}
	return v, nil
}

// decodedBytes returns an upper bound of the memory of decoded JSON beyond its own bytes.
func decodedBytes(text string) int {
	return mapBytes(1)*strings.Count(text, "{") + 40*strings.Count(text, "[") + 64*strings.Count(text, ",")
}
