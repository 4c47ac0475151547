package tui

import (
	"strconv"
	"strings"

	"flunq.io/flunq/tui/canvas"
)

// documentView shows the text of a workflow, with the tasks marked.
type documentView struct {
	of    *Document
	lines []string

	canvas.ListPosition

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
		v.shown = 0
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

// draw draws the window. states are those of tasks, by their first lines.
func (v *documentView) draw(a canvas.Area, l canvas.Look, states map[int]State, focus bool) {
	v.Height = max(1, a.H)
	v.to(v.Cursor)
	if v.of == nil {
		a.Put(1, 0, canvas.Faint, canvas.Clip("the document is not known", a.W-1, l.More()))
		return
	}
	digits := len(strconv.Itoa(len(v.lines)))
	for y := range a.H {
		at := v.Offset + y
		if at >= len(v.lines) {
			return
		}
		number := strconv.Itoa(at + 1)
		row := a.Part(0, y, a.W, 1)
		if state, ok := states[at+1]; ok {
			s := signOf(l, state)
			row.Put(0, 0, s.ink|canvas.Strong, s.glyph)
			row.Put(2+digits-len(number), 0, s.ink|canvas.Strong, number)
		} else {
			row.Put(2+digits-len(number), 0, canvas.Faint, number)
		}
		v.drawText(row.Part(digits+3, 0, a.W, 1), l, v.lines[at])
		if at == v.Cursor {
			row.Fill(0, cursorInk(focus))
		}
	}
}

func (v *documentView) drawText(a canvas.Area, l canvas.Look, text string) {
	text = strings.ReplaceAll(text, "\t", "  ")
	text = canvas.Skip(text[:min(len(text), 4*(a.W+v.shift)+64)], v.shift)
	trimmed := strings.TrimLeft(text, " -")
	x := len(text) - len(trimmed)
	a.Put(0, 0, canvas.Faint, text[:x])
	key, value, ok := strings.Cut(trimmed, ":")
	switch {
	case strings.HasPrefix(trimmed, "#"):
		l.Rest(a, x, canvas.Faint, trimmed)
	case ok && key != "" && !strings.ContainsAny(key, " \"'{$") && (value == "" || value[0] == ' '):
		x = l.Rest(a, x, canvas.Accent, key)
		l.Rest(a, x, canvas.Normal, ":"+value)
	default:
		l.Rest(a, x, canvas.Normal, trimmed)
	}
}

func (v *documentView) move(lines int) { v.to(v.Cursor + lines) }

// to puts the cursor on a line.
func (v *documentView) to(line int) {
	v.Cursor = line
	v.Clamp(len(v.lines))
}

func (v *documentView) end() { v.to(len(v.lines) - 1) }

// scroll moves the text horizontally.
func (v *documentView) scroll(cells int) { v.shift = max(0, v.shift+cells) }
