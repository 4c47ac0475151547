package editor

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"flunq.io/flunq/engine/dsl"
)

// KeysAt returns the keys that the schema has at a JSON pointer of a document, and the ones that
// could be added.
func KeysAt(kind, path string, doc any) (keys, free []string) {
	has := func(v any) members {
		return func(key string) (string, bool) {
			m, _ := v.(map[string]any)
			value, is := m[key]
			return fmt.Sprint(value), is
		}
	}
	p := top(kind, has(doc))
	for step := range strings.SplitSeq(strings.TrimPrefix(path, "/"), "/") {
		if step == "" {
			continue
		}
		if list, is := doc.([]any); is {
			i, _ := strconv.Atoi(step)
			doc = list[i]
			p = p.item(has(doc))
			continue
		}
		for key, value := range doc.(map[string]any) { // a key with a / is not escaped
			if key == step {
				doc = value
				break
			}
		}
		p = p.member(step, has(doc))
	}
	return p.keys(), p.free(has(doc))
}

// RuleNames returns the names of all rules, sorted.
func RuleNames() []string {
	always, portable := rules()
	var names []string
	for _, r := range append(always, portable...) {
		names = append(names, r.Name)
	}
	slices.Sort(names)
	return names
}

// Portable reports whether a rule is for documents that other runtimes also run.
func Portable(rule string) bool {
	_, portable := rules()
	return slices.ContainsFunc(portable, func(r dsl.Rule) bool { return r.Name == rule })
}

// Complete returns the completions at the last | of a source.
func Complete(kind, text string) []string {
	at := strings.LastIndex(text, "|")
	before := text[:at]
	line := before[strings.LastIndex(before, "\n")+1:]
	var labels []string
	for _, c := range newDocument(kind, before+text[at+1:]).complete(position{strings.Count(before, "\n"), len(line)}) {
		labels = append(labels, c.Label)
	}
	return labels
}

// Accept returns a source with the first completion at its last | accepted.
func Accept(kind, text string) string {
	at := strings.LastIndex(text, "|")
	d := newDocument(kind, text[:at]+text[at+1:])
	before := strings.Split(text[:at], "\n")
	line := len(before) - 1
	edit := d.complete(d.position(bytePosition{line, len(before[line])}))[0].TextEdit
	from, to := d.bytePosition(edit.Range.Start), d.bytePosition(edit.Range.End)
	d.lines[line] = d.lines[line][:from.byte] + edit.NewText + d.lines[line][to.byte:]
	return strings.Join(d.lines, "\n")
}

// Ask sends every kind of request for the end of a line.
func Ask(kind, text string, line int) {
	d := newDocument(kind, text)
	p := position{line, len(d.lines[line])}
	d.complete(p)
	d.hover(p)
	d.definition(p)
	d.symbols(d.root)
}
