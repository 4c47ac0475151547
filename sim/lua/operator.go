package lua

import (
	"math"

	"github.com/yuin/gopher-lua/ast"
)

// computation is an expression with a number, decision one with a condition.
type (
	computation func(m *machine, f *frame) float64
	decision    func(m *machine, f *frame) bool
)

// numeric converts a value to a number, or ends the script.
func numeric(v value, message string, line int) float64 {
	if v.is == &aNumber {
		return v.num
	}
	n, ok := v.number()
	if !ok {
		fail(line, "%s", message)
	}
	return n
}

const noNumber = "attempt to perform arithmetic on a non-number value"

// numeric compiles an expression whose value must be a number.
func (c *compiler) numeric(e ast.Expr) computation {
	switch e := e.(type) {
	case *ast.NumberExpr:
		n, ok := parseNumber(e.Value)
		if !ok {
			leave("number %s", e.Value)
		}
		return func(*machine, *frame) float64 { return n }
	case *ast.ArithmeticOpExpr:
		return c.arithmetic(e)
	case *ast.UnaryMinusOpExpr:
		operand := c.numeric(e.Expr)
		return func(m *machine, f *frame) float64 { return -operand(m, f) }
	}
	expr, line := c.operand(e), e.Line()
	return func(m *machine, f *frame) float64 { return numeric(expr.of(m, f), noNumber, line) }
}

func (c *compiler) arithmetic(e *ast.ArithmeticOpExpr) computation {
	left, right := c.numeric(e.Lhs), c.numeric(e.Rhs)
	if pair := c.pair(e); pair != nil {
		return pair
	}
	if e.Operator == "*" {
		if n, ok := e.Rhs.(*ast.NumberExpr); ok {
			by, _ := parseNumber(n.Value)
			return func(m *machine, f *frame) float64 { return left(m, f) * by }
		}
	}
	switch e.Operator {
	case "+":
		return func(m *machine, f *frame) float64 { return left(m, f) + right(m, f) }
	case "-":
		return func(m *machine, f *frame) float64 { return left(m, f) - right(m, f) }
	case "*":
		return func(m *machine, f *frame) float64 { return left(m, f) * right(m, f) }
	case "/":
		return func(m *machine, f *frame) float64 { return left(m, f) / right(m, f) }
	case "%":
		return func(m *machine, f *frame) float64 {
			a, b := left(m, f), right(m, f)
			return a - math.Floor(a/b)*b
		}
	case "^":
		return func(m *machine, f *frame) float64 { return math.Pow(left(m, f), right(m, f)) }
	default:
		leave("operator %s", e.Operator)
		return nil
	}
}

// pair compiles a * 256 + b with two variables, by which scripts read two-byte numbers,
// as one operation; nil if it is something else.
func (c *compiler) pair(e *ast.ArithmeticOpExpr) computation {
	product, ok := e.Lhs.(*ast.ArithmeticOpExpr)
	if !ok || e.Operator != "+" || product.Operator != "*" {
		return nil
	}
	factor, ok := product.Rhs.(*ast.NumberExpr)
	high, low := c.operand(product.Lhs), c.operand(e.Rhs)
	if !ok || high.expr != nil || low.expr != nil {
		return nil
	}
	by, _ := parseNumber(factor.Value)
	line := e.Line()
	return func(_ *machine, f *frame) float64 {
		a, b := &f.vars[high.slot], &f.vars[low.slot]
		if a.is == &aNumber && b.is == &aNumber {
			return a.num*by + b.num
		}
		return numeric(*a, noNumber, line)*by + numeric(*b, noNumber, line)
	}
}

// condition compiles an expression that is only tested.
func (c *compiler) condition(e ast.Expr) decision {
	switch e := e.(type) {
	case *ast.LogicalOpExpr:
		left, right := c.condition(e.Lhs), c.condition(e.Rhs)
		if e.Operator == "and" {
			return func(m *machine, f *frame) bool { return left(m, f) && right(m, f) }
		}
		return func(m *machine, f *frame) bool { return left(m, f) || right(m, f) }
	case *ast.RelationalOpExpr:
		return c.relation(e)
	case *ast.UnaryNotOpExpr:
		operand := c.condition(e.Expr)
		return func(m *machine, f *frame) bool { return !operand(m, f) }
	}
	expr := c.operand(e)
	return func(m *machine, f *frame) bool { return expr.of(m, f).holds() }
}

func (c *compiler) relation(e *ast.RelationalOpExpr) decision {
	left, right, line := c.operand(e.Lhs), c.operand(e.Rhs), e.Line()
	of := func(holds func(a, b value, line int) bool) decision {
		return func(m *machine, f *frame) bool {
			a := left.of(m, f)
			return holds(a, right.of(m, f), line)
		}
	}
	equal := e.Operator == "=="
	switch e.Operator {
	case "==", "~=":
		if s, ok := e.Rhs.(*ast.StringExpr); ok {
			return func(m *machine, f *frame) bool {
				a := left.of(m, f)
				return (a.is == &aText && a.str == s.Value) == equal
			}
		}
		return func(m *machine, f *frame) bool {
			a := left.of(m, f)
			return (a == right.of(m, f)) == equal
		}
	case "<":
		return of(less)
	case ">":
		return of(func(a, b value, line int) bool { return less(b, a, line) })
	case "<=":
		return of(lessOrEqual)
	case ">=":
		return of(func(a, b value, line int) bool { return lessOrEqual(b, a, line) })
	default:
		leave("operator %s", e.Operator)
		return nil
	}
}

func less(a, b value, line int) bool {
	if a.is == &aText && b.is == &aText {
		return a.str < b.str
	}
	checkNumbers(a, b, line)
	return a.num < b.num
}

func lessOrEqual(a, b value, line int) bool {
	if a.is == &aText && b.is == &aText {
		return a.str <= b.str
	}
	checkNumbers(a, b, line)
	return a.num <= b.num
}

// checkNumbers ends the script if two values cannot be compared.
func checkNumbers(a, b value, line int) {
	switch {
	case a.is == &aNumber && b.is == &aNumber:
	case a.kind() == b.kind():
		fail(line, "attempt to compare two %s values", a.kind())
	default:
		fail(line, "attempt to compare %s with %s", a.kind(), b.kind())
	}
}
