package tui

import (
	"time"
)

// treeLook is what a tree shows beyond its own data.
type treeLook struct {
	top    Row               // the workflow
	timers map[string]Row    // by the run of the task, as text
	child  func(string) bool // whether a run has an execution of its own
	now    time.Time
	focus  bool
}

// draw draws the visible lines, one for each task, and one about them.
func (t *taskTree) draw(a area, l look, how treeLook) {
	w := &t.window
	t.scroll(a.h)
	for y := range w.height {
		at := w.offset + y
		if at >= len(w.lines) {
			break
		}
		t.drawLine(a.part(0, y, a.w, 1), l, &w.lines[at], &how)
		if at == w.cursor {
			a.fill(y, cursorInk(how.focus))
		}
	}
	if len(w.lines) == 0 {
		a.put(2, 1, faint, clip("nothing matches "+w.typed+" (esc: all)", a.w-2, l.more()))
	}
}

// scroll keeps the cursor inside a window of a height.
func (t *taskTree) scroll(height int) {
	w := &t.window
	w.height = max(1, height)
	t.arrange()
	margin := min(2, w.height/4) // lines before and after the cursor
	w.offset = max(w.cursor-w.height+1+margin, min(w.offset, w.cursor-margin))
	w.offset = max(0, min(w.offset, len(w.lines)-w.height))
}

// cursorInk returns the ink of the row at the cursor, stronger with the focus.
func cursorInk(focus bool) ink {
	if focus {
		return selected
	}
	return bar
}

func (t *taskTree) drawLine(a area, l look, line *treeLine, how *treeLook) {
	text := t.text(l, line, how)
	room := a.w
	if room >= 36 {
		room -= t.drawState(a, l, &text) + 1
	}
	a = a.part(0, 0, room, 1)
	x := t.drawName(a, l, line, &text)
	x = l.rest(a, x+2, text.noted, text.notes)
	if text.notes == "" {
		x -= 2
	}
	x = l.rest(a, x+2, faint, text.detail)
	l.rest(a, x+2, good, text.after)
}

// drawName draws the name of a line, and returns where it ends.
func (t *taskTree) drawName(a area, l look, line *treeLine, text *treeText) int {
	x := 2 * int(line.depth)
	if most := max(a.w-24, a.w/3); x > most {
		x = most
	}
	x = a.put(x, 0, faint, t.foldSign(l, line)+" ")
	x = a.put(x, 0, text.sign.ink, text.sign.glyph+" ")
	mark := plainInk
	if line.kind == plannedPlace {
		mark = faint
	} else if line.run == t.current && line.kind == runPlace {
		mark = strong
	}
	return l.rest(a, x, mark, text.name)
}

// rest draws a text, cut to the rest of a row.
func (l look) rest(a area, x int, i ink, text string) int {
	return a.put(x, 0, i, clip(text, a.w-x, l.more()))
}

// drawState draws the state and the time at the right, and returns their width.
func (*taskTree) drawState(a area, _ look, text *treeText) int {
	const wordWidth, timeWidth = 10, 11
	if a.w < 60 {
		a.right(0, text.sign.ink, text.word)
		return width(text.word)
	}
	a.right(0, plainInk, text.time)
	a.put(a.w-wordWidth-timeWidth, 0, text.sign.ink, text.word)
	return wordWidth + timeWidth
}

func (*taskTree) foldSign(l look, line *treeLine) string {
	switch {
	case !line.folds:
		return " "
	case line.open:
		return l.pick("▿", "-")
	default:
		return l.pick("▹", "+")
	}
}
