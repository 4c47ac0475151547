package dsl

import (
	"errors"
	"slices"
	"strings"

	"flunq.io/flunq/engine/excerpt"
	"flunq.io/flunq/engine/expr"
	"flunq.io/flunq/engine/lazyregexp"
	"flunq.io/flunq/engine/yaml"
)

// expressions compiles the expressions of a document: those that are whole fields and those inside
// data.
type expressions struct {
	*reader
	source   source
	loose    bool // a string that compiles is an expression, even without ${ }
	compiled int  // bytes of expressions compiled so far
	secrets  []SecretUse
}

// expression compiles a field that is an expression, with or without ${ }. It returns nil
// for a nil node.
func (p *expressions) expression(n *yaml.Node, what string, s scope) *expr.Program {
	src, ok := p.text(n, what)
	if !ok {
		return nil
	}
	inner := whole(src)
	if !inner.is {
		switch {
		case !strings.HasPrefix(strings.TrimSpace(src), "${"):
			inner.source = src
		case yaml.HasClosingBrace(src):
			p.Mistake(n.Pos, "put ${ } around all of it, or leave it out", "the expression %s is only partly inside ${ }", yaml.Quote(src))
			return nil
		default:
			p.unclosed(n)
			return nil
		}
	}
	return p.compile(n, inner, s)
}

// condition compiles an expression used as a condition. It returns nil for a nil node.
func (p *expressions) condition(n *yaml.Node, what string, s scope) *expr.Program {
	program := p.expression(n, what, s)
	if program != nil {
		p.warnDoubts(n, program.ConditionDoubts())
	}
	return program
}

