package lua

import (
	"crypto/sha1"
	"encoding/hex"
	"math"
	"strconv"
	"strings"

	"github.com/yuin/gopher-lua/ast"
)

// library compiles a call of a Lua or Redis function.
func (c *compiler) library(name string, e *ast.FuncCallExpr) expression {
	l := c.list(e.Args, len(e.Args))
	args := l.exprs
	switch {
	case name == "string.format":
		return format(args, e)
	case name == "string.find":
		return findText(args, e)
	case name == "error" && len(args) > 0 && len(args) < 3:
		return raise(args, e)
	case len(args) == 1:
		return one(name, args[0], e.Line())
	case len(args) >= 2 && (name == "math.min" || name == "math.max"):
		return extreme(name, args, e.Line())
	case name == "string.sub" && (len(args) == 2 || len(args) == 3):
		return cut(args, e.Line())
	case name == "string.rep" && len(args) == 2:
		return repeat(args, e.Line())
	case name == "table.insert" && len(args) == 2:
		line := e.Line()
		return func(m *machine, f *frame) value {
			t := args[0](m, f)
			store(t, number(length(t, line).num+1), args[1](m, f), line)
			return value{}
		}
	case name == "table.concat" && len(args) == 2:
		return join(args[0], args[1], e.Line())
	default:
		leave("%s of %d arguments", name, len(args))
		return nil
	}
}

// one compiles a function with one argument.
func one(name string, arg expression, line int) expression {
	onText := func(of func(string) value) expression {
		return func(m *machine, f *frame) value { return of(word(arg(m, f), line)) }
	}
	onNumber := func(of func(float64) float64) expression {
		return func(m *machine, f *frame) value {
			return number(of(numeric(arg(m, f), "bad argument (number expected)", line)))
		}
	}
	switch name {
	case "tonumber":
		return func(m *machine, f *frame) value {
			v := arg(m, f)
			if n, ok := v.number(); ok {
				return number(n)
			}
			return value{}
		}
	case "tostring":
		return func(m *machine, f *frame) value { return text(shown(arg(m, f), line)) }
	case "type":
		return func(m *machine, f *frame) value { return text(arg(m, f).kind().String()) }
	case "redis.status_reply", "redis.error_reply":
		return func(m *machine, f *frame) value { return status(m, name, arg(m, f)) }
	case "table.concat":
		return join(arg, constant(text("")), line)
	case "string.len":
		return onText(func(s string) value { return number(float64(len(s))) })
	case "string.lower":
		return onText(func(s string) value { return text(strings.ToLower(s)) })
	case "string.upper":
		return onText(func(s string) value { return text(strings.ToUpper(s)) })
	case "redis.sha1hex":
		return onText(func(s string) value {
			sum := sha1.Sum([]byte(s)) //nolint:gosec // as Redis does
			return text(hex.EncodeToString(sum[:]))
		})
	case "math.floor":
		return onNumber(math.Floor)
	case "math.ceil":
		return onNumber(math.Ceil)
	case "math.abs":
		return onNumber(math.Abs)
	default:
		leave("%s", name)
		return nil
	}
}

// status implements redis.status_reply and redis.error_reply.
func status(m *machine, name string, v value) value {
	switch {
	case v.is != &aText:
		return m.reserve.single("err", "ERR wrong number or type of arguments")
	case name == "redis.status_reply":
		return m.reserve.single("ok", v.str)
	}
	s := strings.TrimPrefix(v.str, "-")
	if !strings.Contains(s, " ") {
		s = "ERR " + s
	}
	return m.reserve.single("err", s)
}

// word returns an argument that must be a string.
func word(v value, line int) string {
	s, ok := v.text(written)
	if !ok {
		fail(line, "bad argument (string expected, got %s)", v.kind())
	}
	return s
}

// shown implements tostring.
func shown(v value, line int) string {
	switch v.kind() { //nolint:exhaustive // the others are converted below
	case isNil:
		return "nil"
	case isBool:
		return strconv.FormatBool(v.holds())
	case isTable:
		fail(line, "the simulator writes no table's address")
	}
	s, _ := v.text(written)
	return s
}

