package dsl

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"flunq.io/flunq/engine/spelling"
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
func (p *parser) object(n *node, what string, m members) bool {
	if n.shape != object {
		p.wrong(n, what, "a map")
		return false
	}
	free := absent(n, m.known)
	if len(free) == 0 {
		free = m.known
	}
	var slips []string // keys that are present under a misspelt name
	for i, f := range n.fields {
		if slices.Contains(m.known, f.key) {
			continue
		}
		parent, _, _ := strings.Cut(m.below[f.key], ":")
		slips = append(slips, closest(f.key, free), parent)
		p.unknownKey(f, what, m, free)
		if parent != "" {
			continue
		}
		meant := closest(f.key, free)
		if slices.Contains(kindKeys(), meant) || meant == "use" {
			meant = spelling.Word(f.key, free)
		}
		if meant != "" && !m.open && n.get(meant) == nil {
			n.fields[i].key = meant // so that mistakes in its value are reported too
		}
	}
	n.moveDown(m.below)
	for _, name := range m.required {
		if slices.Contains(free, name) && n.get(name) == nil && !slices.Contains(slips, name) {
			p.mistake(n.Pos, fmt.Sprintf("add `%s: …`", name), "%s has no %s", what, name)
		}
	}
	return true
}

// moveDown moves keys under the key that they belong to, so that mistakes in their values
// are reported too.
func (n *node) moveDown(below map[string]string) {
	for _, f := range n.fields {
		parent := below[f.key]
		if parent == "" || strings.Contains(parent, ":") {
			continue
		}
		under := n.get(parent)
		if under == nil {
			under = &node{Pos: f.pos, shape: object, data: map[string]any{}}
			n.fields = append(slices.Clip(n.fields), field{parent, f.pos, under})
		}
		if under.shape == object && under.get(f.key) == nil {
			under.fields = append(slices.Clip(under.fields), f)
		}
	}
}

// misspelt reports whether a key is present under a misspelt name, which has been
// reported.
func (p *parser) misspelt(n *node, name string, known []string) bool {
	free := absent(n, known)
	return slices.ContainsFunc(n.fields, func(f field) bool {
		return !slices.Contains(known, f.key) && closest(f.key, free) == name
	})
}

// absent returns the known keys that a map does not have.
func absent(n *node, known []string) []string {
	var out []string
	for _, k := range known {
		if n.get(k) == nil {
			out = append(out, k)
		}
	}
	return out
}

func (p *parser) unknownKey(f field, what string, m members, free []string) {
	if parent := m.below[f.key]; parent != "" {
		p.mistake(f.pos, "put it under `"+parent+":`", "unknown key %s in %s", quote(f.key), what)
		return
	}
	if !m.open {
		if hint := closest(f.key, m.hints); hint != "" && closest(f.key, free) == "" {
			free = m.hints
		}
		p.mistake(f.pos, p.guessKey(f.key, free, m.known), "unknown key %s in %s", quote(f.key), what)
		return
	}
	if found := closest(f.key, free); found != "" {
		if slices.Equal(m.known, eventKeys().known) {
			p.warn(f.pos, p.guessKey(f.key, free, m.known), "CloudEvents have no attribute %s: it is taken for an extension", quote(f.key))
			return
		}
		p.warn(f.pos, p.guessKey(f.key, free, m.known), "%s is not a known key of %s: it is ignored", quote(f.key), what)
	}
}

// wrong reports a value of the wrong type.
func (p *parser) wrong(n *node, what, want string) {
	suggestion := ""
	switch {
	case want == "a map" && spacedKey(n.text()) != "":
		suggestion = "write a space after the colon: " + spacedKey(n.text())
	case strings.HasPrefix(want, "text") && n.shape == object && unquotedTemplate(n) != "":
		suggestion = "quote it: \"" + unquotedTemplate(n) + "\""
	case strings.HasPrefix(want, "text") && (n.shape == number || n.shape == boolean):
		suggestion = fmt.Sprintf("quote it: \"%v\"", n.data)
	case n.shape == text && looksPlain(n, want):
		suggestion = "remove the quotes"
	case n.shape != null:
		suggestion = form(n, what)
	}
	p.mistake(n.Pos, suggestion, "%s: want %s, this is %s", what, want, n.shape)
}

