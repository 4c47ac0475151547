package editor

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"flunq.io/flunq/engine/expr"
	"flunq.io/flunq/engine/lazyregexp"
	"flunq.io/flunq/engine/yaml"
)

// document is an open file, which may be incomplete.
type document struct {
	*outline
	kind string
}

func newDocument(kind, text string) *document { return &document{readOutline(text), kind} }

// ours reports whether a file is a workflow, mocks or tests, or still empty.
func (d *document) ours() bool {
	return d.kind != "workflow" || len(d.root.children) == 0 || d.root.member("document") != nil || d.root.member("do") != nil
}

// place returns what the schema says about a key or an item.
func (d *document) place(n *node) place {
	switch {
	case n.parent == nil:
		return top(d.kind, n.has)
	case n.item:
		return d.place(n.parent).item(n.has)
	default:
		return d.place(n.parent).member(n.key, n.has)
	}
}

// position converts a position in bytes to that of an editor, in UTF-16 code units.
func (d *document) position(s bytePosition) position {
	line := d.lines[s.line]
	return position{s.line, len(utf16.Encode([]rune(line[:min(max(s.byte, 0), len(line))])))}
}

// bytePosition converts a position of an editor to one in bytes.
func (d *document) bytePosition(p position) bytePosition {
	if p.Line < 0 || p.Line >= len(d.lines) {
		return bytePosition{len(d.lines) - 1, 0}
	}
	units, line := 0, d.lines[p.Line]
	for i, r := range line {
		if units >= p.Character {
			return bytePosition{p.Line, i}
		}
		units += utf16.RuneLen(r)
	}
	return bytePosition{p.Line, len(line)}
}

func (d *document) keyRange(n *node) textRange {
	return textRange{d.position(n.at), d.position(n.keyEnd)}
}

// diagnostic converts a mistake; its range is the word at its position.
func (d *document) diagnostic(m yaml.Mistake, severity int) diagnostic {
	from := bytePosition{min(m.Line, len(d.lines)) - 1, 0}
	line := d.lines[from.line]
	for range m.Column - 1 {
		_, size := utf8.DecodeRuneInString(line[from.byte:])
		from.byte += size
	}
	word := cmp.Or(yaml.Word(line, m.Column), line[from.byte:])
	text := m.Message
	if m.Suggestion != "" {
		text += "\n" + m.Suggestion
	}
	return diagnostic{textRange{d.position(from), d.position(bytePosition{from.line, from.byte + len(word)})}, severity, m.Rule, "flunq", text}
}

// completion is something that can be written at a place.
type completion struct {
	Label         string `json:"label"`
	Kind          int    `json:"kind"`
	Documentation string `json:"documentation,omitempty"`
	SortText      string `json:"sortText"`
	TextEdit      edit   `json:"textEdit"`
}

// Kinds of completions.
const (
	kindFunction = 3
	kindVariable = 6
	kindKey      = 10
	kindValue    = 12
)

// here stands for the word that is being typed.
const here = "\x01here\x01"

var (
	typed   = lazyregexp.New(`(?:https?:)?[\p{L}\p{M}\p{N}\p{So}_./-]*$`)
	typedJQ = lazyregexp.New(`[\w$@]*$`)
)

// complete returns what can be written at a position.
func (d *document) complete(p position) []completion {
	at := d.bytePosition(p)
	before, behind := d.lines[at.line][:at.byte], d.lines[at.line][at.byte:]
	start := at.byte - len(typed().FindString(before))
	with := func(text string) (*document, *node) {
		lines := slices.Clone(d.lines)
		lines[at.line] = text
		changed := newDocument(d.kind, strings.Join(lines, "\n"))
		var found *node
		changed.root.walk(func(n *node) {
			if strings.Contains(n.value, here) || strings.Contains(n.key, here) {
				found = n
			}
		})
		return changed, found
	}
	changed, n := with(before[:start] + here + behind)
	value := n != nil && n.key != "" && strings.Contains(n.value, here) && (n.flow || n.at.line == at.line)
	switch {
	case n != nil && (inExpression(before) || value && (changed.place(n).is("expression") || changed.place(n).is("template"))):
		return d.jq(n, at, before)
	case value:
		return d.list(at, start, kindValue, changed.values(n), func(string) string { return "" })
	case n != nil && n.flow:
		changed, n = with(before[:start] + here + ": 0, " + behind)
	default:
		changed, n = with(before[:start] + here + ":")
	}
	if n == nil || n.key != here {
		return []completion{}
	}
	place := changed.place(n.parent)
	out := d.list(at, start, kindKey, place.free(n.parent.has), func(key string) string { return place.member(key, nil).description() })
	for i := range out {
		out[i].TextEdit.NewText += ": "
	}
	return out
}

// list returns completions for the word from byte start to at.
func (d *document) list(at bytePosition, start, kind int, words []string, about func(word string) string) []completion {
	out := make([]completion, len(words))
	for i, word := range words {
		replaced := textRange{d.position(bytePosition{at.line, start}), d.position(at)}
		out[i] = completion{word, kind, about(word), fmt.Sprintf("%04d", i), edit{replaced, word}}
	}
	return out
}

// values returns the possible values of a key: those that the schema lists, and names.
func (d *document) values(n *node) []string {
	var names []string
	for _, target := range d.targets(n) {
		if !slices.Contains(names, target.key) { // a task may have the name of another by mistake
			names = append(names, target.key)
		}
	}
	return append(names, d.place(n).values()...)
}

