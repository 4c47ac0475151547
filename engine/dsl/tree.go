package dsl

import (
	"fmt"
	"math"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"gopkg.in/yaml.v3"
)

// shape is the type of a value in a document.
type shape int

const (
	null shape = iota
	boolean
	number
	text
	list
	object
)

// String names a shape as mistakes do.
func (s shape) String() string {
	return [...]string{"nothing", "a boolean", "a number", "text", "a list", "a map"}[s]
}

// node is a value of a document, with aliases and merge keys resolved, and scalars typed
// by the rules of YAML 1.2 and JSON.
type node struct {
	Pos
	shape   shape
	data    any
	items   []*node
	fields  []field
	style   yaml.Style
	comment string // the comment on the same line
	implied bool   // null because nothing was written
}

// field is a member of a map, in document order.
type field struct {
	key   string
	pos   Pos // position of the key
	value *node
}

// get returns the value of a member, or nil.
func (n *node) get(key string) *node {
	if n == nil {
		return nil
	}
	for _, f := range n.fields {
		if f.key == key {
			return f.value
		}
	}
	return nil
}

// text returns the node's string, or "".
func (n *node) text() string {
	if n == nil {
		return ""
	}
	s, _ := n.data.(string)
	return s
}

// treeBuilder converts the nodes of the YAML parser, within the limits.
type treeBuilder struct {
	notes   *notes
	nodes   int
	aliases int
	open    map[*yaml.Node]bool // anchors whose aliases are being expanded, to detect cycles
	full    bool                // a limit was exceeded: the rest is left out
}

func posOf(y *yaml.Node) Pos { return Pos{max(y.Line, 1), max(y.Column, 1)} }

func (t *treeBuilder) refuse(at Pos, format string, args ...any) {
	if !t.full {
		t.full = true
		t.notes.mistake(at, "", format, args...)
	}
}

func (t *treeBuilder) build(y *yaml.Node, depth int) *node {
	n := &node{Pos: posOf(y), style: y.Style, comment: y.LineComment, implied: y.Kind == yaml.ScalarNode && y.Value == ""}
	if t.nodes++; t.nodes > MaxNodes {
		t.refuse(n.Pos, "the document has more than %d values, aliases expanded", MaxNodes)
	}
	if depth > MaxDepth {
		t.refuse(n.Pos, "nested deeper than %d levels", MaxDepth)
	}
	if t.full {
		return n
	}
	switch y.Kind {
	case yaml.AliasNode:
		return t.alias(y, depth)
	case yaml.SequenceNode:
		t.list(n, y, depth)
	case yaml.MappingNode:
		t.object(n, y, depth)
	case yaml.ScalarNode:
		t.scalar(n, y)
	case yaml.DocumentNode:
		t.notes.mistake(n.Pos, "", "a document inside a document")
	}
	return n
}

// alias expands *name to a copy of what &name marks. The copy keeps the position of the
// anchor.
func (t *treeBuilder) alias(y *yaml.Node, depth int) *node {
	at := posOf(y)
	if t.aliases++; t.aliases > MaxAliases {
		t.refuse(at, "more than %d aliases", MaxAliases)
	}
	if y.Alias == nil || t.open[y.Alias] {
		t.refuse(at, "the alias *%s is inside of what it stands for", y.Value)
	}
	if t.full {
		return &node{Pos: at}
	}
	t.open[y.Alias] = true
	defer delete(t.open, y.Alias)
	return t.build(y.Alias, depth)
}

func (t *treeBuilder) list(n *node, y *yaml.Node, depth int) {
	n.shape = list
	t.tagged(n, y, "!!seq")
	data := make([]any, 0, len(y.Content))
	for _, item := range y.Content {
		if t.full {
			break
		}
		child := t.build(item, depth+1)
		n.items = append(n.items, child)
		data = append(data, child.data)
	}
	n.data = data
}

func (t *treeBuilder) object(n *node, y *yaml.Node, depth int) {
	n.shape = object
	t.tagged(n, y, "!!map")
	data := map[string]any{}
	n.data = data
	if len(y.Content)/2 > MaxKeys {
		t.refuse(n.Pos, "a map with more than %d keys", MaxKeys)
	}
	own := map[string]Pos{}
	var merged []*node
	for i := 0; i+1 < len(y.Content) && !t.full; i += 2 {
		key, value := y.Content[i], y.Content[i+1]
		if isMerge(key) {
			merged = append(merged, t.sources(value, depth)...)
			continue
		}
		name, ok := t.key(key)
		child := t.build(value, depth+1)
		if !ok {
			continue
		}
		at := posOf(key)
		if first, twice := own[name]; twice {
			t.notes.mistake(at, "remove one of the two, or give it another name",
				"the key %s is defined twice: first on line %d", quote(name), first.Line)
			n.replaceNull(name, child)
			continue
		}
		own[name] = at
		n.fields = append(n.fields, field{name, at, child})
		data[name] = child.data
	}
	t.merge(n, data, merged)
}

// replaceNull uses the second of two equal keys if the first has no value.
func (n *node) replaceNull(key string, value *node) {
	if data, ok := n.data.(map[string]any); ok && data[key] == nil {
		data[key] = value.data
		i := slices.IndexFunc(n.fields, func(f field) bool { return f.key == key })
		n.fields[i].value = value
	}
}

// merge adds the members that << merges. They never replace a key of the map's own.
func (t *treeBuilder) merge(n *node, data map[string]any, merged []*node) {
	for _, m := range merged {
		for _, f := range m.fields {
			if _, has := data[f.key]; has {
				continue
			}
			n.fields = append(n.fields, f)
			data[f.key] = f.value.data
		}
	}
	if len(n.fields) > MaxKeys {
		t.refuse(n.Pos, "a map with more than %d keys", MaxKeys)
	}
}

