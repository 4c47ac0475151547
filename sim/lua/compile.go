package lua

import (
	"fmt"

	"github.com/yuin/gopher-lua/ast"
)

// program is a script compiled to Go closures. It supports the part of Lua that Redis
// scripts usually need; scripts that need more run on gopher-lua.
type program struct {
	body  []statement
	slots int // number of its variables
	sites int // number of places where a field is looked up
}

// statement is a compiled statement. f holds the variables of its function.
type statement func(m *machine, f *frame) flow

// expression is a compiled expression with one value.
type expression func(m *machine, f *frame) value

// several is a compiled expression with any number of values, which it pushes onto the
// machine's stack.
type several func(m *machine, f *frame)

// flow says how to continue after a statement.
type flow uint8

const (
	onward flow = iota
	broken
	returned
)

// function is a function of a script. It is only called by its name, so it never outlives
// the function around it.
type function struct {
	params, slots int
	body          []statement
}

// unsupported is the compiler's panic about an unsupported feature.
type unsupported struct{ what string }

func leave(format string, args ...any) { panic(unsupported{fmt.Sprintf(format, args...)}) }

// compileProgram compiles a script. If it returns no program, why names the unsupported
// feature.
func compileProgram(chunk []ast.Stmt) (p *program, why string) {
	defer func() {
		if r := recover(); r != nil {
			u, ok := r.(unsupported)
			if !ok {
				panic(r)
			}
			p, why = nil, u.what
		}
	}()
	c := &compiler{}
	body := c.block(chunk)
	return &program{body: body, slots: c.most, sites: c.sites}, ""
}

// compiler knows what names mean at a place of a script.
type compiler struct {
	outer *compiler // of the enclosing function
	names []name    // the innermost last
	slots int       // in use
	most  int       // the maximum so far
	sites int       // number of places in the whole script where a field is looked up
}

// site returns the number of a new place where a field is looked up.
func (c *compiler) site() int {
	for c.outer != nil {
		c = c.outer
	}
	c.sites++
	return c.sites - 1
}

// name is a variable or a function.
type name struct {
	name     string
	slot     int
	function *function
}

// block compiles statements with a scope of their own.
func (c *compiler) block(list []ast.Stmt) []statement {
	known, slots := len(c.names), c.slots
	out := make([]statement, 0, len(list))
	for _, stmt := range list {
		if s := c.statement(stmt); s != nil {
			out = append(out, s)
		}
	}
	c.names, c.slots = c.names[:known], slots
	return out
}

// declare adds a variable to the scope.
func (c *compiler) declare(as string) (slot int) {
	slot = c.slots
	c.names = append(c.names, name{name: as, slot: slot})
	c.slots++
	c.most = max(c.most, c.slots)
	return slot
}

// resolve finds what a name means, and how many functions further out it is declared.
func (c *compiler) resolve(as string) (n *name, level int) {
	for at := c; at != nil; at = at.outer {
		for i := len(at.names) - 1; i >= 0; i-- {
			if at.names[i].name == as {
				return &at.names[i], level
			}
		}
		level++
	}
	return nil, 0
}

// variable returns the slot of a variable and how many functions further out it is.
func (c *compiler) variable(as string) (slot, level int) {
	n, level := c.resolve(as)
	if n == nil || n.function != nil {
		leave("%s as a variable", as)
	}
	return n.slot, level
}

// statement compiles a statement; nil if it does nothing.
func (c *compiler) statement(stmt ast.Stmt) statement {
	switch s := stmt.(type) {
	case *ast.LocalAssignStmt:
		return c.local(s)
	case *ast.AssignStmt:
		return c.assign(s)
	case *ast.FuncCallStmt:
		call, ok := s.Expr.(*ast.FuncCallExpr)
		if !ok {
			leave("a statement that is no call")
		}
		return c.effect(call)
	case *ast.DoBlockStmt:
		body := c.block(s.Stmts)
		return func(m *machine, f *frame) flow { return run(m, f, body) }
	case *ast.WhileStmt:
		return c.while(s)
	case *ast.IfStmt:
		return c.conditional(s)
	case *ast.NumberForStmt:
		return c.count(s)
	case *ast.GenericForStmt:
		return c.each(s)
	case *ast.ReturnStmt:
		return c.giveBack(s)
	case *ast.BreakStmt:
		return func(*machine, *frame) flow { return broken }
	default:
		leave("%T", stmt)
		return nil
	}
}

// run executes statements until one ends the flow.
func run(m *machine, f *frame, list []statement) flow {
	for _, s := range list {
		if how := s(m, f); how != onward {
			return how
		}
	}
	return onward
}

