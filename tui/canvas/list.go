package canvas

import "flunq.io/flunq/engine/history"

// Scroller is something that the cursor keys move.
type Scroller interface {
	Move(lines int)
	Start()
	End()
}

// ScrollKey handles the keys that move a cursor. It reports whether k is one of them.
func ScrollKey(k string, on Scroller, page int) bool {
	switch k {
	case "up", "k":
		on.Move(-1)
	case "down", "j":
		on.Move(1)
	case "pgup", "ctrl+b":
		on.Move(-page)
	case "pgdown", "ctrl+f":
		on.Move(page)
	case "ctrl+u":
		on.Move(-page / 2)
	case "ctrl+d":
		on.Move(page / 2)
	case "home", "g":
		on.Start()
	case "end", "G":
		on.End()
	default:
		return false
	}
	return true
}

// At returns the item at a cursor, the zero value if there is none.
func At[T any](items []T, cursor int) (item T) {
	if cursor >= 0 && cursor < len(items) {
		item = items[cursor]
	}
	return item
}

// List is the cursor in a list of lines, some of which are visible.
type List struct {
	Cursor int // the line of the cursor, 0 if there is none
	Offset int // the first visible line
	Height int // number of visible lines
	Length int // number of lines
}

// Fit sets the number of lines. It keeps the cursor on one of them, and that line visible.
func (p *List) Fit(length int) {
	p.Length = length
	p.Cursor = max(0, min(p.Cursor, length-1))
	p.Offset = max(p.Cursor-p.Height+1, min(p.Offset, p.Cursor))
	p.Offset = max(0, min(p.Offset, length-p.Height))
}

// To puts the cursor on a line.
func (p *List) To(line int) {
	p.Cursor = line
	p.Fit(p.Length)
}

// Move moves the cursor by lines.
func (p *List) Move(lines int) { p.To(p.Cursor + lines) }

// Start goes to the first line.
func (p *List) Start() { p.To(0) }

// End goes to the last line.
func (p *List) End() { p.To(p.Length - 1) }

// Rows draws the visible lines of a list. The line at the cursor has the given style, unless that is
// Normal.
func (p *List) Rows(a Area, length int, cursor Style, row func(a Area, at int)) {
	p.Height = max(1, a.H)
	p.Fit(length)
	for y := 0; y < a.H && p.Offset+y < length; y++ {
		row(a.Part(0, y, a.W, 1), p.Offset+y)
		if p.Offset+y == p.Cursor && cursor != Normal {
			a.Fill(y, cursor)
		}
	}
}

// Scroll is the scroll position of a text.
type Scroll struct{ Offset, Space, lines int }

// Move scrolls by lines.
func (s *Scroll) Move(lines int) {
	s.Offset = max(0, min(s.Offset+lines, s.lines-s.Space))
}

// Start scrolls to the beginning.
func (s *Scroll) Start() { s.Move(-s.lines) }

// End scrolls to the end.
func (s *Scroll) End() { s.Move(s.lines) }

// Scrolls reports whether the text has more lines than fit.
func (s *Scroll) Scrolls() bool { return s.lines > s.Space }

// Key handles the keys that scroll, if there is anything to scroll.
func (s *Scroll) Key(k string) bool {
	if !s.Scrolls() {
		return false
	}
	if k == " " {
		k = "pgdown"
	}
	return ScrollKey(k, s, s.Space)
}

// Box draws a frame with the visible part of a text above a number of free lines (below), and returns
// the last line in the frame.
func (s *Scroll) Box(a Area, theme Theme, title string, width, lines, below int, row func(a Area, at int)) (foot Area) {
	in := theme.Box(a, title, width, min(lines+below, a.H-2))
	s.lines, s.Space = lines, max(0, in.H-below)
	s.Move(0)
	for y := 0; y < s.Space && s.Offset+y < lines; y++ {
		row(in.Part(0, y, in.W, 1), s.Offset+y)
	}
	return in.Part(0, in.H-1, in.W, 1)
}

// Below returns a note with the number of lines below the visible ones; "" if there are none.
func (s *Scroll) Below(theme Theme) string {
	if below := s.lines - s.Offset - s.Space; below > 0 {
		return theme.Pick("↓ ", "v ") + history.Count(below, "more line")
	}
	return ""
}