// form suggests how to write a plain value where a map or a list is expected.
func form(n *node, what string) string {
	plain := func(format, example string) string {
		if n.shape == text || n.shape == number {
			example = cut(strings.TrimSpace(fmt.Sprint(n.data)), 100)
		}
		if strings.ContainsAny(example, "{}[]") {
			example = single(example)
		}
		return "write it as " + fmt.Sprintf(format, example)
	}
	section := what[strings.LastIndexByte(what, '.')+1:]
	switch {
	case what == "switch" && n.shape == object:
		return "put `- ` before each case"
	case (what == "any" || what == "all") && n.shape == object:
		return "put `- ` before each filter"
	case what == "redirect" && n.shape == text:
		return "write true or false"
	case (section == "headers" || section == "query") && (n.shape == text || n.shape == list):
		return "write it as {name: value}"
	case what == "use.secrets" && n.shape == text:
		return plain("[%s]", "…")
	case strings.HasPrefix(what, "use.") && n.shape == list:
		return "write each as `name: {…}`, without the `- ` before it"
	case what == "timeout" && n.shape != object:
		return plain("{after: %s}", "PT5M")
	case what == "fork" && n.shape == list:
		return "write the list under `branches:`"
	case n.shape == object:
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
func looksPlain(n *node, want string) bool {
	switch want {
	case "true or false":
		return n.text() == "true" || n.text() == "false"
	case "a whole number":
		return wholePattern.MatchString(n.text())
	default:
		return false
	}
}

// unquotedTemplate returns the text that was meant by {name} without quotes, which YAML
// reads as a map; "" if it is none.
func unquotedTemplate(n *node) string {
	if len(n.fields) != 1 || n.style&yaml.FlowStyle == 0 || n.fields[0].value.shape != null || !n.fields[0].value.implied {
		return ""
	}
	return "{" + n.fields[0].key + "}"
}

// text checks that a value is a string. A nil node is none, without a mistake.
func (p *parser) text(n *node, what string) (string, bool) {
	if n == nil {
		return "", false
	}
	if n.shape != text {
		p.wrong(n, what, "text")
		return "", false
	}
	return n.text(), true
}

// filled checks that a value is a non-empty string.
func (p *parser) filled(n *node, what string) string {
	s, ok := p.text(n, what)
	if ok && strings.TrimSpace(s) == "" {
		p.mistake(n.Pos, "", "%s is empty", what)
	}
	return s
}

// word checks that a value is one of words. It returns fallback for a nil node.
func (p *parser) word(n *node, what, fallback string, words ...string) string {
	s, ok := p.text(n, what)
	if !ok {
		return fallback
	}
	if !slices.Contains(words, s) {
		p.mistake(n.Pos, p.guess(s, words), "%s: %s is none of %s", what, quote(s), strings.Join(words, ", "))
		return fallback
	}
	return s
}

// flag checks that a value is a boolean. It returns false for a nil node.
func (p *parser) flag(n *node, what string) bool {
	if n == nil {
		return false
	}
	b, ok := n.data.(bool)
	if !ok {
		p.wrong(n, what, "true or false")
	}
	return b
}

// whole checks that a value is a whole number between low and high.
func (p *parser) whole(n *node, what string, low, high int) int {
	if n == nil {
		return 0
	}
	i, ok := wholeNumber(n.data)
	if !ok {
		p.wrong(n, what, "a whole number")
		return 0
	}
	if i < low || i > high {
		p.mistake(n.Pos, "", "%s is %d, want %d to %d", what, i, low, high)
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
func (p *parser) list(n *node, what string) []*node {
	if n == nil {
		return nil
	}
	if n.shape != list {
		p.wrong(n, what, "a list")
		return nil
	}
	return n.items
}

// texts checks that a value is a list of strings, and returns them.
func (p *parser) texts(n *node, what string) []string {
	var out []string
	for _, item := range p.list(n, what) {
		if s, ok := p.text(item, what); ok {
			out = append(out, s)
		}
	}
	return out
}

// mapOf checks that a value is a map, and returns its members.
func (p *parser) mapOf(n *node, what string) []field {
	if n == nil {
		return nil
	}
	if n.shape != object {
		p.wrong(n, what, "a map")
		return nil
	}
	return n.fields
}
