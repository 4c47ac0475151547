package lua

import (
	"github.com/yuin/gopher-lua/ast"

	"flunq.io/flunq/sim/resp"
)

// builtin returns the name of the Lua or Redis function that is called, such as
// redis.call; "" for one of the script's own.
func (c *compiler) builtin(call *ast.FuncCallExpr) string {
	if call.Func == nil || call.Receiver != nil {
		leave("a method")
	}
	switch fn := call.Func.(type) {
	case *ast.IdentExpr:
		if n, _ := c.resolve(fn.Value); n != nil {
			return ""
		}
		return fn.Value
	case *ast.AttrGetExpr:
		library, okLibrary := fn.Object.(*ast.IdentExpr)
		name, okName := fn.Key.(*ast.StringExpr)
		if !okLibrary || !okName {
			break
		}
		if n, _ := c.resolve(library.Value); n == nil {
			return library.Value + "." + name.Value
		}
	}
	leave("a call of what is no name")
	return ""
}

// list is a list of expressions, of which the last may have any number of values.
type list struct {
	exprs []expression
	rest  several
}

// push evaluates the list onto the machine's stack, and returns the index of its first
// value.
func (l *list) push(m *machine, f *frame) (base int) {
	base = len(m.pile)
	for _, expr := range l.exprs {
		v := expr(m, f)
		m.pile = append(m.pile, v)
	}
	if l.rest != nil {
		l.rest(m, f)
	}
	return base
}

// list compiles expressions. If there are fewer than wanted, the last one gives all of
// its values.
func (c *compiler) list(exprs []ast.Expr, wanted int) list {
	var l list
	for i, e := range exprs {
		if i == len(exprs)-1 && len(exprs) < wanted {
			if l.rest = c.severalOf(e); l.rest != nil {
				break
			}
		}
		l.exprs = append(l.exprs, c.expression(e))
	}
	return l
}

// severalOf compiles an expression with any number of values; nil if it has exactly one.
func (c *compiler) severalOf(e ast.Expr) several {
	call, ok := e.(*ast.FuncCallExpr)
	if !ok || call.AdjustRet {
		if _, ok := e.(*ast.Comma3Expr); ok {
			leave("...")
		}
		return nil
	}
	switch name := c.builtin(call); name {
	case "":
		perform := c.own(call)
		return func(m *machine, f *frame) {
			perform(m, f)
			m.pile = append(m.pile, m.results...)
		}
	case "unpack":
		p := c.part(call)
		return func(m *machine, f *frame) {
			t, from, to := p.of(m, f)
			if from >= 1 && to <= len(t.list) {
				m.pile = append(m.pile, t.list[from-1:max(from-1, to)]...)
				return
			}
			for i := from; i <= to; i++ {
				m.pile = append(m.pile, t.get(number(float64(i))))
			}
		}
	case "string.match":
		return c.match(call)
	case "string.byte":
		return c.bytes(call)
	case "string.find", "string.gsub", "pcall", "xpcall", "next", "select", "ipairs", "pairs":
		leave("several values of %s", name)
	}
	return nil
}

// call compiles a call that gives one value.
func (c *compiler) call(e *ast.FuncCallExpr) expression {
	switch name := c.builtin(e); name {
	case "":
		perform := c.own(e)
		return func(m *machine, f *frame) value {
			perform(m, f)
			if len(m.results) == 0 {
				return value{}
			}
			return m.results[0]
		}
	case "redis.call":
		w := c.words(e)
		return func(m *machine, f *frame) value {
			reply := m.perform(f, w)
			return m.reserve.seen(&reply)
		}
	case "redis.pcall":
		w := c.words(e)
		return func(m *machine, f *frame) value {
			reply := m.try(f, w)
			return m.reserve.seen(&reply)
		}
	case "unpack", "string.match", "string.byte":
		all := c.severalOf(e)
		return func(m *machine, f *frame) value {
			base := len(m.pile)
			all(m, f)
			v := value{}
			if len(m.pile) > base {
				v = m.pile[base]
			}
			m.pile = m.pile[:base]
			return v
		}
	default:
		return c.library(name, e)
	}
}

// effect compiles a call whose value is not used.
func (c *compiler) effect(e *ast.FuncCallExpr) statement {
	switch c.builtin(e) {
	case "":
		perform := c.own(e)
		return func(m *machine, f *frame) flow {
			perform(m, f)
			return onward
		}
	case "redis.call":
		w := c.words(e)
		return func(m *machine, f *frame) flow {
			m.perform(f, w)
			return onward
		}
	default:
		expr := c.call(e)
		return func(m *machine, f *frame) flow {
			expr(m, f)
			return onward
		}
	}
}

