package budget

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"math/big"
	"slices"
	"strings"

	"github.com/itchyny/gojq"

	"flunq.io/flunq/engine/expr/canonical"
)

// operator is one of jq's binary operators, computed as gojq does, and charged for.
type operator func(m *Meter, l, r any) (any, error)

// Operator returns the name of the function that replaces a binary operator or an update operator;
// "" if gojq's own is cheap.
func Operator(op gojq.Operator) string {
	name, _ := operators(op)
	return name
}

func operators(op gojq.Operator) (name string, f operator) {
	switch op {
	case gojq.OpAdd, gojq.OpUpdateAdd:
		return "__add", addition
	case gojq.OpSub, gojq.OpUpdateSub:
		return "__subtract", subtraction
	case gojq.OpMul, gojq.OpUpdateMul:
		return "__multiply", multiplication
	case gojq.OpDiv, gojq.OpUpdateDiv:
		return "__divide", division
	case gojq.OpMod, gojq.OpUpdateMod:
		return "__modulo", remainder
	case gojq.OpEq:
		return "__equal", comparison(func(order int) bool { return order == 0 })
	case gojq.OpNe:
		return "__notequal", comparison(func(order int) bool { return order != 0 })
	case gojq.OpLt:
		return "__less", comparison(func(order int) bool { return order < 0 })
	case gojq.OpLe:
		return "__lesseq", comparison(func(order int) bool { return order <= 0 })
	case gojq.OpGt:
		return "__greater", comparison(func(order int) bool { return order > 0 })
	case gojq.OpGe:
		return "__greatereq", comparison(func(order int) bool { return order >= 0 })
	default:
		return "", nil
	}
}

func addition(m *Meter, l, r any) (any, error) {
	if a, ok := l.(int); ok {
		if b, ok := r.(int); ok {
			if sum := a + b; (sum >= a) == (b >= 0) {
				return sum, nil
			}
		}
	}
	m.copying(l)
	m.copying(r)
	switch a := l.(type) {
	case nil:
		return r, nil
	case string:
		if b, ok := r.(string); ok {
			return a + b, nil
		}
	case []any:
		if b, ok := r.([]any); ok {
			return append(append(make([]any, 0, len(a)+len(b)), a...), b...), nil
		}
	case map[string]any:
		if b, ok := r.(map[string]any); ok {
			out := make(map[string]any, len(a)+len(b))
			maps.Copy(out, a)
			maps.Copy(out, b)
			return out, nil
		}
	}
	if r == nil {
		return l, nil
	}
	return arithmetic("add", l, r, func(a, b float64) any { return a + b }, (*big.Int).Add)
}

func subtraction(m *Meter, l, r any) (any, error) {
	a, fromList := l.([]any)
	b, ofList := r.([]any)
	if !fromList || !ofList {
		return arithmetic("subtract", l, r, func(a, b float64) any { return a - b }, (*big.Int).Sub)
	}
	m.walk(a, len(b)/4+1)
	out := make([]any, 0, len(a))
	for _, item := range a {
		if !slices.ContainsFunc(b, func(other any) bool { return gojq.Compare(item, other) == 0 }) {
			out = append(out, item)
		}
	}
	return out, nil
}

func multiplication(m *Meter, l, r any) (any, error) {
	if text, ok := l.(string); ok && isNumber(r) {
		return repetition(m, text, r)
	}
	if text, ok := r.(string); ok && isNumber(l) {
		return repetition(m, text, l)
	}
	a, intoObject := l.(map[string]any)
	b, ofObject := r.(map[string]any)
	if !intoObject || !ofObject {
		return arithmetic("multiply", l, r, func(a, b float64) any { return a * b }, (*big.Int).Mul)
	}
	for _, v := range []any{a, b} {
		weight := m.weigh(v)
		m.allocate(mapBytes(0) + 80*weight)
		m.spend(2 * weight)
	}
	return canonical.Merge(a, b), nil
}

func repetition(m *Meter, text string, times any) (any, error) {
	n, _ := gojq.ToFloat64(times)
	if n < 0 || math.IsNaN(n) {
		return nil, nil
	}
	size := math.Trunc(n) * float64(len(text))
	if size > maxResult {
		return nil, errTooLarge
	}
	if len(text) == 0 {
		return "", nil
	}
	m.spend(int(size) / grain)
	return strings.Repeat(text, int(n)), nil
}

