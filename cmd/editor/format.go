package editor

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"

	yaml3 "gopkg.in/yaml.v3"

	"flunq.io/flunq/engine/yaml"
)

// errUnsafe means that the formatted file would not mean the same: a bug in Format.
var errUnsafe = errors.New("formatting would change what the file means; it was not changed")

// Format returns YAML source in the standard layout: keys and items are indented by two spaces,
// one space follows a dash or a colon, no line ends with a space, and no two blank lines follow
// each other. Comments, quotes, brackets and line breaks do not change. If text is not YAML, the
// error is a *yaml.Mistakes.
func Format(name string, text []byte) ([]byte, error) {
	text = bytes.TrimPrefix(text, []byte("\ufeff"))
	c := yaml.NewCollector(name)
	yaml.Read(c, text)
	if _, err := c.Result(text); err != nil {
		return nil, err
	}
	l := &layout{outline: readOutline(string(text)), columns: map[*node]int{}}
	l.place(l.root, -step)
	out := l.text()
	if !sameMeaning(text, out) {
		return nil, fmt.Errorf("%s: %w", name, errUnsafe)
	}
	return out, nil
}

// step is the number of spaces by which each level is indented.
const step = 2

// layout writes the lines of an outline at their new columns.
type layout struct {
	*outline
	columns map[*node]int // of keys and items outside of brackets
}

func (l *layout) place(n *node, column int) {
	l.columns[n] = column
	for _, c := range n.children {
		if !c.flow {
			l.place(c, column+step)
		}
	}
}

func (l *layout) text() []byte {
	var out strings.Builder
	empty := true // nothing was written yet, or a blank line was written last
	for i, line := range l.lines {
		var text string
		switch l.kinds[i] {
		case blank:
		case comment:
			text = spaces(l.commentColumn(i)) + strings.TrimSpace(line)
		case marker:
			text = line
		case structure:
			text = l.structure(i)
		case continued:
			text = spaces(indentOf(line)+l.shift(l.owner[i])) + strings.TrimSpace(line)
		case verbatim:
			out.WriteString(l.verbatim(i) + "\n")
			empty = false
			continue
		}
		text = strings.TrimRightFunc(text, unicode.IsSpace)
		if text == "" && empty {
			continue
		}
		empty = text == ""
		out.WriteString(text + "\n")
	}
	text := out.String()
	if last := len(l.lines) - 1; empty || l.kinds[last] == verbatim && l.lines[last] != "" {
		text = strings.TrimSuffix(text, "\n") // the line break at the end of a literal matters
	}
	return []byte(text)
}

func spaces(n int) string { return strings.Repeat(" ", max(n, 0)) }

// shift returns the number of columns by which a key or an item moves to the right.
func (l *layout) shift(n *node) int {
	if n == l.root {
		return 0
	}
	return l.columns[n] - n.at.byte
}

// structure returns a line on which keys or items begin, or that continues a value.
func (l *layout) structure(i int) string {
	line, n := l.lines[i], l.first[i]
	if n == nil {
		return spaces(l.columns[l.owner[i]]+step) + strings.TrimSpace(line)
	}
	out := spaces(l.columns[n])
	for ; ; n = n.children[0] {
		end := n.at.byte + 1
		if n.item {
			out += "-"
		} else {
			out += line[n.at.byte:n.keyEnd.byte] + ":"
			end = n.keyEnd.byte + strings.IndexByte(line[n.keyEnd.byte:], ':') + 1
		}
		if len(n.children) == 0 || n.children[0].flow || n.children[0].at.line != i {
			rest := strings.TrimLeft(line[end:], " \t")
			if strings.HasPrefix(rest, "#") {
				return out + line[end:] // the comment does not change
			}
			return out + " " + rest
		}
		out += " "
	}
}

// verbatim returns a line of a literal, whose spaces matter.
func (l *layout) verbatim(i int) string {
	n, line := l.owner[i], l.lines[i]
	if strings.TrimSpace(line) == "" && n.opener != '|' && n.opener != '>' {
		return ""
	}
	by := l.shift(n)
	if n.opener == '|' || n.opener == '>' {
		head, _, _ := strings.Cut(l.lines[n.valueAt.line][n.valueAt.byte:], " ")
		if !strings.ContainsAny(head, "123456789") {
			first := n.valueAt.line + 1
			for first < i && strings.TrimSpace(l.lines[first]) == "" {
				first++
			}
			by = max(l.columns[n], 0) + step - indentOf(l.lines[first])
			if strings.TrimSpace(line) == "" {
				return spaces(min(len(line), len(line)+by))
			}
		}
	}
	return spaces(indentOf(line)+by) + strings.TrimLeft(line, " ")
}

// commentColumn returns the column of a comment on a line of its own: that of the entry that it
// was aligned with, below or above it.
func (l *layout) commentColumn(i int) int {
	at := indentOf(l.lines[i])
	next := i + 1
	for next < len(l.lines) && l.kinds[next] != structure {
		next++
	}
	if next < len(l.lines) && l.first[next] != nil && indentOf(l.lines[next]) == at {
		return l.columns[l.first[next]]
	}
	above := l.root
	for before := i - 1; before >= 0; before-- {
		if l.owner[before] != nil {
			above = l.owner[before]
			break
		}
	}
	for above != l.root && above.at.byte > at {
		above = above.parent
	}
	switch {
	case above == l.root:
		return 0
	case above.at.byte == at:
		return l.columns[above]
	case next < len(l.lines) && l.first[next] != nil && indentOf(l.lines[next]) > above.at.byte:
		return l.columns[l.first[next]]
	default:
		return l.columns[above] + step
	}
}

// sameMeaning reports whether two sources have the same tree, and differ only in white space.
func sameMeaning(a, b []byte) bool {
	unspaced := func(text []byte) string { return strings.Join(strings.Fields(string(text)), "") }
	var left, right yaml3.Node
	return unspaced(a) == unspaced(b) && yaml3.Unmarshal(a, &left) == nil && yaml3.Unmarshal(b, &right) == nil && sameTree(&left, &right)
}

func sameTree(a, b *yaml3.Node) bool {
	return a.Kind == b.Kind && a.Tag == b.Tag && a.Value == b.Value && a.Anchor == b.Anchor && a.Style == b.Style &&
		slices.EqualFunc(a.Content, b.Content, sameTree)
}