// template parses a field that is an expression, or a map that contains expressions.
func (p *expressions) template(n *yaml.Node, what string, s scope) *expr.Value {
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
func (p *expressions) value(n *yaml.Node, s scope) *expr.Value {
	if n == nil {
		return nil
	}
	switch n.Shape {
	case yaml.Object:
		if name := unquotedTemplate(n); name != "" && yaml.SpacedKey(n.Fields[0].Key) != "" {
			p.Warn(ruleText, n.Pos, "write a space after the colon: {"+yaml.SpacedKey(n.Fields[0].Key)+"}", "this is a map: its key %s has no value", yaml.Quote(n.Fields[0].Key))
		} else if name != "" {
			p.Warn(ruleText, n.Pos, "to keep the text, quote it: \""+name+"\"", "this is a map: its key %s has no value", yaml.Quote(n.Fields[0].Key))
		}
		fields := make([]expr.Field, len(n.Fields))
		for i, f := range n.Fields {
			if whole(f.Key).is {
				p.Warn(ruleText, f.Pos, "compute the whole map: '${ {(…): …} }'", "the key %s is not evaluated", yaml.Quote(f.Key))
			}
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

func (p *expressions) textValue(n *yaml.Node, s scope) *expr.Value {
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
		p.Warn(ruleText, n.Pos, "to fill it in, write: '${ "+strings.ReplaceAll(excerpt.Of(rewritten, 200), "'", "''")+" }'",
			"the ${ } inside longer text is not evaluated")
	default:
		p.plainText(n, src, s)
	}
	return expr.Literal(src)
}

// looseValue returns the value of a string in loose mode: an expression if it compiles, otherwise
// the string itself.
func (p *expressions) looseValue(src string, s scope) *expr.Value {
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

// textOrExpression parses a string that may be an expression. It returns nil for a nil node.
func (p *expressions) textOrExpression(n *yaml.Node, what string, s scope) *expr.Value {
	if _, ok := p.text(n, what); !ok {
		return nil
	}
	return p.value(n, s)
}

// program checks source code in another language, in which ${ has no meaning unless the whole
// string is an expression.
func (p *expressions) program(n *yaml.Node, what string, s scope) {
	if src, ok := p.text(n, what); ok {
		if inner := whole(src); inner.is {
			p.compile(n, inner, s)
		}
	}
}

// data checks a map of arbitrary data.
func (p *expressions) data(n *yaml.Node, what string, s scope) {
	if n != nil {
		p.mapOf(n, what)
		p.value(n, s)
	}
}

// parameters checks that a call's parameters are a map or a string.
func (p *expressions) parameters(n *yaml.Node, s scope) {
	if n == nil {
		return
	}
	if n.Shape != yaml.Text {
		p.mapOf(n, "parameters")
	}
	p.value(n, s)
}

// textMap checks that a value is a map of strings.
func (p *expressions) textMap(n *yaml.Node, what string, s scope) {
	for _, f := range p.mapOf(n, what) {
		p.textOrExpression(f.Value, what+"."+yaml.Short(f.Key), s)
	}
}

// arguments checks a list of strings.
func (p *expressions) arguments(n *yaml.Node, what string, s scope) {
	for _, item := range p.list(n, what) {
		p.textOrExpression(item, what, s)
	}
}

// pairs parses headers or a query: a map of scalars, or one expression.
func (p *expressions) pairs(n *yaml.Node, what string, s scope) *expr.Value {
	if n == nil {
		return nil
	}
	if whole(n.Text()).is {
		return p.value(n, s)
	}
	for _, f := range p.mapOf(n, what) {
		switch f.Value.Shape {
		case yaml.Null, yaml.List, yaml.Object:
			p.wrong(f.Value, what+"."+yaml.Short(f.Key), "text")
		default:
		}
	}
	return p.value(n, s)
}

// uri parses a URI, a URI template or an expression. It returns nil for a nil node.
func (p *expressions) uri(n *yaml.Node, what string, s scope) *expr.Value {
	if n == nil {
		return nil
	}
	src, ok := p.text(n, what)
	if !ok {
		return nil
	}
	rewritten, mixed := interpolation(src)
	switch {
	case whole(src).is, strings.HasPrefix(src, "${") && !yaml.HasClosingBrace(src), mixed && p.loose:
	case mixed:
		p.Mistake(n.Pos, "write it as '${ "+excerpt.Of(rewritten, 200)+" }', or as a template: https://host/{name}",
			"%s: the ${ } inside longer text is not evaluated", what)
		return expr.Literal(src)
	case src == "":
		p.Mistake(n.Pos, "", "%s is empty", what)
	case strings.ContainsAny(src, " \t\r\n\v\f"):
		p.Mistake(n.Pos, "", "%s: %s is not a URI: it has spaces", what, yaml.Quote(src))
		return expr.Literal(src)
	default:
		// Even in loose mode a plain URI is literal.
		return expr.Literal(src)
	}
	return p.value(n, s)
}

// duration parses a duration. With timestamps, a timestamp is also valid. It returns nil for a nil
// node.
func (p *expressions) duration(n *yaml.Node, what string, s scope, timestamps ...bool) *expr.Value {
	if n == nil {
		return nil
	}
	if inner := whole(n.Text()); inner.is {
		return computed(p.compile(n, inner, s))
	}
	if strings.HasPrefix(strings.TrimSpace(n.Text()), "${") {
		p.unclosed(n)
		return nil
	}
	if n.Shape == yaml.Object && !p.durationMap(n, what) {
		return nil
	}
	d, wrong := readDuration(n.Data)
	switch {
	case wrong != nil:
		p.Mistake(n.Pos, wrong.suggestion, "%s: %s", what, wrong.message)
	case d.Go:
		p.Warn(ruleGoDuration, n.Pos, "write it as "+d.String(), "%s: %s is a Go duration, which other runtimes do not accept", what, yaml.Quote(n.Text()))
	case !d.Until.IsZero() && len(timestamps) == 0:
		p.Mistake(n.Pos, "write it as PT5S", "%s: %s is a timestamp, want a duration", what, yaml.Quote(n.Text()))
	}
	return expr.Literal(n.Data)
}

// durationMap checks every member of a duration so that all mistakes are reported.
func (p *expressions) durationMap(n *yaml.Node, what string) bool {
	fine := len(n.Fields) > 0
	if !fine {
		p.Mistake(n.Pos, "write it as {seconds: 5}", "%s: the duration is empty", what)
	}
	for _, f := range n.Fields {
		if whole(f.Value.Text()).is {
			p.Mistake(f.Value.Pos, "compute all of it: ${ \"PT\\(…)S\" }", "%s: %s cannot be an expression", what, yaml.Short(f.Key))
			fine = false
			continue
		}
		if _, wrong := durationOfMap(map[string]any{f.Key: f.Value.Data}); wrong != nil {
			at := f.Value.Pos
			if !slices.Contains(durationKeys(), f.Key) {
				at = f.Pos
			}
			p.Mistake(at, wrong.suggestion, "%s: %s", what, wrong.message)
			fine = false
		}
	}
	return fine
}

// compile compiles an expression and reports its mistakes at their positions.
func (p *expressions) compile(n *yaml.Node, src inside, s scope) *expr.Program {
	if p.overBudget(len(src.source)) {
		p.Mistake(n.Pos, "", "the expressions of the document exceed %d bytes in total", maxCompiled)
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
			p.secret(p.within(n, src.offset+max(variableAt(src.source, "secrets"), 0)), name)
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

// overBudget counts the compiled bytes, and reports whether they exceed the limit.
func (p *expressions) overBudget(size int) bool {
	p.compiled += size
	return p.compiled > maxCompiled
}

// secret records the first use of a secret.
func (p *expressions) secret(at yaml.Pos, name string) {
	known := func(s SecretUse) bool { return s.Name == name }
	if name != "" && !slices.ContainsFunc(p.secrets, known) {
		p.secrets = append(p.secrets, SecretUse{at, name})
	}
}

// warnDoubts warns about parts of an expression that its author may not have meant.
func (p *expressions) warnDoubts(n *yaml.Node, doubts []expr.Doubt) {
	offset := whole(n.Text()).offset
	for _, d := range doubts {
		p.Warn(d.Rule, p.within(n, offset+d.Offset), d.Suggestion, "%s", d.Message)
	}
}

// each splits joined errors.
func each(err error) []error {
	var joined interface{ Unwrap() []error }
	if errors.As(err, &joined) {
		return joined.Unwrap()
	}
	return []error{err}
}

func (p *expressions) unknownVariable(n *yaml.Node, src inside, name string, s scope) {
	offset := variableAt(src.source, name)
	at := n.Pos
	if offset >= 0 {
		at = p.within(n, src.offset+offset)
	}
	var candidates []string
	for _, known := range s {
		if !strings.Contains(known, ".") {
			candidates = append(candidates, "$"+known)
		}
	}
	message, help := "there is no variable %s", p.guess("$"+name, candidates)
	if scope(nil).exported().has(name) {
		message = "the variable %s has no value here"
	}
	switch {
	case name == "input" && s.has("task"):
		help = "write . instead: in if and input.from it is the task's input"
	case name == "output":
		help = "only export.as has it; in output.as, . is what the task returned"
	}
	p.Mistake(at, help, message, yaml.Quote("$"+name))
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

// leadingName returns the name of the variable at the start of "$name.member".
func leadingName(src string) string {
	name, _, _ := strings.Cut(strings.TrimPrefix(src, "$"), ".")
	name, _, _ = strings.Cut(name, "[")
	return name
}

var variablePattern = lazyregexp.New(`^\$[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*|\[[0-9]+\])*$`)

func (p *expressions) badExpression(n *yaml.Node, src inside, err error) {
	offset, message, suggestion := 0, err.Error(), ""
	if syntax, ok := errors.AsType[*expr.SyntaxError](err); ok {
		offset = min(max(syntax.Offset, 0), len(src.source))
		message, suggestion = syntax.Message, syntax.Suggestion
	}
	if n.Comment != "" && suggestion == "" {
		suggestion = "everything after # is a comment: quote the value if that was not meant"
	}
	p.Mistake(p.within(n, src.offset+offset), suggestion, "the expression %s is wrong: %s", yaml.Quote(src.source), message)
}

// within returns the position in the document of a byte offset in a node's string.
func (p *expressions) within(n *yaml.Node, offset int) yaml.Pos {
	if p.Full() {
		return n.Pos // the mistake will not be shown
	}
	return p.source.position(n, offset)
}

// unclosed reports an expression without a closing brace.
func (p *expressions) unclosed(n *yaml.Node) {
	if n.Comment != "" {
		p.Mistake(n.Pos, "everything after # is a comment: quote the value", "the expression %s is cut off by a comment", yaml.Quote(n.Text()))
		return
	}
	p.Mistake(n.Pos, "close it: ${ … }", "the expression %s is not closed", yaml.Quote(n.Text()))
}
