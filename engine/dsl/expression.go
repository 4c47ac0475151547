package dsl

import (
	"bytes"
	"errors"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"flunq.io/flunq/engine/expr"
	"flunq.io/flunq/engine/yaml"
)

// expression compiles a field that is an expression, with or without ${ }. It returns nil
// for a nil node.
func (p *parser) expression(n *yaml.Node, what string, s scope) *expr.Program {
	src, ok := p.text(n, what)
	if !ok {
		return nil
	}
	inner := whole(src)
	if !inner.is {
		if strings.HasPrefix(strings.TrimSpace(src), "${") {
			p.unclosed(n)
			return nil
		}
		inner.source = src
	}
	return p.compile(n, inner, s)
}

// condition compiles an expression used as a condition. It returns nil for a nil node.
func (p *parser) condition(n *yaml.Node, what string, s scope) *expr.Program {
	program := p.expression(n, what, s)
	if program != nil {
		p.warnDoubts(n, program.ConditionDoubts())
	}
	return program
}

// warnDoubts warns of parts of an expression that its author may not have meant.
func (p *parser) warnDoubts(n *yaml.Node, doubts []expr.Doubt) {
	offset := whole(n.Text()).offset
	for _, d := range doubts {
		p.Warn(p.posWithin(n, offset+d.Offset), d.Suggestion, "%s", d.Message)
	}
}

// template parses a field that is an expression, or a map that contains expressions.
func (p *parser) template(n *yaml.Node, what string, s scope) *expr.Value {
	switch {
	case n == nil:
		return nil
	case n.Shape == yaml.Object:
		return p.value(n, s)
	case n.Shape != yaml.Text:
		p.wrong(n, what, "an expression or a map")
		return nil
	}
	return computed(p.expression(n, what, s))
}

func computed(program *expr.Program) *expr.Value {
	if program == nil {
		return nil
	}
	return expr.Computed(program)
}

// value parses data in which strings of the form ${ … } are expressions. It returns nil
// only for a nil node.
func (p *parser) value(n *yaml.Node, s scope) *expr.Value {
	if n == nil {
		return nil
	}
	switch n.Shape {
	case yaml.Object:
		if name := unquotedTemplate(n); name != "" && yaml.SpacedKey(n.Fields[0].Key) != "" {
			p.Warn(n.Pos, "write a space after the colon: {"+yaml.SpacedKey(n.Fields[0].Key)+"}", "this is a map with the empty key %s", yaml.Quote(n.Fields[0].Key))
		} else if name != "" {
			p.Warn(n.Pos, "to have the text, quote it: \""+name+"\"", "this is a map with the empty key %s", yaml.Quote(n.Fields[0].Key))
		}
		fields := make([]expr.Field, len(n.Fields))
		for i, f := range n.Fields {
			fields[i] = expr.Field{Key: f.Key, Value: p.value(f.Value, s)}
		}
		return expr.Object(fields)
	case yaml.List:
		items := make([]*expr.Value, len(n.Items))
		for i, item := range n.Items {
			items[i] = p.value(item, s)
		}
		return expr.List(items)
	case yaml.Text:
		return p.textValue(n, s)
	default:
		return expr.Literal(n.Data)
	}
}

func (p *parser) textValue(n *yaml.Node, s scope) *expr.Value {
	src := n.Text()
	if inner := whole(src); inner.is {
		if program := p.compile(n, inner, s); program != nil {
			return expr.Computed(program)
		}
		return expr.Literal(nil)
	}
	if strings.HasPrefix(strings.TrimSpace(src), "${") && !yaml.HasClosingBrace(src) {
		p.unclosed(n)
		return expr.Literal(src)
	}
	rewritten, mixed := interpolation(src)
	switch {
	case p.loose && mixed:
		if program := p.compile(n, inside{source: rewritten}, s); program != nil {
			return expr.Computed(program)
		}
	case p.loose:
		return p.looseValue(src, s)
	case mixed:
		p.Warn(n.Pos, "to fill it in, write: '${ "+strings.ReplaceAll(yaml.Cut(rewritten, 200), "'", "''")+" }'",
			"the ${ } inside of longer text is not evaluated")
	default:
		p.plainText(n, src, s)
	}
	return expr.Literal(src)
}

var variablePattern = regexp.MustCompile(`^\$[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*|\[[0-9]+\])*$`)

// leadingName returns the name of the variable at the start of "$name.member".
func leadingName(src string) string {
	name, _, _ := strings.Cut(strings.TrimPrefix(src, "$"), ".")
	name, _, _ = strings.Cut(name, "[")
	return name
}

