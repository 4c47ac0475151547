package tui

import (
	"strconv"
	"strings"
)

// documentView shows the text of a workflow, with the tasks marked.
type documentView struct {
	of    *Document
	lines []string

	listPosition

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
	v.cursor = min(line, len(v.lines)) - 1
	if v.cursor < v.offset || v.cursor >= v.offset+v.height {
		v.offset = v.cursor - v.height/3
	}
}

// draw draws the window. states are those of tasks, by their first lines.
func (v *documentView) draw(a area, l look, states map[int]State, focus bool) {
	v.height = max(1, a.h)
	v.to(v.cursor)
	if v.of == nil {
		a.put(1, 0, faint, clip("the document is not known", a.w-1, l.more()))
		return
	}
	digits := len(strconv.Itoa(len(v.lines)))
	for y := range a.h {
		at := v.offset + y
		if at >= len(v.lines) {
			return
		}
		number := strconv.Itoa(at + 1)
		row := a.part(0, y, a.w, 1)
		if state, ok := states[at+1]; ok {
			s := l.sign(state)
			row.put(0, 0, s.ink|strong, s.glyph)
			row.put(2+digits-len(number), 0, s.ink|strong, number)
		} else {
			row.put(2+digits-len(number), 0, faint, number)
		}
		v.drawText(row.part(digits+3, 0, a.w, 1), l, v.lines[at])
		if at == v.cursor {
			row.fill(0, cursorInk(focus))
		}
	}
}

func (v *documentView) drawText(a area, l look, text string) {
	text = strings.ReplaceAll(text, "\t", "  ")
	text = skip(text[:min(len(text), 4*(a.w+v.shift)+64)], v.shift)
	trimmed := strings.TrimLeft(text, " -")
	x := len(text) - len(trimmed)
	a.put(0, 0, faint, text[:x])
	key, value, ok := strings.Cut(trimmed, ":")
	switch {
	case strings.HasPrefix(trimmed, "#"):
		l.rest(a, x, faint, trimmed)
	case ok && key != "" && !strings.ContainsAny(key, " \"'{$") && (value == "" || value[0] == ' '):
		x = l.rest(a, x, accent, key)
		l.rest(a, x, plainInk, ":"+value)
	default:
		l.rest(a, x, plainInk, trimmed)
	}
}

func (v *documentView) move(lines int) { v.to(v.cursor + lines) }

// to puts the cursor on a line.
func (v *documentView) to(line int) {
	v.cursor = line
	v.clamp(len(v.lines))
}

func (v *documentView) end() { v.to(len(v.lines) - 1) }

// scroll moves the text horizontally.
func (v *documentView) scroll(cells int) { v.shift = max(0, v.shift+cells) }
