package expr

import (
	"math"

	"github.com/itchyny/gojq"
)

// formula is an expression of paths, constants and operators, such as .count + 1, (.paid //
// false) and .total > 100. On plain values it has one result, which is computed without
// gojq's machine; gojq evaluates all other cases.
type formula struct {
	path        *path // set if the formula is only a path
	op          gojq.Operator
	left, right *formula
}

// formulaOf returns a query as a formula, or nil.
func formulaOf(q *gojq.Query) *formula {
	if q == nil || q.Meta != nil || len(q.Imports) > 0 || len(q.FuncDefs) > 0 || len(q.Patterns) > 0 {
		return nil
	}
	if q.Term != nil {
		if q.Term.Type == gojq.TermTypeQuery && len(q.Term.SuffixList) == 0 {
			return formulaOf(q.Term.Query)
		}
		return leafOf(q)
	}
	switch q.Op {
	case gojq.OpPipe, gojq.OpAlt, gojq.OpAnd, gojq.OpOr, gojq.OpAdd, gojq.OpSub, gojq.OpMul,
		gojq.OpEq, gojq.OpNe, gojq.OpLt, gojq.OpLe, gojq.OpGt, gojq.OpGe:
	default:
		return nil
	}
	o := &formula{op: q.Op, left: formulaOf(q.Left), right: formulaOf(q.Right)}
	if o.left == nil || o.right == nil {
		return nil
	}
	return o
}

// leafOf returns a query as a path that always has a result, or nil.
func leafOf(q *gojq.Query) *formula {
	p := pathOf(q)
	if p == nil {
		return nil
	}
	for _, step := range p.steps {
		if step.try {
			return nil
		}
	}
	return &formula{path: p}
}

// operate evaluates a formula. It returns false for cases that gojq must evaluate,
// including errors.
func (p *Program) operate(o *formula, s *Scope) (any, bool) {
	if o.path != nil {
		v, err := p.follow(o.path, s)
		return v, err == nil
	}
	left, ok := p.operate(o.left, s)
	if !ok {
		return nil, false
	}
	switch o.op {
	case gojq.OpPipe:
		inner := *s
		inner.Dot = left
		return p.operate(o.right, &inner)
	case gojq.OpAlt:
		if truth(left) {
			return left, true
		}
		return p.operate(o.right, s)
	case gojq.OpAnd, gojq.OpOr:
		if truth(left) == (o.op == gojq.OpOr) {
			return o.op == gojq.OpOr, true
		}
		right, ok := p.operate(o.right, s)
		return truth(right), ok
	default:
		right, ok := p.operate(o.right, s)
		if !ok {
			return nil, false
		}
		return combined(o.op, left, right)
	}
}

// combined applies an operator to two values.
func combined(op gojq.Operator, left, right any) (any, bool) {
	switch op {
	case gojq.OpAdd, gojq.OpSub, gojq.OpMul:
		return calculated(op, left, right)
	default:
		if !scalar(left) || !scalar(right) {
			return nil, false
		}
		return compared(op, gojq.Compare(left, right)), true
	}
}

// scalar reports whether a value can be compared in constant time.
func scalar(v any) bool {
	switch v := v.(type) {
	case nil, bool, int, string:
		return true
	case float64:
		return !math.IsNaN(v)
	default:
		return false
	}
}

func compared(op gojq.Operator, order int) bool {
	switch op {
	case gojq.OpEq:
		return order == 0
	case gojq.OpNe:
		return order != 0
	case gojq.OpLt:
		return order < 0
	case gojq.OpLe:
		return order <= 0
	case gojq.OpGt:
		return order > 0
	default:
		return order >= 0
	}
}

// calculated computes with two numbers. Large ones are left to gojq, whose integers are
// unbounded.
func calculated(op gojq.Operator, left, right any) (any, bool) {
	const large = 1 << 31
	l, lok := left.(int)
	r, rok := right.(int)
	if lok && rok {
		if max(l, -l, r, -r) >= large || l == math.MinInt || r == math.MinInt {
			return nil, false
		}
		switch op {
		case gojq.OpAdd:
			return l + r, true
		case gojq.OpSub:
			return l - r, true
		default:
			return l * r, true
		}
	}
	x, xok := float(left)
	y, yok := float(right)
	if !xok || !yok {
		return nil, false
	}
	var v float64
	switch op {
	case gojq.OpAdd:
		v = x + y
	case gojq.OpSub:
		v = x - y
	default:
		v = x * y
	}
	return v, !math.IsInf(v, 0) && !math.IsNaN(v)
}

func float(v any) (float64, bool) {
	switch v := v.(type) {
	case int:
		return float64(v), true
	case float64:
		return v, true
	default:
		return 0, false
	}
}