// local compiles the declaration of variables or of a function.
func (c *compiler) local(s *ast.LocalAssignStmt) statement {
	if len(s.Names) == 1 && len(s.Exprs) == 1 {
		if fn, ok := s.Exprs[0].(*ast.FunctionExpr); ok {
			c.define(s.Names[0], fn)
			return nil
		}
	}
	l := c.list(s.Exprs, len(s.Names))
	slots := make([]int, len(s.Names))
	for i, as := range s.Names {
		slots[i] = c.declare(as)
	}
	if len(slots) == 1 && l.rest == nil && len(l.exprs) == 1 {
		slot, expr := slots[0], l.exprs[0]
		return func(m *machine, f *frame) flow {
			f.vars[slot] = expr(m, f)
			return onward
		}
	}
	first := slots[0] // the other slots follow it
	return func(m *machine, f *frame) flow {
		base := l.push(m, f)
		n := copy(f.vars[first:first+len(slots)], m.pile[base:])
		clear(f.vars[first+n : first+len(slots)])
		m.pile = m.pile[:base]
		return onward
	}
}

// define compiles a function, which may be recursive.
func (c *compiler) define(as string, fn *ast.FunctionExpr) {
	if fn.ParList.HasVargs {
		leave("a function of any number of arguments")
	}
	f := &function{params: len(fn.ParList.Names)}
	c.names = append(c.names, name{name: as, function: f})
	inner := &compiler{outer: c}
	for _, param := range fn.ParList.Names {
		inner.declare(param)
	}
	f.body = inner.block(fn.Stmts)
	f.slots = inner.most
}

func (c *compiler) assign(s *ast.AssignStmt) statement {
	if len(s.Lhs) != 1 || len(s.Rhs) != 1 {
		return c.assignSeveral(s)
	}
	expr := c.expression(s.Rhs[0])
	switch to := s.Lhs[0].(type) {
	case *ast.IdentExpr:
		slot, level := c.variable(to.Value)
		if level == 0 {
			return func(m *machine, f *frame) flow {
				f.vars[slot] = expr(m, f)
				return onward
			}
		}
		return func(m *machine, f *frame) flow {
			v := expr(m, f)
			f.out(level).vars[slot] = v
			return onward
		}
	case *ast.AttrGetExpr:
		object, key, line := c.expression(to.Object), c.expression(to.Key), to.Line()
		return func(m *machine, f *frame) flow {
			o, k := object(m, f), key(m, f)
			store(o, k, expr(m, f), line)
			return onward
		}
	default:
		leave("an assignment to %T", to)
		return nil
	}
}

// target is what is assigned to: a variable, or a field of a table.
type target struct {
	slot, level int
	object, key expression // nil: it is a variable
	line        int
}

func (c *compiler) target(e ast.Expr) (t target) {
	switch to := e.(type) {
	case *ast.IdentExpr:
		t.slot, t.level = c.variable(to.Value)
	case *ast.AttrGetExpr:
		t.object, t.key, t.line = c.expression(to.Object), c.expression(to.Key), to.Line()
	default:
		leave("an assignment to %T", to)
	}
	return t
}

// assignSeveral compiles an assignment to several targets.
func (c *compiler) assignSeveral(s *ast.AssignStmt) statement {
	l := c.list(s.Rhs, len(s.Lhs))
	targets := make([]target, len(s.Lhs))
	for i, to := range s.Lhs {
		targets[i] = c.target(to)
	}
	return func(m *machine, f *frame) flow {
		places := len(m.pile)
		for i := range targets {
			if t := &targets[i]; t.object != nil {
				o, k := t.object(m, f), t.key(m, f)
				m.pile = append(m.pile, o, k)
			}
		}
		base, at := l.push(m, f), places
		for i := range targets {
			v := value{}
			if base+i < len(m.pile) {
				v = m.pile[base+i]
			}
			if t := &targets[i]; t.object == nil {
				f.out(t.level).vars[t.slot] = v
			} else {
				store(m.pile[at], m.pile[at+1], v, t.line)
				at += 2
			}
		}
		m.pile = m.pile[:places]
		return onward
	}
}

func (c *compiler) conditional(s *ast.IfStmt) statement {
	condition, then, otherwise := c.condition(s.Condition), c.block(s.Then), c.block(s.Else)
	return func(m *machine, f *frame) flow {
		if condition(m, f) {
			return run(m, f, then)
		}
		return run(m, f, otherwise)
	}
}

// tabled returns an argument that must be a table.
func tabled(v value, of string, line int) *table {
	if v.kind() != isTable {
		fail(line, "bad argument #1 to '%s' (table expected, got %s)", of, v.kind())
	}
	return v.is
}

func (c *compiler) giveBack(s *ast.ReturnStmt) statement {
	l := c.list(s.Exprs, len(s.Exprs)+1)
	if len(l.exprs) == 1 && l.rest == nil {
		expr := l.exprs[0]
		return func(m *machine, f *frame) flow {
			v := expr(m, f)
			m.results = append(m.results[:0], v)
			return returned
		}
	}
	return func(m *machine, f *frame) flow {
		base := l.push(m, f)
		m.results = append(m.results[:0], m.pile[base:]...)
		m.pile = m.pile[:base]
		return returned
	}
}
