// Package yaml reads YAML and JSON that people write by hand (workflow documents, mocks,
// tests and data), within limits. It reports every mistake with its position and, if
// possible, what was probably meant.
//
// Its trees follow YAML 1.2: dates, yes and no are strings. Common syntax mistakes are corrected in a
// copy, so all of a document's mistakes are reported in one run.
package yaml

import (
	"fmt"
	"iter"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"

	yaml3 "gopkg.in/yaml.v3"

	"flunq.io/flunq/engine/excerpt"
	"flunq.io/flunq/engine/lazyregexp"
)

// Limits of a file. Each is far above what people write, but low enough to reject a hostile document
// in well under a second.
const (
	// MaxSize is the size of a document's text in bytes.
	MaxSize = 1 << 20
	// MaxDepth is the nesting depth of lists and maps.
	MaxDepth = 100
	// maxNodes is the number of values in a document, including those that aliases repeat.
	maxNodes = 50_000
	// maxKeys is the number of keys of one map.
	maxKeys = 10_000
	// maxAliases is the number of YAML aliases (*name) in a document.
	maxAliases = 1_000
	// maxDigits is the maximum number of digits of an integer.
	maxDigits = 400
	// MaxMistakes is the number of mistakes, and of warnings, reported for one document.
	MaxMistakes = 200
)

// Shape is the JSON type of a value in a document.
type Shape int

// The shapes.
const (
	Null Shape = iota
	Boolean
	Number
	Text
	List
	Object
)

// String returns the name of a shape for a message.
func (s Shape) String() string {
	return [...]string{"nothing", "a boolean", "a number", "text", "a list", "a map"}[s]
}

// Style is how a value is written.
type Style int

// The styles.
const (
	Plain  Style = iota // a scalar without quotes, or a list or a map by indentation
	Quoted              // in single or double quotes
	Folded              // a scalar after | or >
	Flow                // a list or a map in brackets
)

func styleOf(y *yaml3.Node) Style {
	switch {
	case y.Style&yaml3.FlowStyle != 0:
		return Flow
	case y.Style&(yaml3.LiteralStyle|yaml3.FoldedStyle) != 0:
		return Folded
	case y.Style&(yaml3.DoubleQuotedStyle|yaml3.SingleQuotedStyle) != 0:
		return Quoted
	default:
		return Plain
	}
}

// Node is a value of a document, with aliases and merge keys resolved, and scalars typed
// by the rules of YAML 1.2 and JSON.
type Node struct {
	Pos
	Shape   Shape
	Data    any
	Items   []*Node
	Fields  []Field
	Style   Style
	Comment string // the comment on the same line
	Implied bool   // the scalar is empty: if it is null, nothing was written
}

// Field is a member of a map, in document order.
type Field struct {
	Key   string
	Pos   Pos // position of the key
	Value *Node
}

// Get returns the value of a member, or nil.
func (n *Node) Get(key string) *Node {
	if n == nil {
		return nil
	}
	for _, f := range n.Fields {
		if f.Key == key {
			return f.Value
		}
	}
	return nil
}

// Text returns the node's string, or "".
func (n *Node) Text() string {
	if n == nil {
		return ""
	}
	s, _ := n.Data.(string)
	return s
}

// KeyPos returns the position of a key in a map, or that of the map if it lacks the key.
func (n *Node) KeyPos(key string) Pos {
	for _, f := range n.Fields {
		if f.Key == key {
			return f.Pos
		}
	}
	return n.Pos
}

// Step returns the member of a map or list that a segment of a JSON pointer selects, and the position
// of its key or item; nil if there is none.
func (n *Node) Step(segment string) (Pos, *Node) {
	if n == nil {
		return Pos{}, nil
	}
	if i, err := strconv.Atoi(segment); err == nil && i >= 0 && i < len(n.Items) {
		return n.Items[i].Pos, n.Items[i]
	}
	if member := n.Get(segment); member != nil {
		return n.KeyPos(segment), member
	}
	return Pos{}, nil
}

// At returns what a JSON pointer leads to, and the position of its key or item; nil if there is none.
func (n *Node) At(pointer string) (at Pos, found *Node) {
	found = n
	for segment := range Segments(pointer) {
		at, found = found.Step(segment)
	}
	return at, found
}

// Segments yields the keys and indices of a JSON pointer, unescaped; one "" for an empty pointer.
func Segments(pointer string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for segment := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
			if !yield(strings.NewReplacer("~1", "/", "~0", "~").Replace(segment)) {
				return
			}
		}
	}
}

// treeBuilder converts the nodes of the YAML parser, within the limits.
type treeBuilder struct {
	collector  *Collector
	maxNodes   int // number of values that may be converted
	maxAliases int // number of aliases that may be expanded
	nodes      int
	aliases    int
	open       map[*yaml3.Node]bool // anchors whose aliases are being expanded, to detect cycles
	full       bool                 // a limit was exceeded: the rest is ignored
}

func newTreeBuilder(c *Collector, limit, aliases int) *treeBuilder {
	return &treeBuilder{collector: c, maxNodes: limit, maxAliases: aliases, open: map[*yaml3.Node]bool{}}
}