// looseValue returns the value of text in loose mode: an expression if it compiles, else
// the text itself.
func (p *parser) looseValue(src string, s scope) *expr.Value {
	if strings.TrimSpace(src) == "" || p.overBudget(len(src)) {
		return expr.Literal(src)
	}
	if _, err := expr.Compile(src, s.has); err != nil {
		return expr.Literal(src)
	}
	program, err := expr.Compile("try ("+src+"\n) catch "+jqString(src), s.has)
	if err != nil {
		return expr.Literal(src)
	}
	return expr.Computed(program)
}

// overBudget counts the compiled bytes, and reports whether they exceed the limit.
func (p *parser) overBudget(size int) bool {
	p.compiled += size
	return p.compiled > MaxCompiled
}

// compile compiles an expression, and reports its mistakes at their positions.
func (p *parser) compile(n *yaml.Node, src inside, s scope) *expr.Program {
	if p.overBudget(len(src.source)) {
		p.Mistake(n.Pos, "", "the expressions of the document have more than %d bytes together", MaxCompiled)
		return nil
	}
	program, err := expr.Compile(src.source, s.has)
	if current := s.current(src.source); err == nil && current != src.source {
		program, err = expr.Compile(current, s.has)
	}
	if err == nil {
		if src.is || src.source == n.Text() {
			p.warnDoubts(n, program.Doubts())
		}
		for _, name := range program.Secrets() {
			p.secret(p.posWithin(n, src.offset+max(variableAt(src.source, "secrets"), 0)), name)
		}
		return program
	}
	for _, one := range each(err) {
		if unknown, ok := errors.AsType[*expr.UnknownVariable](one); ok {
			p.unknownVariable(n, src, unknown.Name, s)
		} else {
			p.badExpression(n, src, one)
		}
	}
	return nil
}

// each returns the errors that were joined into one.
func each(err error) []error {
	var joined interface{ Unwrap() []error }
	if errors.As(err, &joined) {
		return joined.Unwrap()
	}
	return []error{err}
}

func (p *parser) unknownVariable(n *yaml.Node, src inside, name string, s scope) {
	offset := variableAt(src.source, name)
	at := n.Pos
	if offset >= 0 {
		at = p.posWithin(n, src.offset+offset)
	}
	var candidates []string
	for _, known := range s {
		if !strings.Contains(known, ".") {
			candidates = append(candidates, "$"+known)
		}
	}
	message := "there is no variable %s"
	if scope(nil).exported().has(name) {
		message = "the variable %s has no value here"
	}
	p.Mistake(at, p.guess("$"+name, candidates), message, yaml.Quote("$"+name))
}

// variableAt returns the index at which an expression names a variable, or -1.
func variableAt(src, name string) int {
	for from := 0; ; {
		i := strings.Index(src[from:], "$"+name)
		if i < 0 {
			return -1
		}
		end := from + i + 1 + len(name)
		if end >= len(src) || !wordByte(src[end]) {
			return from + i
		}
		from = end
	}
}

