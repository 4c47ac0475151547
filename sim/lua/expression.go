package lua

import (
	"slices"

	"github.com/yuin/gopher-lua/ast"
)

// expression compiles an expression.
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

// index compiles t[k], with fast paths for KEYS, ARGV and constant names.
func (c *compiler) index(e *ast.AttrGetExpr) expression {
	line := e.Line()
	object := c.operand(e.Object)
	switch key := e.Key.(type) {
	case *ast.StringExpr:
		name, site := text(key.Value), c.site()
		return func(m *machine, f *frame) value {
			o := object.of(m, f)
			if o.kind() != isTable || o.is.more != nil {
				return load(o, name, line)
			}
			return o.is.field(name, &m.found[site])
		}
	case *ast.NumberExpr, *ast.ArithmeticOpExpr:
		place := c.numeric(e.Key)
		return func(m *machine, f *frame) value {
			o, n := object.of(m, f), place(m, f)
			if i := int(n) - 1; o.kind() == isTable && i >= 0 && i < len(o.is.list) && float64(i+1) == n {
				return o.is.list[i]
			}
			return load(o, number(n), line)
		}
	}
	key := c.operand(e.Key)
	return func(m *machine, f *frame) value {
		o := object.of(m, f)
		return load(o, key.of(m, f), line)
	}
}

// operand is an expression. Most operands are variables, which need no call.
type operand struct {
	expr expression // nil: it is a variable …
	slot int        // … of the function itself
}

// operand compiles an operand.
func (c *compiler) operand(e ast.Expr) operand {
	if ident, ok := e.(*ast.IdentExpr); ok {
		if n, level := c.resolve(ident.Value); n != nil && n.function == nil && level == 0 {
			return operand{slot: n.slot}
		}
	}
	return operand{expr: c.expression(e)}
}

func (o operand) of(m *machine, f *frame) value {
	if o.expr != nil {
		return o.expr(m, f)
	}
	return f.vars[o.slot]
}

// field looks up a field, first at the index where it was found last time: tables at the
// same place of a script usually have the same layout.
func (t *table) field(name value, at *uint8) value {
	if i := int(*at); i < len(t.pairs) {
		if p := &t.pairs[i]; p.key.is == &aText && p.key.str == name.str {
			return p.value
		}
	}
	i := t.find(name)
	if i < 0 {
		return value{}
	}
	*at = uint8(i) // there are few, see fewPairs
	return t.pairs[i].value
}

func load(object, key value, line int) value {
	switch {
	case object.kind() == isTable:
		return object.is.get(key)
	case object.is == &aText && !inStrings(key):
		return value{} // a string has the functions of the string library only
	default:
		fail(line, "attempt to index a %s value", object.kind())
		return value{}
	}
}

// inStrings reports whether the string library has a function of this name.
func inStrings(key value) bool {
	switch key.str {
	case "byte", "char", "dump", "find", "format", "gmatch", "gsub", "len", "lower", "match", "rep", "reverse", "sub", "upper":
		return key.is == &aText
	default:
		return false
	}
}

func store(object, key, to value, line int) {
	switch {
	case object.kind() != isTable:
		fail(line, "attempt to index a %s value", object.kind())
	case key.is == nil:
		fail(line, "table index is nil")
	}
	object.is.set(key, to)
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
	if names := namesOf(e); len(names) == len(keys) && len(names) <= fewPairs {
		return record(l, names, values)
	}
	line := e.Line()
	return func(m *machine, f *frame) value {
		o := value{is: m.list(f, &l)}
		for i, key := range keys {
			k := key(m, f)
			store(o, k, values[i](m, f), line)
		}
		return o
	}
}

// namesOf returns the distinct constant names among the keys.
func namesOf(e *ast.TableExpr) (names []value) {
	for _, field := range e.Fields {
		if name, ok := field.Key.(*ast.StringExpr); ok && !slices.Contains(names, text(name.Value)) {
			names = append(names, text(name.Value))
		}
	}
	return names
}

// record compiles a table with a list and a few constant names, without looking any of
// them up.
func record(l list, names []value, values []expression) expression {
	return func(m *machine, f *frame) value {
		t := m.list(f, &l)
		for i, of := range values {
			if v := of(m, f); v.is != nil {
				t.pairs = append(t.pairs, pair{names[i], v})
			}
		}
		return value{is: t}
	}
}

// list returns a new table with the values of a list.
func (m *machine) list(f *frame, l *list) *table {
	t := m.reserve.table()
	if len(l.exprs) > 0 || l.rest != nil {
		base := l.push(m, f)
		t.list = append(t.list, m.pile[base:]...)
		m.pile = m.pile[:base]
		t.shorten()
	}
	return t
}

// elements compiles the elements of a list; a nil at the end means that the last one has
// only one value.
func (c *compiler) elements(exprs []ast.Expr) list {
	if n := len(exprs); n > 0 && exprs[n-1] == nil {
		return c.list(exprs[:n-1], n-1)
	}
	return c.list(exprs, len(exprs)+1)
}

// operation compiles an operator expression.
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
	case *ast.RelationalOpExpr, *ast.UnaryNotOpExpr:
		holds := c.condition(e)
		return func(m *machine, f *frame) value { return boolean(holds(m, f)) }
	case *ast.StringConcatOpExpr:
		return c.concat(e)
	case *ast.ArithmeticOpExpr, *ast.UnaryMinusOpExpr:
		n := c.numeric(e)
		return func(m *machine, f *frame) value { return number(n(m, f)) }
	case *ast.UnaryLenOpExpr:
		operand, line := c.expression(e.Expr), e.Line()
		return func(m *machine, f *frame) value { return length(operand(m, f), line) }
	default:
		leave("%T", e)
		return nil
	}
}

func length(v value, line int) value {
	switch v.kind() {
	case isString:
		return number(float64(len(v.str)))
	case isTable:
		return number(float64(len(v.is.list)))
	default:
		fail(line, "attempt to get length of a %s value", v.kind())
		return value{}
	}
}

// concat compiles a .. b .. c, which is right-associative, as one operation.
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
				fail(line, "attempt to concatenate a %s value", v.kind())
			}
			m.joined = append(m.joined, s...)
		}
		s := string(m.joined[base:])
		m.joined = m.joined[:base]
		return text(s)
	}
}
