package lua

import (
	"math"

	"github.com/yuin/gopher-lua/ast"
)

// expression compiles one.
func (c *compiler) expression(e ast.Expr) expression {
	switch e := e.(type) {
	case *ast.NilExpr:
		return constant(value{})
	case *ast.TrueExpr:
		return constant(boolean(true))
	case *ast.FalseExpr:
		return constant(boolean(false))
	case *ast.StringExpr:
		return constant(text(e.Value))
	case *ast.NumberExpr:
		n, ok := parseNumber(e.Value)
		if !ok {
			leave("number %s", e.Value)
		}
		return constant(number(n))
	case *ast.IdentExpr:
		return c.read(e.Value)
	case *ast.AttrGetExpr:
		return c.index(e)
	case *ast.TableExpr:
		return c.construct(e)
	case *ast.FuncCallExpr:
		return c.call(e)
	default:
		return c.operation(e)
	}
}

func constant(v value) expression { return func(*machine, *frame) value { return v } }

// read compiles the use of a name.
func (c *compiler) read(as string) expression {
	if n, _ := c.resolve(as); n == nil {
		switch as {
		case "KEYS":
			return func(m *machine, _ *frame) value { return m.keys }
		case "ARGV":
			return func(m *machine, _ *frame) value { return m.argv }
		}
	}
	slot, level := c.variable(as)
	switch level {
	case 0:
		return func(_ *machine, f *frame) value { return f.vars[slot] }
	case 1:
		return func(_ *machine, f *frame) value { return f.up.vars[slot] }
	default:
		return func(_ *machine, f *frame) value { return f.out(level).vars[slot] }
	}
}

func (c *compiler) index(e *ast.AttrGetExpr) expression {
	line := e.Line()
	object := c.expression(e.Object)
	if name, ok := e.Key.(*ast.NumberExpr); ok {
		n, _ := parseNumber(name.Value)
		place, key := int(n)-1, number(n)
		return func(m *machine, f *frame) value {
			o := object(m, f)
			if o.kind == isTable && place >= 0 && place < len(o.table.list) && float64(place+1) == n {
				return o.table.list[place]
			}
			return load(o, key, line)
		}
	}
	key := c.expression(e.Key)
	return func(m *machine, f *frame) value {
		o := object(m, f)
		return load(o, key(m, f), line)
	}
}

func load(object, key value, line int) value {
	if object.kind != isTable {
		fail(line, "attempt to index a %s value", object.kind)
	}
	return object.table.get(key)
}

func store(object, key, to value, line int) {
	switch {
	case object.kind != isTable:
		fail(line, "attempt to index a %s value", object.kind)
	case key.kind == isNil:
		fail(line, "table index is nil")
	}
	object.table.set(key, to)
}

// construct compiles {a, b, c = d, [e] = f}.
func (c *compiler) construct(e *ast.TableExpr) expression {
	var inList []ast.Expr
	var keys, values []expression
	for _, field := range e.Fields {
		if field.Key == nil {
			inList = append(inList, field.Value)
			continue
		}
		keys, values = append(keys, c.expression(field.Key)), append(values, c.expression(field.Value))
	}
	if n := len(e.Fields); n > 0 && e.Fields[n-1].Key != nil {
		// Only the very last field gives all of its values.
		inList = append(inList, nil)
	}
	l := c.elements(inList)
	line := e.Line()
	return func(m *machine, f *frame) value {
		t := &table{}
		if len(l.exprs) > 0 || l.rest != nil {
			base := l.push(m, f)
			t.list = append(make([]value, 0, max(len(m.pile)-base, 1)), m.pile[base:]...)
			m.pile = m.pile[:base]
			t.shorten()
		}
		if len(keys) > 0 {
			t.pairs = make([]pair, 0, min(len(keys), fewPairs+1))
		}
		o := value{kind: isTable, table: t}
		for i, key := range keys {
			k := key(m, f)
			store(o, k, values[i](m, f), line)
		}
		return o
	}
}

// elements compiles those of a list; a nil at its end says that the last has one
// value only.
func (c *compiler) elements(exprs []ast.Expr) list {
	if n := len(exprs); n > 0 && exprs[n-1] == nil {
		return c.list(exprs[:n-1], n-1)
	}
	return c.list(exprs, len(exprs)+1)
}