func division(m *Meter, l, r any) (any, error) {
	if a, ok := l.(string); ok {
		if b, ok := r.(string); ok {
			return splitting(m, a, b)
		}
	}
	a, b, kind, err := numbers("divide", l, r)
	switch {
	case err != nil:
		return nil, err
	case b.zero(kind):
		return nil, fmt.Errorf("cannot divide %s by: %s", Describe(l), Describe(r))
	case kind == floats:
		return a.float / b.float, nil
	}
	quotient, rest := new(big.Int).DivMod(a.whole, b.whole, new(big.Int))
	if rest.Sign() == 0 {
		return canonical.Int(quotient), nil
	}
	x, _ := gojq.ToFloat64(l)
	y, _ := gojq.ToFloat64(r)
	return x / y, nil
}

func splitting(m *Meter, text, separator string) (any, error) {
	m.spend(2 * len(text))
	if text == "" {
		return []any{}, nil
	}
	parts := strings.Split(text, separator)
	out := make([]any, len(parts))
	for i, part := range parts {
		out[i] = part
	}
	return out, nil
}

func remainder(_ *Meter, l, r any) (any, error) {
	a, b, kind, err := numbers("modulo", l, r)
	if err != nil {
		return nil, err
	}
	if kind == floats {
		if math.IsNaN(a.float) || math.IsNaN(b.float) {
			return math.NaN(), nil
		}
		x, _ := gojq.ToInt(a.float)
		y, _ := gojq.ToInt(b.float)
		a.whole, b.whole = big.NewInt(int64(x)), big.NewInt(int64(y))
	}
	if b.zero(wholes) {
		return nil, fmt.Errorf("cannot modulo %s by: %s", Describe(l), Describe(r))
	}
	return canonical.Int(new(big.Int).Rem(a.whole, b.whole)), nil
}

func comparison(holds func(order int) bool) operator {
	return func(m *Meter, l, r any) (any, error) {
		m.spendComparing(l, r)
		return holds(gojq.Compare(l, r)), nil
	}
}

// spendComparing charges for a comparison: the breadth of the smaller value, or, for lists and
// objects, the weight of both and that of the smaller one.
func (m *Meter) spendComparing(l, r any) {
	if !composed(l) || !composed(r) {
		m.spend(min(breadth(l), breadth(r)))
		return
	}
	a, b := m.weigh(l), m.weigh(r)
	m.spend(a + b + min(a, b))
}

func composed(v any) bool {
	switch v.(type) {
	case []any, map[string]any:
		return true
	default:
		return false
	}
}

// arithmetic computes with floats if one operand is a float, otherwise with integers.
func arithmetic(verb string, l, r any, float func(a, b float64) any,
	exact func(z, a, b *big.Int) *big.Int,
) (any, error) {
	a, b, kind, err := numbers(verb, l, r)
	if err != nil {
		return nil, err
	}
	if kind == floats {
		return float(a.float, b.float), nil
	}
	out := exact(new(big.Int), a.whole, b.whole)
	if canonical.Digits(out) > canonical.MaxDigits {
		return nil, errDigits
	}
	return canonical.Int(out), nil
}

type numberKind int

const (
	wholes numberKind = iota
	floats
)

type operand struct {
	whole *big.Int
	float float64
}

func (o operand) zero(kind numberKind) bool {
	if kind == floats {
		return o.float == 0
	}
	return o.whole.Sign() == 0
}

func isNumber(v any) bool {
	switch v.(type) {
	case int, float64, *big.Int:
		return true
	default:
		return false
	}
}

// numbers prepares two operands for the required kind of arithmetic.
func numbers(verb string, l, r any) (a, b operand, kind numberKind, err error) {
	if !isNumber(l) || !isNumber(r) {
		return a, b, wholes, fmt.Errorf("cannot %s: %s and %s", verb, Describe(l), Describe(r))
	}
	_, lf := l.(float64)
	_, rf := r.(float64)
	if lf || rf {
		a.float, _ = gojq.ToFloat64(l)
		b.float, _ = gojq.ToFloat64(r)
		return a, b, floats, nil
	}
	a.whole, b.whole = bigOf(l), bigOf(r)
	if max(canonical.Digits(a.whole), canonical.Digits(b.whole)) > 2*canonical.MaxDigits {
		return a, b, wholes, errDigits
	}
	return a, b, wholes, nil
}

func bigOf(v any) *big.Int {
	switch v := v.(type) {
	case int:
		return big.NewInt(int64(v))
	case *big.Int:
		return v
	default:
		panic(errors.New("not a whole number"))
	}
}

// Describe describes a value in a message: its type and the start of its JSON.
func Describe(v any) string {
	if v == nil {
		return "null"
	}
	return gojq.TypeOf(v) + " (" + gojq.Preview(v) + ")"
}