// targets returns the keys that the value of a key can name: tasks of the same list, or parts of
// use.
func (d *document) targets(n *node) []*node {
	if d.kind != "workflow" {
		return nil
	}
	use := d.root.member("use")
	section := map[string]string{"call": "functions", "retry": "retries", "timeout": "timeouts", "error": "errors", "use": "authentications"}[n.key]
	if found := use.member(section); found != nil {
		return found.children
	}
	for above := n.parent; n.key == "then" && above != nil; above = above.parent {
		if above.item && d.place(above.parent).is("tasks") {
			var tasks []*node
			for _, item := range above.parent.children {
				tasks = append(tasks, item.children...)
			}
			return tasks
		}
	}
	return nil
}

// inExpression reports whether a line is inside ${ } at its end.
func inExpression(line string) bool {
	begin := strings.LastIndex(line, "${")
	return begin >= 0 && strings.Count(line[begin:], "{") > strings.Count(line[begin:], "}")
}

// variables explains the variables of expressions.
func variables() map[string]string {
	return map[string]string{
		"$context": "What tasks have exported so far.", "$input": "The input of the task.", "$output": "The output of the task, in export.",
		"$secrets": "The secrets.", "$task": "The task: name, reference, definition, input, output, startedAt.",
		"$workflow":      "The execution: id, definition, input, startedAt.",
		"$runtime":       "The runtime: name, version, metadata.",
		"$authorization": "How the task is authorized: scheme, parameter.",
	}
}

// jq returns the variables and functions that an expression can use in the value of a node.
func (d *document) jq(n *node, at bytePosition, before string) []completion {
	word := typedJQ().FindString(before)
	start := at.byte - len(word)
	if strings.HasSuffix(before[:start], ".") {
		return []completion{} // a member of data, whose names are unknown
	}
	known := variables()
	for above := n.parent; above != nil; above = above.parent {
		for _, in := range []struct{ key, name, fallback string }{
			{"for", "each", "item"}, {"for", "at", "index"}, {"foreach", "item", "item"}, {"foreach", "at", "index"}, {"catch", "as", "error"},
		} {
			holder := above.member(in.key)
			if holder == nil {
				continue
			}
			name := in.fallback
			if written := holder.member(in.name); written != nil {
				name = strings.TrimPrefix(written.value, "$")
			}
			known["$"+name] = "A variable of " + in.key + "."
		}
	}
	out := d.list(at, start, kindVariable, slices.Sorted(maps.Keys(known)), func(name string) string { return known[name] })
	if strings.HasPrefix(word, "$") {
		return out
	}
	functions := expr.Functions()
	return append(out, d.list(at, start, kindFunction, slices.Sorted(maps.Keys(functions)), func(name string) string {
		var forms []string
		for _, arguments := range functions[name] {
			form := name
			if arguments > 0 {
				form += "(" + strings.TrimSuffix(strings.Repeat("…; ", arguments), "; ") + ")"
			}
			forms = append(forms, form)
		}
		return "A function of jq: " + strings.Join(forms, ", ")
	})...)
}

// at returns the node whose key or value is at a place, and whether it is the value.
func (d *document) at(s bytePosition) (found *node, value bool) {
	within := func(from, to bytePosition) bool { return !s.before(from) && !to.before(s) }
	d.root.walk(func(n *node) {
		switch {
		case n.key != "" && within(n.at, n.keyEnd):
			found, value = n, false
		case n.value != "" && within(n.valueAt, n.end):
			found, value = n, true
		}
	})
	return found, value
}

// hover explains the key at a position.
func (d *document) hover(p position) any {
	n, _ := d.at(d.bytePosition(p))
	if n == nil || n.item {
		return nil
	}
	place := d.place(n)
	text := place.description()
	if text == "" {
		return nil
	}
	if values := place.values(); len(values) > 0 {
		text += "\n\nFor example: `" + strings.Join(values, "`, `") + "`"
	}
	return map[string]any{"contents": map[string]any{"kind": "markdown", "value": text}, "range": d.keyRange(n)}
}

// definition returns the node that the value at a position names: a task or a part of use.
func (d *document) definition(p position) *node {
	n, value := d.at(d.bytePosition(p))
	if n == nil || !value {
		return nil
	}
	for _, target := range d.targets(n) {
		if target.key == n.value {
			return target
		}
	}
	return nil
}

// symbol is a task in the outline of an editor.
type symbol struct {
	Name           string    `json:"name"`
	Detail         string    `json:"detail"`
	Kind           int       `json:"kind"`
	Range          textRange `json:"range"`
	SelectionRange textRange `json:"selectionRange"`
	Children       []symbol  `json:"children"`
}

const symbolFunction = 12

// symbols returns the tasks below a node.
func (d *document) symbols(n *node) []symbol {
	out := []symbol{}
	for _, c := range n.children {
		below := d.symbols(c)
		if c.key == "" || !d.place(c).is("task") {
			out = append(out, below...)
			continue
		}
		last := c.end
		c.walk(func(n *node) {
			if last.before(n.end) {
				last = n.end
			}
		})
		s := symbol{c.key, "", symbolFunction, textRange{d.position(c.at), d.position(last)}, d.keyRange(c), below}
		if len(c.children) > 0 {
			s.Detail = c.children[0].key
		}
		out = append(out, s)
	}
	return out
}
