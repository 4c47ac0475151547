package spec

import (
	"bytes"
	"errors"
	"strings"
	"unicode/utf8"

	yaml3 "gopkg.in/yaml.v3"

	"flunq.io/flunq/engine/yaml"
)

// sourceText is the source of a YAML file with the positions of its nodes.
type sourceText struct {
	source []byte
	lines  []int                    // offset of each line
	above  map[*yaml3.Node]position // position of each node
}

// position describes the context of a node.
type position struct {
	inFlow bool
	key    *yaml3.Node // nil: it is a list item or the root
}

func newSourceText(source []byte, root *yaml3.Node) *sourceText {
	t := &sourceText{source: source, lines: []int{0}, above: map[*yaml3.Node]position{}}
	for i, c := range source {
		if c == '\n' {
			t.lines = append(t.lines, i+1)
		}
	}
	t.walk(root, position{})
	return t
}

func (t *sourceText) walk(n *yaml3.Node, at position) {
	t.above[n] = at
	inner := position{inFlow: at.inFlow || n.Style&yaml3.FlowStyle != 0}
	for i, child := range n.Content {
		inner.key = nil
		if n.Kind == yaml3.MappingNode && i%2 == 1 {
			inner.key = n.Content[i-1]
		}
		t.walk(child, inner)
	}
}

// offset returns where a node begins. Columns count characters, not bytes.
func (t *sourceText) offset(n *yaml3.Node) int {
	at := t.lines[min(n.Line-1, len(t.lines)-1)]
	if n.Line == 1 && bytes.HasPrefix(t.source, []byte("\ufeff")) {
		at += len("\ufeff")
	}
	for range n.Column - 1 {
		_, size := utf8.DecodeRune(t.source[at:])
		at += size
	}
	return at
}

// errPlace means that a node cannot be changed in place; the caller adds the file and the
// line.
var errPlace = errors.New("the form of its YAML cannot be preserved")

// extent returns where a node begins and ends.
func (t *sourceText) extent(n *yaml3.Node) (from, to int, err error) {
	from = t.offset(n)
	switch {
	case n.Anchor != "" || n.Kind == yaml3.AliasNode || n.Style&yaml3.TaggedStyle != 0:
		return 0, 0, errPlace
	case n.Kind == yaml3.ScalarNode:
		to, err = t.scalarEnd(n, from)
		return from, to, err
	case n.Style&yaml3.FlowStyle != 0 || len(n.Content) == 0:
		to, err = t.flowEnd(from)
		return from, to, err
	default:
		_, to, err = t.extent(n.Content[len(n.Content)-1])
		return from, to, err
	}
}

// flowEnd finds the bracket that closes the one at from.
func (t *sourceText) flowEnd(from int) (int, error) {
	depth := 0
	for i := from; i < len(t.source); {
		switch t.source[i] {
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		}
		next, err := t.after(i, from)
		if err != nil || depth == 0 {
			return i + 1, err
		}
		i = next
	}
	return 0, errPlace
}

// after returns the offset after the byte at i, or after the whole quoted string or comment
// that begins there.
func (t *sourceText) after(i, from int) (int, error) {
	switch c := t.source[i]; {
	case (c == '"' || c == '\'') && opensQuote(t.source[from:i]):
		return t.quoteEnd(i)
	case c == '#' && i > 0 && strings.ContainsRune(" \t\n", rune(t.source[i-1])):
		return t.lineEnd(i), nil
	default:
		return i + 1, nil
	}
}

// opensQuote reports whether a quote begins a scalar; within a plain scalar it is an
// ordinary character.
func opensQuote(before []byte) bool {
	before = bytes.TrimRight(before, " \t\r\n")
	return len(before) > 0 && strings.ContainsRune("{[,:", rune(before[len(before)-1]))
}

// quoteEnd finds the end of the quoted string that begins at from.
func (t *sourceText) quoteEnd(from int) (int, error) {
	if i := yaml.QuoteEnd(t.source, from); i >= 0 {
		return i + 1, nil
	}
	return 0, errPlace
}

func (t *sourceText) lineEnd(from int) int {
	if i := bytes.IndexByte(t.source[from:], '\n'); i >= 0 {
		return from + i
	}
	return len(t.source)
}

func (t *sourceText) scalarEnd(n *yaml3.Node, from int) (int, error) {
	switch {
	case n.Style&(yaml3.DoubleQuotedStyle|yaml3.SingleQuotedStyle) != 0:
		return t.quoteEnd(from)
	case n.Style&(yaml3.LiteralStyle|yaml3.FoldedStyle) != 0:
		return t.blockEnd(n, from), nil
	case n.Value == "":
		return from, nil
	case !bytes.HasPrefix(t.source[from:], []byte(n.Value)):
		return 0, errPlace // it spans several lines
	default:
		return from + len(n.Value), nil
	}
}

// blockEnd finds the end of a block scalar after | or >: the last line that is indented
// deeper than its key.
func (t *sourceText) blockEnd(n *yaml3.Node, from int) int {
	deep := 0
	if key := t.above[n].key; key != nil {
		deep = key.Column - 1
	}
	end := t.lineEnd(from)
	for at := end + 1; at < len(t.source); {
		next := t.lineEnd(at)
		line := string(t.source[at:next])
		indent := len(line) - len(strings.TrimLeft(line, " "))
		if strings.TrimSpace(line) != "" {
			if indent <= deep {
				break
			}
			end = next
		}
		at = next + 1
	}
	return end
}
