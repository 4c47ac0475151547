package dsl

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"flunq.io/flunq/engine/spelling"
	"flunq.io/flunq/engine/yaml"
)

// members describes the keys that a map of the document may have.
type members struct {
	known    []string
	required []string
	hints    []string          // keys that may be meant, but conflict with those present
	below    map[string]string // keys that belong under another key → that key
	open     bool              // other keys are allowed
}

func keys(known ...string) members { return members{known: known} }

func (m members) need(required ...string) members {
	m.required = required
	return m
}

func (m members) orMeant(hints ...string) members {
	m.hints = hints
	return m
}

// under returns m with keys that belong under another key of the map.
func (m members) under(parent string, children ...string) members {
	m.below = maps.Clone(m.below)
	if m.below == nil {
		m.below = map[string]string{}
	}
	for _, child := range children {
		m.below[child] = parent
	}
	return m
}

func (m members) others() members {
	m.open = true
	return m
}

// object checks that a value is a map with the expected keys; what names it in mistakes.
// It reports whether the members are worth parsing.
func (p *parser) object(n *yaml.Node, what string, m members) bool {
	if n.Shape != yaml.Object {
		p.wrong(n, what, "a map")
		return false
	}
	free := absent(n, m.known)
	if len(free) == 0 {
		free = m.known
	}
	var slips []string // keys that are present under a misspelt name
	for i, f := range n.Fields {
		if slices.Contains(m.known, f.Key) {
			continue
		}
		parent, _, _ := strings.Cut(m.below[f.Key], ":")
		slips = append(slips, closest(f.Key, free), parent)
		p.unknownKey(f, what, m, free)
		if parent != "" {
			continue
		}
		meant := closest(f.Key, free)
		if slices.Contains(kindKeys(), meant) || meant == "use" {
			meant = spelling.Word(f.Key, free)
		}
		if meant != "" && !m.open && n.Get(meant) == nil {
			n.Fields[i].Key = meant // so that mistakes in its value are reported too
		}
	}
	moveDown(n, m.below)
	for _, name := range m.required {
		if slices.Contains(free, name) && n.Get(name) == nil && !slices.Contains(slips, name) {
			p.Mistake(n.Pos, fmt.Sprintf("add `%s: …`", name), "%s has no %s", what, name)
		}
	}
	return true
}

// moveDown moves keys under the key that they belong to, so that mistakes in their values
// are reported too.
func moveDown(n *yaml.Node, below map[string]string) {
	for _, f := range n.Fields {
		parent := below[f.Key]
		if parent == "" || strings.Contains(parent, ":") {
			continue
		}
		under := n.Get(parent)
		if under == nil {
			under = &yaml.Node{Pos: f.Pos, Shape: yaml.Object, Data: map[string]any{}}
			n.Fields = append(slices.Clip(n.Fields), yaml.Field{Key: parent, Pos: f.Pos, Value: under})
		}
		if under.Shape == yaml.Object && under.Get(f.Key) == nil {
			under.Fields = append(slices.Clip(under.Fields), f)
		}
	}
}

// misspelt reports whether a key is present under a misspelt name, which has been
// reported.
func (p *parser) misspelt(n *yaml.Node, name string, known []string) bool {
	free := absent(n, known)
	return slices.ContainsFunc(n.Fields, func(f yaml.Field) bool {
		return !slices.Contains(known, f.Key) && closest(f.Key, free) == name
	})
}

// absent returns the known keys that a map does not have.
func absent(n *yaml.Node, known []string) []string {
	var out []string
	for _, k := range known {
		if n.Get(k) == nil {
			out = append(out, k)
		}
	}
	return out
}