func isMerge(key *yaml.Node) bool {
	return key.Kind == yaml.ScalarNode && key.Value == "<<" && (key.Tag == "!!merge" || key.Tag == "tag:yaml.org,2002:merge")
}

// sources returns the maps that << merges.
func (t *treeBuilder) sources(y *yaml.Node, depth int) []*node {
	n := t.build(y, depth+1)
	found := []*node{n}
	if n.shape == list {
		found = n.items
	}
	for _, m := range found {
		if m.shape != object && !t.full {
			t.notes.mistake(posOf(y), "<<: *name, where &name is on a map", "<< wants a map or a list of maps, this is %s", m.shape)
			return nil
		}
	}
	return found
}

// key returns the text of a map's key.
func (t *treeBuilder) key(y *yaml.Node) (string, bool) {
	if y.Kind == yaml.AliasNode && y.Alias != nil {
		y = y.Alias
	}
	if y.Kind != yaml.ScalarNode {
		suggestion := `quote it: "{name}"`
		if y.Kind == yaml.MappingNode && len(y.Content) == 2 && strings.ContainsAny(y.Content[0].Value, ".$") {
			suggestion = "for the value of an expression, write: ${ " + short(y.Content[0].Value) + " }"
		}
		t.notes.mistake(posOf(y), suggestion, "a key must be text, this is a %s", kindName(y))
		return "", false
	}
	if t.nodes++; t.nodes > MaxNodes {
		t.refuse(posOf(y), "the document has more than %d values, aliases expanded", MaxNodes)
	}
	return y.Value, true
}

func kindName(y *yaml.Node) string {
	if y.Kind == yaml.SequenceNode {
		return "list"
	}
	return "map"
}

// tagged reports an explicit tag other than the expected one.
func (t *treeBuilder) tagged(n *node, y *yaml.Node, want string) {
	if y.Style&yaml.TaggedStyle != 0 && y.Tag != want {
		t.notes.mistake(n.Pos, "remove the tag", "the YAML tag %s is not supported", quote(strings.TrimSpace(y.Tag)))
	}
}

func quote(s string) string { return fmt.Sprintf("%q", short(s)) }

// short truncates a long name or text for a message.
func short(s string) string { return cut(s, 100) }

// cut truncates text to about limit bytes.
func cut(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return s[:limit] + "…"
}

// Patterns of YAML 1.2's core schema. Everything else is text, including dates, yes and
// no.
var (
	wholePattern = regexp.MustCompile(`^[-+]?[0-9]+$`)
	floatPattern = regexp.MustCompile(`^[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$`)
	basedPattern = regexp.MustCompile(`^0(o[0-7]+|x[0-9a-fA-F]+)$`)
	notFinite    = regexp.MustCompile(`^([-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN))$`)
)

// scalar parses a plain or quoted value.
func (t *treeBuilder) scalar(n *node, y *yaml.Node) {
	n.shape, n.data = text, any(y.Value)
	if y.Style&yaml.TaggedStyle != 0 {
		t.taggedScalar(n, y)
		return
	}
	if y.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle) == 0 {
		t.plain(n, y.Value)
	}
}

// taggedScalar parses a value with an explicit tag.
func (t *treeBuilder) taggedScalar(n *node, y *yaml.Node) {
	var want shape
	switch y.Tag {
	case "!!str":
		return
	case "!!int", "!!float":
		want = number
	case "!!bool":
		want = boolean
	case "!!null":
		want = null
	default:
		t.notes.mistake(n.Pos, "remove the tag", "the YAML tag %s is not supported", quote(y.Tag))
		return
	}
	if t.plain(n, y.Value); n.shape != want {
		t.notes.mistake(n.Pos, "remove the tag", "%s is not what its tag %s says", quote(y.Value), y.Tag)
	}
}

// plain parses an unquoted value.
func (t *treeBuilder) plain(n *node, s string) {
	switch s {
	case "", "~", "null", "Null", "NULL":
		n.shape, n.data = null, nil
		return
	case "true", "True", "TRUE":
		n.shape, n.data = boolean, true
		return
	case "false", "False", "FALSE":
		n.shape, n.data = boolean, false
		return
	}
	switch {
	case !strings.ContainsRune("+-.0123456789", rune(s[0])):
	case wholePattern.MatchString(s):
		t.whole(n, strings.TrimPrefix(s, "+"), 10)
	case basedPattern.MatchString(s):
		base := 8
		if s[1] == 'x' {
			base = 16
		}
		t.whole(n, s[2:], base)
	case floatPattern.MatchString(s):
		f, err := strconv.ParseFloat(s, 64)
		if err != nil || math.IsInf(f, 0) {
			t.notes.mistake(n.Pos, "quote it to have it as text", "the number %s is too large", quote(s))
			f = 0
		}
		n.shape, n.data = number, f
	case notFinite.MatchString(s):
		t.notes.mistake(n.Pos, "quote it to have it as text", "%s is not a number in JSON", s)
		n.shape, n.data = number, 0
	}
}

func (t *treeBuilder) whole(n *node, digits string, base int) {
	n.shape, n.data = number, 0
	if len(digits) > MaxDigits {
		t.notes.mistake(n.Pos, "quote it to have it as text", "a number of more than %d digits", MaxDigits)
		return
	}
	i, ok := new(big.Int).SetString(digits, base)
	switch {
	case !ok:
	case i.IsInt64():
		n.data = int(i.Int64())
	default:
		n.data = i
	}
}
