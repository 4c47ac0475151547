package dsl

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"flunq.io/flunq/engine/excerpt"
	"flunq.io/flunq/engine/lazyregexp"
	"flunq.io/flunq/engine/spelling"
	"flunq.io/flunq/engine/yaml"
)

// reader reads the maps, lists and plain values of a document, and reports values of the wrong type.
// All parsers of a document share one.
type reader struct{ *yaml.Collector }

// object checks that a value is a map with the expected keys; what names it in mistakes.
// It reports whether the members are worth parsing.
func (p *reader) object(n *yaml.Node, what string, m members) bool {
	if n.Shape != yaml.Object {
		p.wrong(n, what, "a map")
		return false
	}
	free := absent(n, m.known)
	if len(free) == 0 {
		free = m.known
	}
	var misspelt []string // keys that are present under a wrong name
	for i, f := range n.Fields {
		if slices.Contains(m.known, f.Key) {
			continue
		}
		parent, _, _ := strings.Cut(m.below[f.Key], ":")
		meant := closest(f.Key, free)
		if !m.open || parent != "" { // otherwise the key is no mistake
			misspelt = append(misspelt, meant, parent)
		}
		p.unknownKey(f, what, m, free)
		if parent != "" {
			continue
		}
		if slices.Contains(kindKeys(), meant) || meant == "use" {
			meant = spelling.Word(f.Key, free)
		}
		if meant != "" && !m.open && n.Get(meant) == nil {
			n.Fields[i].Key = meant // to report mistakes in its value, too
		}
	}
	moveDown(n, m.below)
	for _, name := range m.required {
		if slices.Contains(free, name) && n.Get(name) == nil && !slices.Contains(misspelt, name) {
			p.Mistake(n.Pos, fmt.Sprintf("add `%s: …`", name), "%s has no %s", what, name)
		}
	}
	return true
}

func (p *reader) unknownKey(f yaml.Field, what string, m members, free []string) {
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
			p.Warn(ruleUnknownKey, f.Pos, p.guessKey(f.Key, free, m.known), "CloudEvents has no attribute %s: it is treated as an extension", yaml.Quote(f.Key))
			return
		}
		p.Warn(ruleUnknownKey, f.Pos, p.guessKey(f.Key, free, m.known), "%s is not a known key of %s: it is ignored", yaml.Quote(f.Key), what)
	}
}

// exactlyOne returns the one of names that a map has, or reports that it has none or several of them.
func (p *reader) exactlyOne(n *yaml.Node, what string, names ...string) string {
	found := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return n.Get(name) == nil })
	all := strings.Join(names, ", ")
	switch {
	case len(found) == 1:
		return found[0]
	case len(found) > 1:
		p.Mistake(n.Pos, "keep one", "%s needs exactly one of %s, this has %d", what, all, len(found))
	case !slices.ContainsFunc(names, func(name string) bool { return misspelt(n, name, names) }):
		p.Mistake(n.Pos, "add one", "%s needs exactly one of %s", what, all)
	}
	return ""
}

// mapOf checks that a value is a map, and returns its members.
func (p *reader) mapOf(n *yaml.Node, what string) []yaml.Field {
	if n == nil {
		return nil
	}
	if n.Shape != yaml.Object {
		p.wrong(n, what, "a map")
		return nil
	}
	return n.Fields
}

// section checks that a part of use is a map.
func (p *reader) section(n *yaml.Node, what string) section {
	s := section{nodes: map[string]*yaml.Node{}}
	for _, f := range p.mapOf(n, what) {
		s.names = append(s.names, f.Key)
		s.nodes[f.Key] = f.Value
	}
	return s
}

// list checks that a value is a list, and returns its items.
func (p *reader) list(n *yaml.Node, what string) []*yaml.Node {
	if n == nil {
		return nil
	}
	if n.Shape != yaml.List {
		p.wrong(n, what, "a list")
		return nil
	}
	return n.Items
}

// textList checks that a value is a list of strings, and returns them.
func (p *reader) textList(n *yaml.Node, what string) []string {
	var out []string
	for _, item := range p.list(n, what) {
		if s, ok := p.text(item, what); ok {
			out = append(out, s)
		}
	}
	return out
}