func (p *parser) unknownKey(f yaml.Field, what string, m members, free []string) {
	if parent := m.below[f.Key]; parent != "" {
		p.Mistake(f.Pos, "put it under `"+parent+":`", "unknown key %s in %s", yaml.Quote(f.Key), what)
		return
	}
	if !m.open {
		if hint := closest(f.Key, m.hints); hint != "" && closest(f.Key, free) == "" {
			free = m.hints
		}
		p.Mistake(f.Pos, p.guessKey(f.Key, free, m.known), "unknown key %s in %s", yaml.Quote(f.Key), what)
		return
	}
	if found := closest(f.Key, free); found != "" {
		if slices.Equal(m.known, eventKeys().known) {
			p.Warn(f.Pos, p.guessKey(f.Key, free, m.known), "CloudEvents have no attribute %s: it is taken for an extension", yaml.Quote(f.Key))
			return
		}
		p.Warn(f.Pos, p.guessKey(f.Key, free, m.known), "%s is not a known key of %s: it is ignored", yaml.Quote(f.Key), what)
	}
}

// wrong reports a value of the wrong type.
func (p *parser) wrong(n *yaml.Node, what, want string) {
	suggestion := ""
	switch {
	case want == "a map" && yaml.SpacedKey(n.Text()) != "":
		suggestion = "write a space after the colon: " + yaml.SpacedKey(n.Text())
	case strings.HasPrefix(want, "text") && n.Shape == yaml.Object && unquotedTemplate(n) != "":
		suggestion = "quote it: \"" + unquotedTemplate(n) + "\""
	case strings.HasPrefix(want, "text") && (n.Shape == yaml.Number || n.Shape == yaml.Boolean):
		suggestion = fmt.Sprintf("quote it: \"%v\"", n.Data)
	case n.Shape == yaml.Text && looksPlain(n, want):
		suggestion = "remove the quotes"
	case n.Shape != yaml.Null:
		suggestion = form(n, what)
	}
	p.Mistake(n.Pos, suggestion, "%s: want %s, this is %s", what, want, n.Shape)
}

// form suggests how to write a plain value where a map or a list is expected.
func form(n *yaml.Node, what string) string {
	plain := func(format, example string) string {
		if n.Shape == yaml.Text || n.Shape == yaml.Number {
			example = yaml.Cut(strings.TrimSpace(fmt.Sprint(n.Data)), 100)
		}
		if strings.ContainsAny(example, "{}[]") {
			example = yaml.InSingleQuotes(example)
		}
		return "write it as " + fmt.Sprintf(format, example)
	}
	section := what[strings.LastIndexByte(what, '.')+1:]
	switch {
	case what == "switch" && n.Shape == yaml.Object:
		return "put `- ` before each case"
	case (what == "any" || what == "all") && n.Shape == yaml.Object:
		return "put `- ` before each filter"
	case what == "redirect" && n.Shape == yaml.Text:
		return "write true or false"
	case (section == "headers" || section == "query") && (n.Shape == yaml.Text || n.Shape == yaml.List):
		return "write it as {name: value}"
	case what == "use.secrets" && n.Shape == yaml.Text:
		return plain("[%s]", "…")
	case strings.HasPrefix(what, "use.") && n.Shape == yaml.List:
		return "write each as `name: {…}`, without the `- ` before it"
	case what == "timeout" && n.Shape != yaml.Object:
		return plain("{after: %s}", "PT5M")
	case what == "fork" && n.Shape == yaml.List:
		return "write the list under `branches:`"
	case n.Shape == yaml.Object:
		return ""
	case section == "export" || section == "output":
		return plain("{as: %s}", "…")
	case what == "input":
		return plain("{from: %s}", "…")
	case what == "listen.to" || what == "listen" || what == "an event filter":
		forms := map[string]string{"listen": "{to: {one: {with: {type: %s}}}}", "listen.to": "{one: {with: {type: %s}}}", "an event filter": "{with: {type: %s}}"}
		return plain(forms[what], "…")
	case what == "emit":
		return plain("{event: {with: {type: %s, source: https://shop.example}}}", "…")
	case what == "raise":
		return plain("{error: %s}", "…")
	case what == "for":
		return plain("{in: %s}", "…")
	case what == "run.workflow":
		return plain("{namespace: default, name: %s, version: '0.1.0'}", "…")
	case what == "run.shell":
		return plain("{command: %s}", "…")
	case what == "retry":
		return "write it as {delay: PT1S, limit: {attempt: {count: 5}}}"
	case what == "retry.limit":
		return plain("{attempt: {count: %s}}", "5")
	case what == "retry.limit.attempt":
		return plain("{count: %s}", "5")
	case what == "catch.errors":
		return plain("{with: {type: %s}}", "…")
	case strings.HasPrefix(what, "case "):
		return plain("{then: %s}", "…")
	default:
		return ""
	}
}