func wordByte(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

func (p *parser) badExpression(n *yaml.Node, src inside, err error) {
	offset, message, suggestion := 0, err.Error(), ""
	if syntax, ok := errors.AsType[*expr.SyntaxError](err); ok {
		offset = min(max(syntax.Offset, 0), len(src.source))
		message, suggestion = syntax.Message, syntax.Suggestion
	}
	if n.Comment != "" && suggestion == "" {
		suggestion = "everything after # is a comment: quote the value if that was not meant"
	}
	p.Mistake(p.posWithin(n, src.offset+offset), suggestion, "the expression %s is wrong: %s", yaml.Quote(src.source), message)
}

// unclosed reports an expression without its closing brace.
func (p *parser) unclosed(n *yaml.Node) {
	if n.Comment != "" {
		p.Mistake(n.Pos, "everything after # is a comment: quote the value", "the expression %s is cut off by a comment", yaml.Quote(n.Text()))
		return
	}
	p.Mistake(n.Pos, "close it: ${ … }", "the expression %s is not closed", yaml.Quote(n.Text()))
}

// posWithin returns the position in the document of a byte of a node's text, in whatever
// YAML style the text is written. If it cannot be found, it is the position of the node.
func (p *parser) posWithin(n *yaml.Node, offset int) yaml.Pos {
	value := n.Text()
	if offset < 0 || offset > len(value) || p.Full() {
		return n.Pos
	}
	w := p.written(n)
	// Styles of YAML differ in white space, so only the other characters are counted.
	at := n.Pos
	for i, r := range value {
		if i >= offset && !blank(r) {
			if next, ok := w.next(); ok && next == r {
				return w.at
			}
			return n.Pos
		}
		if i >= offset {
			break
		}
		if blank(r) {
			continue
		}
		if next, ok := w.next(); !ok || next != r {
			return n.Pos
		}
		at = yaml.Pos{Line: w.at.Line, Column: w.at.Column + w.wide}
	}
	return at
}

func blank(r rune) bool { return r == ' ' || r == '\t' || r == '\n' || r == '\r' }

// scalarReader reads the characters of a scalar as written in the document.
type scalarReader struct {
	p     *parser
	quote byte // ' or ", or 0
	rest  string
	line  int
	col   int      // column of rest
	at    yaml.Pos // position of the last character
	wide  int      // width of the last character in columns
}

func (p *parser) written(n *yaml.Node) *scalarReader {
	w := &scalarReader{p: p, line: n.Line, col: 1, rest: p.line(n.Line)}
	if n.Style == yaml.Folded {
		w.rest = ""
		return w
	}
	for w.col < n.Column && w.rest != "" {
		w.skip(1)
	}
	if n.Style == yaml.Quoted && w.rest != "" && (w.rest[0] == '"' || w.rest[0] == '\'') {
		w.quote = w.rest[0]
		w.skip(1)
	}
	return w
}

func (w *scalarReader) skip(characters int) {
	for range characters {
		_, size := utf8.DecodeRuneInString(w.rest)
		w.rest = w.rest[size:]
		w.col++
	}
}

// next returns the next character that is not white space.
func (w *scalarReader) next() (rune, bool) {
	for {
		r, size := utf8.DecodeRuneInString(w.rest)
		switch {
		case size == 0:
			if w.line >= w.p.count() {
				return 0, false
			}
			w.line++
			w.col, w.rest = 1, w.p.line(w.line)
			continue
		case blank(r):
			w.skip(1)
			continue
		}
		w.at, w.wide = yaml.Pos{Line: w.line, Column: w.col}, 1
		if w.quote == '"' && r == '\\' {
			if r, ok := w.escape(); ok {
				return r, true
			}
			continue
		}
		if w.quote == '\'' && strings.HasPrefix(w.rest, "''") {
			w.wide = 2
		}
		w.skip(w.wide)
		return r, true
	}
}

// escape reads what follows a backslash. It returns false for white space.
func (w *scalarReader) escape() (rune, bool) {
	length := 2
	switch rest := w.rest[1:]; {
	case strings.HasPrefix(rest, "x"):
		length = 4
	case strings.HasPrefix(rest, "u"):
		length = 6
	case strings.HasPrefix(rest, "U"):
		length = 10
	case rest == "" || rest[0] == ' ' || rest[0] == '\t' || rest[0] == '\r':
		w.skip(1)
		return 0, false
	}
	length = min(length, utf8.RuneCountInString(w.rest))
	text := w.rest
	w.wide = length
	w.skip(length)
	text = text[:len(text)-len(w.rest)]
	decoded, ok := yaml.Unescape(text)
	if !ok {
		return 0, false
	}
	r, _ := utf8.DecodeRuneInString(decoded)
	return r, !blank(r)
}

// count returns the number of lines of the document.
func (p *parser) count() int {
	p.line(1)
	return len(p.lines)
}

// line returns a line of the document; the first is 1.
func (p *parser) line(number int) string {
	if p.lines == nil {
		p.lines = bytes.Split(p.source, []byte("\n"))
	}
	if number < 1 || number > len(p.lines) {
		return ""
	}
	return string(p.lines[number-1])
}

// scope lists the variables that have a value at some point.
type scope []string

func (s scope) with(names ...string) scope { return slices.Concat(s, scope(names)) }

func (s scope) has(name string) bool { return slices.Contains(s, name) }

// The scopes of a workflow's own expressions.
func workflowInput() scope  { return scope{"secrets", "workflow", "runtime"} }
func workflowOutput() scope { return scope{"context", "secrets", "workflow", "runtime"} }

// The scopes of a task's expressions, in order of evaluation; s holds the variables bound
// by enclosing tasks.
func (s scope) before() scope   { return s.with("context", "secrets", "task", "workflow", "runtime") }
func (s scope) during() scope   { return s.before().with("input", "authorization") }
func (s scope) exported() scope { return s.during().with("output") }

// detailsOf returns the name that follows a caught error's variable in a scope, and marks
// it as one.
func detailsOf(variable string) string { return variable + ".details" }

// catching returns s with the variable of a caught error.
func (s scope) catching(variable string) scope { return s.with(variable, detailsOf(variable)) }

// isError reports whether the innermost variable with this name holds a caught error.
func (s scope) isError(variable string) bool {
	for i, name := range slices.Backward(s) {
		if name == variable {
			return i+1 < len(s) && s[i+1] == detailsOf(variable)
		}
	}
	return false
}

var detailsPattern = regexp.MustCompile(`\$(\w+)\.details\b`)

// current rewrites an expression that reads an error's "details", the name that some
// runtimes use, to the specification's "detail".
func (s scope) current(src string) string {
	return detailsPattern.ReplaceAllStringFunc(src, func(found string) string {
		if s.isError(leadingName(found)) {
			return strings.TrimSuffix(found, "s")
		}
		return found
	})
}