// join compiles table.concat.
func join(list, between expression, line int) expression {
	return func(m *machine, f *frame) value {
		t := tabled(list(m, f), "concat", line)
		separator := word(between(m, f), line)
		var out strings.Builder
		for i := range t.list {
			s, ok := t.list[i].text(written)
			if !ok {
				fail(line, "invalid value (%s) at index %d in table for 'concat'", t.list[i].kind(), i+1)
			}
			if i > 0 {
				out.WriteString(separator)
			}
			out.WriteString(s)
		}
		return text(out.String())
	}
}

// match compiles string.match.
func (c *compiler) match(e *ast.FuncCallExpr) several {
	if len(e.Args) != 2 { //nolint:mnd // text and pattern
		leave("string.match of %d arguments", len(e.Args))
	}
	p, ok := e.Args[1].(*ast.StringExpr)
	if !ok || !plainPattern(p.Value) {
		leave("string.match of a pattern that is not known")
	}
	subject, line := c.expression(e.Args[0]), e.Line()
	return func(m *machine, f *frame) {
		m.matching.text, m.matching.pattern = word(subject(m, f), line), p.Value
		m.pile = m.matching.found(m.pile)
	}
}

// found appends the results of string.match: the captures, or the whole match.
func (m *pattern) found(out []value) []value {
	from, to, ok := m.find()
	switch {
	case !ok:
		return append(out, value{})
	case m.count == 0:
		return append(out, text(m.text[from:to]))
	}
	for _, c := range m.captures[:m.count] {
		if c.to == position {
			out = append(out, number(float64(c.from+1)))
			continue
		}
		out = append(out, text(m.text[c.from:c.to]))
	}
	return out
}

// bytes compiles string.byte(s, from, to) and string.byte(s, i).
func (c *compiler) bytes(e *ast.FuncCallExpr) several {
	args := c.list(e.Args, len(e.Args)).exprs
	switch len(args) {
	case 2: //nolint:mnd // text and index
		return byteAt(args[0], args[1], e.Line())
	case 3: //nolint:mnd // text, from, to
		part := cut(args, e.Line())
		return func(m *machine, f *frame) {
			for _, b := range []byte(part(m, f).str) {
				m.pile = append(m.pile, number(float64(b)))
			}
		}
	default:
		leave("string.byte of %d arguments", len(e.Args))
		return nil
	}
}

// byteAt compiles string.byte(s, i).
func byteAt(of, place expression, line int) several {
	return func(m *machine, f *frame) {
		s := word(of(m, f), line)
		i := int(numeric(place(m, f), "bad argument to 'byte' (number expected)", line))
		if i < 0 {
			i += len(s) + 1
		}
		if i >= 1 && i <= len(s) {
			m.pile = append(m.pile, number(float64(s[i-1])))
		}
	}
}

func extreme(name string, args []expression, line int) expression {
	pick := math.Min
	if name == "math.max" {
		pick = math.Max
	}
	return func(m *machine, f *frame) value {
		const message = "bad argument (number expected)"
		best := numeric(args[0](m, f), message, line)
		for _, arg := range args[1:] {
			best = pick(best, numeric(arg(m, f), message, line))
		}
		return number(best)
	}
}

// cut compiles string.sub.
func cut(args []expression, line int) expression {
	return func(m *machine, f *frame) value {
		s := word(args[0](m, f), line)
		const message = "bad argument to 'sub' (number expected)"
		from, to := int(numeric(args[1](m, f), message, line)), -1
		if len(args) > 2 {
			to = int(numeric(args[2](m, f), message, line))
		}
		if from < 0 {
			from = max(len(s)+from+1, 1)
		}
		if to < 0 {
			to = len(s) + to + 1
		}
		from, to = max(from, 1), min(to, len(s))
		if from > to {
			return text("")
		}
		return text(s[from-1 : to])
	}
}