// text checks that a value is a string. It returns false for a nil node, without reporting a
// mistake.
func (p *reader) text(n *yaml.Node, what string) (string, bool) {
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
func (p *reader) filled(n *yaml.Node, what string) string {
	s, ok := p.text(n, what)
	if ok && strings.TrimSpace(s) == "" {
		p.Mistake(n.Pos, "", "%s is empty", what)
	}
	return s
}

// word checks that a value is one of words. It returns fallback for a nil node.
func (p *reader) word(n *yaml.Node, what, fallback string, words ...string) string {
	s, ok := p.text(n, what)
	if !ok {
		return fallback
	}
	if !slices.Contains(words, s) {
		p.Mistake(n.Pos, p.guess(s, words), "%s: %s is not one of %s", what, yaml.Quote(s), strings.Join(words, ", "))
		return fallback
	}
	return s
}

// variable parses the name of a variable, with or without its $.
func (p *reader) variable(n *yaml.Node, what, fallback string) string {
	s, ok := p.text(n, what)
	if !ok {
		return fallback
	}
	if !variableName().MatchString(s) {
		p.Mistake(n.Pos, "use letters, digits and _ only", "%s: %s cannot be the name of a variable", what, yaml.Quote(s))
		return fallback
	}
	s = strings.TrimPrefix(s, "$")
	switch {
	case s == "ENV", strings.HasPrefix(s, "__"):
		p.Warn(ruleShadowed, n.Pos, "give it another name", "%s: no expression can use $%s", what, s)
	case scope(nil).exported().has(s):
		p.Warn(ruleShadowed, n.Pos, "give it another name", "%s: $%s already has another meaning, which it loses inside this task", what, s)
	}
	return s
}

// flag checks that a value is a boolean. It returns false for a nil node.
func (p *reader) flag(n *yaml.Node, what string) bool {
	if n == nil {
		return false
	}
	b, ok := n.Data.(bool)
	if !ok {
		p.wrong(n, what, "true or false")
	}
	return b
}

// whole checks that a value is an integer between low and high.
func (p *reader) whole(n *yaml.Node, what string, low, high int) int {
	if n == nil {
		return 0
	}
	i, ok := wholeNumber(n.Data)
	switch {
	case ok && low <= i && i <= high:
		return i
	case n.Shape == yaml.Number:
		p.Mistake(n.Pos, "", "%s is %v, want a whole number from %d to %d", what, n.Data, low, high)
	default:
		p.wrong(n, what, "a whole number")
	}
	return 0
}

// wrong reports a value of the wrong type.
func (p *reader) wrong(n *yaml.Node, what, want string) {
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
	case (want == "true or false" || want == "a whole number") && whole(n.Text()).is:
		suggestion = "the specification allows no expression here"
	case want == "true or false" && slices.Contains([]string{"yes", "on", "y"}, strings.ToLower(n.Text())):
		suggestion = "write true"
	case want == "true or false" && slices.Contains([]string{"no", "off", "n"}, strings.ToLower(n.Text())):
		suggestion = "write false"
	case want == "true or false" && n.Shape == yaml.Text:
		suggestion = "write true or false"
	case n.Shape != yaml.Null:
		suggestion = form(n, what)
	}
	p.Mistake(n.Pos, suggestion, "%s: want %s, this is %s", what, want, n.Shape)
}

// form suggests how to write a plain value where a map or a list is expected.
func form(n *yaml.Node, what string) string {
	plain := func(format, example string) string {
		if n.Shape == yaml.Text || n.Shape == yaml.Number {
			example = excerpt.Of(strings.TrimSpace(fmt.Sprint(n.Data)), 100)
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
	case what == "use.extensions" && n.Shape == yaml.Object:
		return "put `- ` before each extension"
	case section == "arguments" && n.Shape == yaml.Object:
		return "write it as [argument, argument]"
	case what == "the workflow" && n.Shape == yaml.List:
		return "write the keys without the `- ` before them"
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
	case what == "run.workflow.input":
		return "write it as a map, with an expression for each member: {id: '${ .id }'}"
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

// looksPlain reports whether a string is a quoted number or boolean.
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

// unquotedTemplate returns the string that was meant by {name} without quotes, which YAML reads as
// a map; "" for any other node.
func unquotedTemplate(n *yaml.Node) string {
	if len(n.Fields) != 1 || n.Style != yaml.Flow || n.Fields[0].Value.Shape != yaml.Null || !n.Fields[0].Value.Implied {
		return ""
	}
	return "{" + n.Fields[0].Key + "}"
}

// wholeNumber converts a number to an int. As in JSON Schema, 3.0 is also an integer.
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

var variableName = lazyregexp.New(`^\$?[A-Za-z_][A-Za-z0-9_]*$`)

// guess suggests the word that was probably meant, unless the limit of reported mistakes is reached.
func (p *reader) guess(word string, all []string) string {
	if p.Full() {
		return ""
	}
	return didYouMean(word, all)
}

// guessKey is guess for a key of a map; free lists the allowed keys that the map does not have yet.
func (p *reader) guessKey(word string, free, allowed []string) string {
	if p.Full() {
		return ""
	}
	if found := closest(word, free); found != "" {
		return question(found)
	}
	return "allowed keys: " + strings.Join(shortened(allowed), ", ")
}

// cannotRun warns about a construct of a task that this version cannot run.
func (p *reader) cannotRun(at yaml.Pos, construct, instead string) {
	p.warnUnrunnable(at, construct, instead, "gets there")
}

func (p *reader) warnUnrunnable(at yaml.Pos, construct, instead, when string) {
	p.Warn(ruleUnsupported, at, instead, "this version of flunq cannot run %s: the workflow faults when it %s", strconv.Quote(construct), when)
}

// instead suggests an alternative to an unsupported protocol or process.
func instead(construct string) string {
	switch construct {
	case "schedule":
		return "remove it, and start the workflow from outside, as from cron: flunq start FILE"
	case "use.extensions":
		return "write the tasks where they are needed, or as a function in use.functions"
	case "schema":
		return "write the JSON Schema itself under `document:`"
	case "authentication":
		return "use basic or bearer, with the token from $secrets or from a call of its own"
	case "catalog":
		return "define the function in use.functions"
	case "script":
		return "compute with jq in a set task, or put the code behind an HTTP endpoint"
	default:
		return "put it behind an HTTP endpoint and use call: http"
	}
}

// section is a part of use: components by name, in document order.
type section struct {
	names []string
	nodes map[string]*yaml.Node
}

// reference returns the suggestion for a name that a section of use does not define.
func reference(name, section string, names []string) string {
	if len(names) == 0 {
		return "define it in " + section
	}
	return didYouMean(name, names)
}
