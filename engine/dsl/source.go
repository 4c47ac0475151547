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

// position returns the position in the document of a byte offset in a node's text, in
// whatever YAML style the text is written. If it cannot be found, it returns the position
// of the node.
func (s *source) position(n *yaml.Node, offset int) yaml.Pos {
	value := n.Text()
	if offset < 0 || offset > len(value) {
		return n.Pos
	}
	w := s.written(n)
	// Styles of YAML differ in white space, so only the other characters are counted.
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

// written returns a reader at the first character of a node's text.
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

func (w *scalarReader) skip(characters int) {
	for range characters {
		_, size := utf8.DecodeRuneInString(w.rest)
		w.rest = w.rest[size:]
		w.col++
	}
}

// next returns the next character that is not white space.
func (w *scalarReader) next() (rune, bool) {
	for {
		r, size := utf8.DecodeRuneInString(w.rest)
		switch {
		case size == 0:
			if w.line >= w.s.count() {
				return 0, false
			}
			w.line++
			w.col, w.rest = 1, w.s.line(w.line)
			continue
		case blank(r):
			w.skip(1)
			continue
		}
		w.at, w.wide = yaml.Pos{Line: w.line, Column: w.col}, 1
		if w.quote == '"' && r == '\\' {
			if r, ok := w.escape(); ok {
				return r, true
			}
			continue
		}
		if w.quote == '\'' && strings.HasPrefix(w.rest, "''") {
			w.wide = 2
		}
		w.skip(w.wide)
		return r, true
	}
}

// escape reads what follows a backslash. It returns false for white space.
func (w *scalarReader) escape() (rune, bool) {
	length := 2
	switch rest := w.rest[1:]; {
	case strings.HasPrefix(rest, "x"):
		length = 4
	case strings.HasPrefix(rest, "u"):
		length = 6
	case strings.HasPrefix(rest, "U"):
		length = 10
	case rest == "" || rest[0] == ' ' || rest[0] == '\t' || rest[0] == '\r':
		w.skip(1)
		return 0, false
	}
	length = min(length, utf8.RuneCountInString(w.rest))
	text := w.rest
	w.wide = length
	w.skip(length)
	text = text[:len(text)-len(w.rest)]
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