// looksPlain reports whether text is a quoted number or boolean.
func looksPlain(n *yaml.Node, want string) bool {
	switch want {
	case "true or false":
		return n.Text() == "true" || n.Text() == "false"
	case "a whole number":
		return yaml.IsWhole(n.Text())
	default:
		return false
	}
}

// unquotedTemplate returns the text that was meant by {name} without quotes, which YAML
// reads as a map; "" if it is none.
func unquotedTemplate(n *yaml.Node) string {
	if len(n.Fields) != 1 || n.Style != yaml.Flow || n.Fields[0].Value.Shape != yaml.Null || !n.Fields[0].Value.Implied {
		return ""
	}
	return "{" + n.Fields[0].Key + "}"
}

// text checks that a value is a string. A nil node is none, without a mistake.
func (p *parser) text(n *yaml.Node, what string) (string, bool) {
	if n == nil {
		return "", false
	}
	if n.Shape != yaml.Text {
		p.wrong(n, what, "text")
		return "", false
	}
	return n.Text(), true
}

// filled checks that a value is a non-empty string.
func (p *parser) filled(n *yaml.Node, what string) string {
	s, ok := p.text(n, what)
	if ok && strings.TrimSpace(s) == "" {
		p.Mistake(n.Pos, "", "%s is empty", what)
	}
	return s
}

// word checks that a value is one of words. It returns fallback for a nil node.
func (p *parser) word(n *yaml.Node, what, fallback string, words ...string) string {
	s, ok := p.text(n, what)
	if !ok {
		return fallback
	}
	if !slices.Contains(words, s) {
		p.Mistake(n.Pos, p.guess(s, words), "%s: %s is none of %s", what, yaml.Quote(s), strings.Join(words, ", "))
		return fallback
	}
	return s
}

// flag checks that a value is a boolean. It returns false for a nil node.
func (p *parser) flag(n *yaml.Node, what string) bool {
	if n == nil {
		return false
	}
	b, ok := n.Data.(bool)
	if !ok {
		p.wrong(n, what, "true or false")
	}
	return b
}

// whole checks that a value is a whole number between low and high.
func (p *parser) whole(n *yaml.Node, what string, low, high int) int {
	if n == nil {
		return 0
	}
	i, ok := wholeNumber(n.Data)
	if !ok {
		p.wrong(n, what, "a whole number")
		return 0
	}
	if i < low || i > high {
		p.Mistake(n.Pos, "", "%s is %d, want %d to %d", what, i, low, high)
		return 0
	}
	return i
}

// wholeNumber converts a number to an int as JSON Schema's integer does: 3.0 is one too.
func wholeNumber(v any) (int, bool) {
	switch v := v.(type) {
	case int:
		return v, true
	case float64:
		return int(v), v == float64(int(v))
	default:
		return 0, false
	}
}

// list checks that a value is a list, and returns its items.
func (p *parser) list(n *yaml.Node, what string) []*yaml.Node {
	if n == nil {
		return nil
	}
	if n.Shape != yaml.List {
		p.wrong(n, what, "a list")
		return nil
	}
	return n.Items
}

// texts checks that a value is a list of strings, and returns them.
func (p *parser) texts(n *yaml.Node, what string) []string {
	var out []string
	for _, item := range p.list(n, what) {
		if s, ok := p.text(item, what); ok {
			out = append(out, s)
		}
	}
	return out
}

// mapOf checks that a value is a map, and returns its members.
func (p *parser) mapOf(n *yaml.Node, what string) []yaml.Field {
	if n == nil {
		return nil
	}
	if n.Shape != yaml.Object {
		p.wrong(n, what, "a map")
		return nil
	}
	return n.Fields
}
