package dsl

import (
	"strings"
	"unicode/utf8"

	"flunq.io/flunq/engine/yaml"
)

// source is the text of a document, by lines.
type source []string

func newSource(text []byte) source { return strings.Split(string(text), "\n") }

// position returns the position in the document of a byte offset in a node's string. YAML styles
// differ in white space, so it looks for the same word, after as many like it as in the string. If
// the word is written differently, it returns the position of the node.
func (s source) position(n *yaml.Node, offset int) yaml.Pos {
	const blanks = " \t\r\n"
	value := n.Text()
	if offset < 0 || offset > len(value) {
		return n.Pos
	}
	if offset == len(value) || strings.IndexByte(blanks, value[offset]) >= 0 {
		offset = len(strings.TrimRight(value[:offset], blanks)) // the end of the word before
	}
	begin := strings.LastIndexAny(value[:offset], blanks) + 1
	word := value[begin:]
	if end := strings.IndexAny(word, blanks); end >= 0 {
		word = word[:end]
	}
	line, column, quote := n.Line, n.Column, ""
	if first := s.from(line, column); n.Style == yaml.Quoted && (strings.HasPrefix(first, `"`) || strings.HasPrefix(first, "'")) {
		quote, column = first[:1], column+1
	} else if n.Style == yaml.Folded {
		line, column = line+1, 1
	}
	written := func(text string) string {
		switch quote {
		case `"`:
			return strings.NewReplacer(`"`, `\"`, `\`, `\\`).Replace(text)
		case "'":
			return strings.ReplaceAll(text, "'", "''")
		default:
			return text
		}
	}
	for before := strings.Count(value[:begin], word); word != "" && line <= len(s); line, column = line+1, 1 {
		for rest := s.from(line, column); ; {
			skipped, after, found := strings.Cut(rest, written(word))
			column += utf8.RuneCountInString(skipped)
			if !found {
				break
			}
			if before == 0 {
				return yaml.Pos{Line: line, Column: column + utf8.RuneCountInString(written(value[begin:offset]))}
			}
			before--
			column += utf8.RuneCountInString(written(word))
			rest = after
		}
	}
	return n.Pos
}

// from returns a line from a column on; the first of each is 1. Beyond the end it returns "".
func (s source) from(line, column int) string {
	if line > len(s) {
		return ""
	}
	characters := []rune(s[line-1])
	return string(characters[min(column-1, len(characters)):])
}

// find returns the position of an expression in a value or below it.
func (s source) find(n *yaml.Node, expression string) (yaml.Pos, bool) {
	if n.Shape == yaml.Text {
		inner := whole(n.Text())
		if !inner.is {
			inner = inside{source: n.Text()}
		}
		if strings.HasPrefix(inner.source, expression) {
			return s.position(n, inner.offset), true
		}
	}
	for _, item := range n.Items {
		if at, found := s.find(item, expression); found {
			return at, true
		}
	}
	for _, f := range n.Fields {
		if at, found := s.find(f.Value, expression); found {
			return at, true
		}
	}
	return yaml.Pos{}, false
}