// repeat compiles string.rep.
func repeat(args []expression, line int) expression {
	return func(m *machine, f *frame) value {
		s := word(args[0](m, f), line)
		n := numeric(args[1](m, f), "bad argument to 'rep' (number expected)", line)
		return text(strings.Repeat(s, max(int(n), 0)))
	}
}

// findText compiles string.find of a plain text, if only the index is used.
func findText(args []expression, e *ast.FuncCallExpr) expression {
	if len(args) != 4 { //nolint:mnd // text, part, from, plain
		leave("string.find of a pattern")
	}
	from, okFrom := e.Args[2].(*ast.NumberExpr)
	_, plain := e.Args[3].(*ast.TrueExpr)
	if !plain || !okFrom || from.Value != "1" {
		leave("string.find of a pattern")
	}
	line := e.Line()
	return func(m *machine, f *frame) value {
		s := word(args[0](m, f), line)
		if at := strings.Index(s, word(args[1](m, f), line)); at >= 0 {
			return number(float64(at + 1))
		}
		return value{}
	}
}

// raise compiles error.
func raise(args []expression, e *ast.FuncCallExpr) expression {
	line, level := e.Line(), constant(number(1))
	if len(args) > 1 {
		if _, ok := e.Args[1].(*ast.NumberExpr); !ok {
			leave("error of a computed level")
		}
		level = args[1]
	}
	return func(m *machine, f *frame) value {
		v := args[0](m, f)
		switch {
		case v.kind() == isTable:
			message := v.is.get(text("err"))
			if message.is != &aText {
				message = text("nil")
			}
			panic(&failure{message: message.str, line: 1, table: true})
		case v.is == &aText && level(m, f).num == 1:
			fail(line, "%s", v.str)
		}
		message, ok := v.text(written)
		if !ok {
			message = "nil"
		}
		panic(&failure{message: message, line: 1})
	}
}

// piece is a part of the result of string.format.
type piece func(m *machine, f *frame) string

// format compiles string.format with %d, %s, %.0f and %%.
func format(args []expression, e *ast.FuncCallExpr) expression {
	layout, ok := e.Args[0].(*ast.StringExpr)
	if !ok {
		leave("string.format of a computed layout")
	}
	parts := pieces(layout.Value, args[1:], e.Line())
	return func(m *machine, f *frame) value {
		if len(parts) == 1 {
			return text(parts[0](m, f))
		}
		var out strings.Builder
		for _, part := range parts {
			out.WriteString(part(m, f))
		}
		return text(out.String())
	}
}

// pieces parses a format string.
func pieces(layout string, args []expression, line int) (parts []piece) {
	fixed := func(s string) piece { return func(*machine, *frame) string { return s } }
	for {
		before, after, found := strings.Cut(layout, "%")
		if before != "" {
			parts = append(parts, fixed(before))
		}
		if !found {
			return parts
		}
		if behind, ok := strings.CutPrefix(after, "%"); ok {
			parts, layout = append(parts, fixed("%")), behind
			continue
		}
		if len(args) == 0 {
			leave("string.format of too few arguments")
		}
		part, behind := verb(after, args[0], line)
		parts, layout, args = append(parts, part), behind, args[1:]
	}
}

// verb compiles the verb after a %, and returns the rest of the format string.
func verb(layout string, arg expression, line int) (part func(m *machine, f *frame) string, rest string) {
	const message = "bad argument to 'format' (number expected)"
	if rest, ok := strings.CutPrefix(layout, "s"); ok {
		return func(m *machine, f *frame) string { return shown(arg(m, f), line) }, rest
	}
	if rest, ok := strings.CutPrefix(layout, "d"); ok {
		return func(m *machine, f *frame) string {
			return strconv.FormatInt(int64(numeric(arg(m, f), message, line)), 10)
		}, rest
	}
	if rest, ok := strings.CutPrefix(layout, ".0f"); ok {
		return func(m *machine, f *frame) string {
			return strconv.FormatFloat(numeric(arg(m, f), message, line), 'f', 0, 64)
		}, rest
	}
	leave("string.format of %%%s", layout)
	return nil, ""
}