// count counts a value, and reports whether it may be converted.
func (t *treeBuilder) count(at Pos) bool {
	if t.nodes++; t.nodes > t.maxNodes {
		t.refuse(at, "too large: the file has more than %d values, aliases expanded", t.maxNodes)
	}
	return !t.full
}

func posOf(y *yaml3.Node) Pos { return Pos{max(y.Line, 1), max(y.Column, 1)} }

func (t *treeBuilder) refuse(at Pos, format string, args ...any) {
	if !t.full {
		t.full = true
		t.collector.Mistake(at, "", format, args...)
	}
}

func (t *treeBuilder) build(y *yaml3.Node, depth int) *Node {
	n := &Node{Pos: posOf(y), Style: styleOf(y), Comment: y.LineComment, Implied: y.Kind == yaml3.ScalarNode && y.Value == ""}
	t.count(n.Pos)
	if depth > MaxDepth && y.Kind&(yaml3.SequenceNode|yaml3.MappingNode) != 0 {
		t.refuse(n.Pos, "nested deeper than %d levels", MaxDepth)
	}
	if t.full {
		return n
	}
	switch y.Kind {
	case yaml3.AliasNode:
		return t.alias(y, depth)
	case yaml3.SequenceNode:
		t.list(n, y, depth)
	case yaml3.MappingNode:
		t.object(n, y, depth)
	case yaml3.ScalarNode:
		t.scalar(n, y)
	case yaml3.DocumentNode:
		t.collector.Mistake(n.Pos, "", "a document inside a document")
	}
	return n
}

// alias expands *name to a copy of the value marked by &name. The copy has the positions of the
// original.
func (t *treeBuilder) alias(y *yaml3.Node, depth int) *Node {
	at := posOf(y)
	if t.aliases++; t.aliases > t.maxAliases {
		t.refuse(at, "more than %d aliases", t.maxAliases)
	}
	if y.Alias == nil || t.open[y.Alias] {
		t.refuse(at, "the alias *%s contains itself", y.Value)
	}
	if t.full {
		return &Node{Pos: at}
	}
	t.open[y.Alias] = true
	defer delete(t.open, y.Alias)
	return t.build(y.Alias, depth)
}

func (t *treeBuilder) list(n *Node, y *yaml3.Node, depth int) {
	n.Shape = List
	t.tagged(n, y, "!!seq")
	data := make([]any, 0, len(y.Content))
	for _, item := range y.Content {
		if t.full {
			break
		}
		child := t.build(item, depth+1)
		n.Items = append(n.Items, child)
		data = append(data, child.Data)
	}
	n.Data = data
}

func (t *treeBuilder) object(n *Node, y *yaml3.Node, depth int) {
	n.Shape = Object
	t.tagged(n, y, "!!map")
	data := map[string]any{}
	n.Data = data
	if len(y.Content)/2 > maxKeys {
		t.refuse(n.Pos, "a map with more than %d keys", maxKeys)
	}
	own := map[string]Pos{}
	var merged []*Node
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
			t.collector.Mistake(at, "remove one of the two, or give it another name",
				"the key %s is defined twice: first on line %d", Quote(name), first.Line)
			n.replaceNull(name, child)
			continue
		}
		own[name] = at
		n.Fields = append(n.Fields, Field{name, at, child})
		data[name] = child.Data
	}
	t.merge(n, data, merged)
}

// replaceNull uses the second of two equal keys if the first has no value.
func (n *Node) replaceNull(key string, value *Node) {
	if data, ok := n.Data.(map[string]any); ok && data[key] == nil {
		data[key] = value.Data
		i := slices.IndexFunc(n.Fields, func(f Field) bool { return f.Key == key })
		n.Fields[i].Value = value
	}
}

// merge adds the members merged by <<. They never replace the map's own members.
func (t *treeBuilder) merge(n *Node, data map[string]any, merged []*Node) {
	for _, m := range merged {
		for _, f := range m.Fields {
			if _, has := data[f.Key]; has {
				continue
			}
			n.Fields = append(n.Fields, f)
			data[f.Key] = f.Value.Data
		}
	}
	if len(n.Fields) > maxKeys {
		t.refuse(n.Pos, "a map with more than %d keys", maxKeys)
	}
}

func isMerge(key *yaml3.Node) bool {
	return key.Kind == yaml3.ScalarNode && key.Value == "<<" && (key.Tag == "!!merge" || key.Tag == "tag:yaml.org,2002:merge")
}

// sources returns the maps merged by <<.
func (t *treeBuilder) sources(y *yaml3.Node, depth int) []*Node {
	n := t.build(y, depth+1)
	found := []*Node{n}
	if n.Shape == List {
		found = n.Items
	}
	for _, m := range found {
		if m.Shape != Object && !t.full {
			t.collector.Mistake(posOf(y), "<<: *name, where &name is on a map", "<< needs a map or a list of maps, this is %s", m.Shape)
			return nil
		}
	}
	return found
}

