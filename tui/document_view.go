package tui

import (
	"strconv"
	"strings"

	"flunq.io/flunq/tui/canvas"
)

// documentView shows the source of a workflow, with the tasks marked.
type documentView struct {
	of    *Document
	lines []string

	canvas.List

	shift int
	shown int // the line that it was last scrolled to
}

// read stores the document.
func (v *documentView) read(d *Document) {
	if d == v.of {
		return
	}
	if d == nil {
		*v = documentView{}
		return
	}
	if v.of == nil || v.of.Text != d.Text {
		v.lines = strings.Split(strings.TrimSuffix(d.Text, "\n"), "\n")
		v.shown, v.Length = 0, len(v.lines)
	}
	v.of = d
}

// show scrolls to a line, if it differs from the last one.
func (v *documentView) show(line int) {
	if line == v.shown || line <= 0 {
		return
	}
	v.shown = line
	v.Cursor = min(line, len(v.lines)) - 1
	if v.Cursor < v.Offset || v.Cursor >= v.Offset+v.Height {
		v.Offset = v.Cursor - v.Height/3
	}
}

// draw draws the window. states holds the states of tasks by their first lines.
func (v *documentView) draw(a canvas.Area, theme canvas.Theme, states map[int]State, focus bool) {
	if v.of == nil {
		theme.Rest(a, 1, canvas.Faint, "the document is unknown")
		return
	}
	digits := len(strconv.Itoa(len(v.lines)))
	v.Rows(a, len(v.lines), cursorStyle(focus), func(row canvas.Area, at int) {
		number, style := strconv.Itoa(at+1), canvas.Faint
		if state, ok := states[at+1]; ok {
			s := signOf(theme, state)
			style = s.style | canvas.Strong
			row.Put(0, 0, style, s.glyph)
		}
		row.Put(2+digits-len(number), 0, style, number)
		v.drawText(row.Part(digits+3, 0, row.W, 1), theme, v.lines[at])
	})
}

func (v *documentView) drawText(a canvas.Area, theme canvas.Theme, text string) {
	text = strings.ReplaceAll(text, "\t", "  ")
	text = canvas.Skip(text[:min(len(text), 4*(a.W+v.shift)+64)], v.shift)
	trimmed := strings.TrimLeft(text, " -")
	x := len(text) - len(trimmed)
	a.Put(0, 0, canvas.Faint, text[:x])
	key, value, ok := strings.Cut(trimmed, ":")
	switch {
	case strings.HasPrefix(trimmed, "#"):
		theme.Rest(a, x, canvas.Faint, trimmed)
	case ok && key != "" && !strings.ContainsAny(key, " \"'{$") && (value == "" || value[0] == ' '):
		x = theme.Rest(a, x, canvas.Accent, key)
		theme.Rest(a, x, canvas.Normal, ":"+value)
	default:
		theme.Rest(a, x, canvas.Normal, trimmed)
	}
}

// scroll moves the text horizontally.
func (v *documentView) scroll(cells int) { v.shift = max(0, v.shift+cells) }