// own compiles a call of a function of the script, which leaves its values in the
// machine's results.
func (c *compiler) own(e *ast.FuncCallExpr) several {
	ident, ok := e.Func.(*ast.IdentExpr)
	if !ok {
		leave("a call of what is no name")
	}
	n, level := c.resolve(ident.Value)
	if n.function == nil {
		leave("%s is a variable", ident.Value)
	}
	fn, line := n.function, e.Line()
	args := c.list(e.Args, fn.params)
	if len(args.exprs) > fn.params {
		leave("more arguments than %s takes", ident.Value)
	}
	return func(m *machine, f *frame) {
		inner := m.enter(fn, f.out(level), line)
		for i, arg := range args.exprs {
			v := arg(m, f)
			inner.vars[i] = v
		}
		known := len(args.exprs)
		if args.rest != nil {
			base := len(m.pile)
			args.rest(m, f)
			known += copy(inner.vars[known:fn.params], m.pile[base:])
			m.pile = m.pile[:base]
		}
		clear(inner.vars[known:fn.params])
		if run(m, inner, fn.body) != returned {
			m.results = m.results[:0]
		}
		m.depth--
	}
}

// words are the arguments of a command, of which the last may be a part of a list.
type words struct {
	list

	fixed []string // the constant arguments; "" for the others
	part  *part
	line  int
}

// part is unpack(list, from, to).
type part struct {
	list, from, to expression
	line           int
}

func (c *compiler) part(call *ast.FuncCallExpr) *part {
	if len(call.Args) < 1 || len(call.Args) > 3 {
		leave("unpack of %d arguments", len(call.Args))
	}
	p := &part{list: c.expression(call.Args[0]), line: call.Line()}
	if len(call.Args) > 1 {
		p.from = c.expression(call.Args[1])
	}
	if len(call.Args) > 2 {
		p.to = c.expression(call.Args[2])
	}
	return p
}

// of evaluates the table and the range.
func (p *part) of(m *machine, f *frame) (t *table, from, to int) {
	const message = "bad argument to 'unpack' (number expected)"
	t = tabled(p.list(m, f), "unpack", p.line)
	from, to = 1, len(t.list)
	if p.from != nil {
		from = int(numeric(p.from(m, f), message, p.line))
	}
	if p.to != nil {
		to = int(numeric(p.to(m, f), message, p.line))
	}
	return t, from, to
}

func (c *compiler) words(e *ast.FuncCallExpr) *words {
	w := &words{line: e.Line()}
	exprs := e.Args
	if n := len(exprs); n > 0 {
		if call, ok := exprs[n-1].(*ast.FuncCallExpr); ok && !call.AdjustRet && c.builtin(call) == "unpack" {
			w.part = c.part(call)
			exprs = exprs[:n-1]
		}
	}
	wanted := len(exprs) + 1
	if w.part != nil {
		wanted = len(exprs)
	}
	w.list = c.list(exprs, wanted)
	w.fixed = make([]string, len(w.exprs))
	for i := range w.exprs {
		if s, ok := exprs[i].(*ast.StringExpr); ok {
			w.fixed[i] = s.Value
		}
	}
	return w
}

// collect appends the words to m.words; false if one is neither a string nor a number.
func (w *words) collect(m *machine, f *frame) bool {
	for i, s := range w.fixed {
		if s == "" {
			var ok bool
			if s, ok = w.exprs[i](m, f).text(argument); !ok {
				return false
			}
		}
		m.words = append(m.words, s)
	}
	if w.rest != nil {
		base := len(m.pile)
		w.rest(m, f)
		rest := m.pile[base:]
		m.pile = m.pile[:base]
		return m.addWords(rest)
	}
	if w.part == nil {
		return true
	}
	t, from, to := w.part.of(m, f)
	if from >= 1 && to <= len(t.list) {
		return m.addWords(t.list[from-1 : max(from-1, to)])
	}
	for i := from; i <= to; i++ {
		if !m.addWords([]value{t.get(number(float64(i)))}) {
			return false
		}
	}
	return true
}

func (m *machine) addWords(values []value) bool {
	for i := range values {
		s, ok := values[i].text(argument)
		if !ok {
			return false
		}
		m.words = append(m.words, s)
	}
	return true
}

// perform executes a command; an error ends the script.
func (m *machine) perform(f *frame, w *words) resp.Reply {
	reply := m.try(f, w)
	if reply.Kind == resp.Error {
		panic(&failure{message: reply.Text, line: w.line, table: true})
	}
	return reply
}

// try executes a command.
func (m *machine) try(f *frame, w *words) resp.Reply {
	base := len(m.words)
	reply := resp.Fail(badArgument)
	if w.collect(m, f) {
		reply = command(m.redis, m.words[base:])
	}
	m.words = m.words[:base]
	return reply
}