// key returns a map's key as a string.
func (t *treeBuilder) key(y *yaml3.Node) (string, bool) {
	if y.Kind == yaml3.AliasNode && y.Alias != nil {
		y = y.Alias
	}
	if y.Kind != yaml3.ScalarNode {
		suggestion := `quote it: "{name}"`
		if y.Kind == yaml3.MappingNode && len(y.Content) == 2 && strings.ContainsAny(y.Content[0].Value, ".$") {
			suggestion = "for the value of an expression, write: ${ " + Short(y.Content[0].Value) + " }"
		}
		t.collector.Mistake(posOf(y), suggestion, "a key must be text, this is a %s", kindName(y))
		return "", false
	}
	t.count(posOf(y))
	return y.Value, true
}

func kindName(y *yaml3.Node) string {
	if y.Kind == yaml3.SequenceNode {
		return "list"
	}
	return "map"
}

// tagged reports an explicit tag other than the expected one.
func (t *treeBuilder) tagged(n *Node, y *yaml3.Node, want string) {
	if y.Style&yaml3.TaggedStyle != 0 && y.Tag != want {
		t.collector.Mistake(n.Pos, "remove the tag", "the YAML tag %s is not supported", Quote(strings.TrimSpace(y.Tag)))
	}
}

// Quote returns a string in double quotes, shortened for a message.
func Quote(s string) string { return fmt.Sprintf("%q", Short(s)) }

// Short truncates a long string for a message.
func Short(s string) string { return excerpt.Of(s, 100) }

// Patterns of YAML 1.2's core schema. Everything else is a string, including dates, yes and no.
var (
	wholePattern = lazyregexp.New(`^[-+]?[0-9]+$`)
	floatPattern = lazyregexp.New(`^[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$`)
	basedPattern = lazyregexp.New(`^0(o[0-7]+|x[0-9a-fA-F]+)$`)
	notFinite    = lazyregexp.New(`^([-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN))$`)
)

// IsWhole reports whether an unquoted string is a decimal integer.
func IsWhole(s string) bool { return wholePattern().MatchString(s) }

// IsNumber reports whether an unquoted string is a decimal number.
func IsNumber(s string) bool { return IsWhole(s) || floatPattern().MatchString(s) }

// scalar parses a plain or quoted value.
func (t *treeBuilder) scalar(n *Node, y *yaml3.Node) {
	n.Shape, n.Data = Text, any(y.Value)
	if y.Style&yaml3.TaggedStyle != 0 {
		t.taggedScalar(n, y)
		return
	}
	if y.Style&(yaml3.DoubleQuotedStyle|yaml3.SingleQuotedStyle|yaml3.LiteralStyle|yaml3.FoldedStyle) == 0 {
		t.unquoted(n, y.Value)
	}
}

// taggedScalar parses a value with an explicit tag.
func (t *treeBuilder) taggedScalar(n *Node, y *yaml3.Node) {
	var want Shape
	switch y.Tag {
	case "!!str":
		return
	case "!!int", "!!float":
		want = Number
	case "!!bool":
		want = Boolean
	case "!!null":
		want = Null
	default:
		t.collector.Mistake(n.Pos, "remove the tag", "the YAML tag %s is not supported", Quote(y.Tag))
		return
	}
	if t.unquoted(n, y.Value); n.Shape != want {
		t.collector.Mistake(n.Pos, "remove the tag", "%s does not match its tag %s", Quote(y.Value), y.Tag)
	}
}

// unquoted parses an unquoted value.
func (t *treeBuilder) unquoted(n *Node, s string) {
	switch s {
	case "", "~", "null", "Null", "NULL":
		n.Shape, n.Data = Null, nil
		return
	case "true", "True", "TRUE":
		n.Shape, n.Data = Boolean, true
		return
	case "false", "False", "FALSE":
		n.Shape, n.Data = Boolean, false
		return
	}
	switch {
	case !strings.ContainsRune("+-.0123456789", rune(s[0])):
	case wholePattern().MatchString(s):
		t.whole(n, strings.TrimPrefix(s, "+"), 10)
	case basedPattern().MatchString(s):
		base := 8
		if s[1] == 'x' {
			base = 16
		}
		t.whole(n, s[2:], base)
	case floatPattern().MatchString(s):
		f, err := strconv.ParseFloat(s, 64)
		if err != nil || math.IsInf(f, 0) {
			t.collector.Mistake(n.Pos, "quote it to make it text", "the number %s is too large", Quote(s))
			f = 0
		}
		n.Shape, n.Data = Number, f
	case notFinite().MatchString(s):
		t.collector.Mistake(n.Pos, "quote it to make it text", "%s is not a number in JSON", s)
		n.Shape, n.Data = Number, 0
	}
}

func (t *treeBuilder) whole(n *Node, digits string, base int) {
	n.Shape, n.Data = Number, 0
	if len(digits) > maxDigits {
		t.collector.Mistake(n.Pos, "quote it to make it text", "a number of more than %d digits", maxDigits)
		return
	}
	i, ok := new(big.Int).SetString(digits, base)
	switch {
	case !ok:
	case i.IsInt64():
		n.Data = int(i.Int64())
	default:
		n.Data = i
	}
}
