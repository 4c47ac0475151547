package dsl

import (
	"bytes"
	"strings"
	"unicode/utf8"

	"flunq.io/flunq/engine/yaml"
)

// source is the text of a document.
type source struct {
	text  []byte
	lines [][]byte // of text, split on first use
}

// position returns the position in the document of a byte offset in a node's string, in any YAML
// style. If it cannot be found, it returns the position of the node.
func (s *source) position(n *yaml.Node, offset int) yaml.Pos {
	value := n.Text()
	if offset < 0 || offset > len(value) {
		return n.Pos
	}
	w := s.written(n)
	// YAML styles differ in white space, so only the other characters are counted.
	at := n.Pos
	for i, r := range value {
		if i >= offset && !blank(r) {
			if next, ok := w.next(); ok && next == r {
				return w.at
			}
			return n.Pos
		}
		if i >= offset {
			break
		}
		if blank(r) {
			continue
		}
		if next, ok := w.next(); !ok || next != r {
			return n.Pos
		}
		at = yaml.Pos{Line: w.at.Line, Column: w.at.Column + w.wide}
	}
	return at
}

// find returns the position of an expression in a value or below it.
func (s *source) find(n *yaml.Node, expression string) (yaml.Pos, bool) {
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

func blank(r rune) bool { return r == ' ' || r == '\t' || r == '\n' || r == '\r' }

// scalarReader reads the characters of a scalar as written in the document.
type scalarReader struct {
	s     *source
	quote byte // ' or ", or 0
	rest  string
	line  int
	col   int      // column of rest
	at    yaml.Pos // position of the last character
	wide  int      // width of the last character in columns
}

// written returns a reader at the first character of a node's string.
func (s *source) written(n *yaml.Node) *scalarReader {
	w := &scalarReader{s: s, line: n.Line, col: 1, rest: s.line(n.Line)}
	if n.Style == yaml.Folded {
		w.rest = ""
		return w
	}
	for w.col < n.Column && w.rest != "" {
		w.skip(1)
	}
	if n.Style == yaml.Quoted && w.rest != "" && (w.rest[0] == '"' || w.rest[0] == '\'') {
		w.quote = w.rest[0]
		w.skip(1)
	}
	return w
}

func (s *scalarReader) skip(characters int) {
	for range characters {
		_, size := utf8.DecodeRuneInString(s.rest)
		s.rest = s.rest[size:]
		s.col++
	}
}

// next returns the next character that is not white space.
func (s *scalarReader) next() (rune, bool) {
	for {
		r, size := utf8.DecodeRuneInString(s.rest)
		switch {
		case size == 0:
			if s.line >= s.s.count() {
				return 0, false
			}
			s.line++
			s.col, s.rest = 1, s.s.line(s.line)
			continue
		case blank(r):
			s.skip(1)
			continue
		}
		s.at, s.wide = yaml.Pos{Line: s.line, Column: s.col}, 1
		if s.quote == '"' && r == '\\' {
			if r, ok := s.escape(); ok {
				return r, true
			}
			continue
		}
		if s.quote == '\'' && strings.HasPrefix(s.rest, "''") {
			s.wide = 2
		}
		s.skip(s.wide)
		return r, true
	}
}

// escape reads what follows a backslash. It returns false for white space.
func (s *scalarReader) escape() (rune, bool) {
	length := 2
	switch rest := s.rest[1:]; {
	case strings.HasPrefix(rest, "x"):
		length = 4
	case strings.HasPrefix(rest, "u"):
		length = 6
	case strings.HasPrefix(rest, "U"):
		length = 10
	case rest == "" || rest[0] == ' ' || rest[0] == '\t' || rest[0] == '\r':
		s.skip(1)
		return 0, false
	}
	length = min(length, utf8.RuneCountInString(s.rest))
	text := s.rest
	s.wide = length
	s.skip(length)
	text = text[:len(text)-len(s.rest)]
	decoded, ok := yaml.Unescape(text)
	if !ok {
		return 0, false
	}
	r, _ := utf8.DecodeRuneInString(decoded)
	return r, !blank(r)
}

// count returns the number of lines of the document.
func (s *source) count() int {
	s.line(1)
	return len(s.lines)
}

// line returns a line of the document; the first is 1.
func (s *source) line(number int) string {
	if s.lines == nil {
		s.lines = bytes.Split(s.text, []byte("\n"))
	}
	if number < 1 || number > len(s.lines) {
		return ""
	}
	return string(s.lines[number-1])
}