// operation compiles what has an operator.
func (c *compiler) operation(e ast.Expr) expression {
	switch e := e.(type) {
	case *ast.LogicalOpExpr:
		left, right := c.expression(e.Lhs), c.expression(e.Rhs)
		and := e.Operator == "and"
		return func(m *machine, f *frame) value {
			if v := left(m, f); v.holds() != and {
				return v
			}
			return right(m, f)
		}
	case *ast.RelationalOpExpr:
		return c.relation(e)
	case *ast.StringConcatOpExpr:
		return c.concat(e)
	case *ast.ArithmeticOpExpr:
		return c.arithmetic(e)
	case *ast.UnaryMinusOpExpr:
		operand, line := c.expression(e.Expr), e.Line()
		return func(m *machine, f *frame) value {
			return number(-numeric(operand(m, f), "attempt to perform arithmetic on a non-number value", line))
		}
	case *ast.UnaryNotOpExpr:
		operand := c.expression(e.Expr)
		return func(m *machine, f *frame) value { return boolean(!operand(m, f).holds()) }
	case *ast.UnaryLenOpExpr:
		operand, line := c.expression(e.Expr), e.Line()
		return func(m *machine, f *frame) value { return length(operand(m, f), line) }
	default:
		leave("%T", e)
		return nil
	}
}

func length(v value, line int) value {
	switch v.kind {
	case isString:
		return number(float64(len(v.str)))
	case isTable:
		return number(float64(len(v.table.list)))
	default:
		fail(line, "attempt to get length of a %s value", v.kind)
		return value{}
	}
}

// concat compiles a .. b .. c, which binds to the right, as one.
func (c *compiler) concat(e *ast.StringConcatOpExpr) expression {
	line := e.Line()
	parts := []expression{c.expression(e.Lhs)}
	rest := e.Rhs
	for {
		next, ok := rest.(*ast.StringConcatOpExpr)
		if !ok {
			break
		}
		parts, rest = append(parts, c.expression(next.Lhs)), next.Rhs
	}
	parts = append(parts, c.expression(rest))
	return func(m *machine, f *frame) value {
		base := len(m.joined)
		for _, part := range parts {
			v := part(m, f)
			s, ok := v.text(written)
			if !ok {
				fail(line, "attempt to concatenate a %s value", v.kind)
			}
			m.joined = append(m.joined, s...)
		}
		s := string(m.joined[base:])
		m.joined = m.joined[:base]
		return text(s)
	}
}

// numeric is a value as a number, or the end of the script.
func numeric(v value, message string, line int) float64 {
	if v.kind == isNumber {
		return v.num
	}
	n, ok := v.number()
	if !ok {
		fail(line, "%s", message)
	}
	return n
}

func (c *compiler) arithmetic(e *ast.ArithmeticOpExpr) expression {
	left, right, line := c.expression(e.Lhs), c.expression(e.Rhs), e.Line()
	operands := func(m *machine, f *frame) (a, b float64) {
		const message = "attempt to perform arithmetic on a non-number value"
		l := left(m, f)
		r := right(m, f)
		return numeric(l, message, line), numeric(r, message, line)
	}
	of := func(compute func(a, b float64) float64) expression {
		return func(m *machine, f *frame) value { return number(compute(operands(m, f))) }
	}
	switch e.Operator {
	case "+":
		return of(func(a, b float64) float64 { return a + b })
	case "-":
		return of(func(a, b float64) float64 { return a - b })
	case "*":
		return of(func(a, b float64) float64 { return a * b })
	case "/":
		return of(func(a, b float64) float64 { return a / b })
	case "%":
		return of(func(a, b float64) float64 { return a - math.Floor(a/b)*b })
	case "^":
		return of(math.Pow)
	default:
		leave("operator %s", e.Operator)
		return nil
	}
}

func (c *compiler) relation(e *ast.RelationalOpExpr) expression {
	left, right, line := c.expression(e.Lhs), c.expression(e.Rhs), e.Line()
	of := func(holds func(a, b value) bool) expression {
		return func(m *machine, f *frame) value {
			a := left(m, f)
			return boolean(holds(a, right(m, f)))
		}
	}
	switch e.Operator {
	case "==":
		return of(func(a, b value) bool { return a == b })
	case "~=":
		return of(func(a, b value) bool { return a != b })
	case "<":
		return of(func(a, b value) bool { return less(a, b, line) })
	case ">":
		return of(func(a, b value) bool { return less(b, a, line) })
	case "<=":
		return of(func(a, b value) bool { return lessOrEqual(a, b, line) })
	case ">=":
		return of(func(a, b value) bool { return lessOrEqual(b, a, line) })
	default:
		leave("operator %s", e.Operator)
		return nil
	}
}

func less(a, b value, line int) bool {
	if a.kind == isString && b.kind == isString {
		return a.str < b.str
	}
	comparable2(a, b, line)
	return a.num < b.num
}

func lessOrEqual(a, b value, line int) bool {
	if a.kind == isString && b.kind == isString {
		return a.str <= b.str
	}
	comparable2(a, b, line)
	return a.num <= b.num
}

// comparable2 ends the script if two values are not two numbers.
func comparable2(a, b value, line int) {
	switch {
	case a.kind == isNumber && b.kind == isNumber:
	case a.kind == b.kind:
		fail(line, "attempt to compare two %s values", a.kind)
	default:
		fail(line, "attempt to compare %s with %s", a.kind, b.kind)
	}
}
