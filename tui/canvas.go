package tui

import (
	"strings"

	tea "github.com/charmbracelet/bubbletea"
)

// canvas is a screen of cells. What is drawn beyond its edges is discarded, so that no content can
// break the layout.
type canvas struct {
	width, height int
	cells         []cell
}

// cell is one position of a canvas; the cell after a wide character has no rune.
type cell struct {
	r    rune
	tail string
	ink  ink
}

func newCanvas(width, height int) *canvas {
	c := &canvas{width: width, height: height, cells: make([]cell, width*height)}
	for i := range c.cells {
		c.cells[i].r = ' '
	}
	return c
}

// text returns the canvas as text for a terminal.
func (c *canvas) text(l look) string {
	var b strings.Builder
	b.Grow(2 * len(c.cells))
	for y := range c.height {
		if y > 0 {
			b.WriteByte('\n')
		}
		c.line(&b, c.cells[y*c.width:(y+1)*c.width], l)
	}
	return b.String()
}

func (*canvas) line(b *strings.Builder, cells []cell, l look) {
	end := len(cells)
	for end > 0 && cells[end-1].r == ' ' && cells[end-1].ink == plainInk {
		end--
	}
	plain := l.theme.code(plainInk)
	last, now := plainInk, plain
	for _, c := range cells[:end] {
		if c.ink != last {
			last = c.ink
			if code := l.theme.code(c.ink); code != now {
				b.WriteString(code)
				now = code
			}
		}
		c.write(b, l)
	}
	if now != plain {
		b.WriteString(plain)
	}
}

// write writes the content of a cell.
func (c cell) write(b *strings.Builder, l look) {
	switch {
	case l.ascii && (c.r > '~' || c.r == 0 || c.tail != ""):
		b.WriteByte(asciiFor(c.r))
	case c.r != 0:
		b.WriteRune(c.r)
		b.WriteString(c.tail)
	}
}

// asciiFor returns the ASCII replacement of a character.
func asciiFor(r rune) byte {
	const from, to = "↑↓←→–…×·›", "^v<>-~x|>"
	if at := strings.IndexRune(from, r); at >= 0 {
		return to[len([]rune(from[:at]))]
	}
	if r > '~' || r == 0 {
		return '?'
	}
	return byte(r)
}

// area is a part of a canvas with its own coordinates.
type area struct {
	on         *canvas
	x, y, w, h int
}

func (c *canvas) all() area { return area{c, 0, 0, c.width, c.height} }

// part returns the area inside another one, clipped to it.
func (a area) part(x, y, w, h int) area {
	x, y = max(x, 0), max(y, 0)
	return area{a.on, a.x + x, a.y + y, max(0, min(w, a.w-x)), max(0, min(h, a.h-y))}
}

// put writes a text and returns where it ends.
func (a area) put(x, y int, i ink, text string) int {
	if y < 0 || y >= a.h || x >= a.w {
		return x
	}
	glyphs(text, func(g glyph) bool {
		if x+g.width > a.w {
			return false
		}
		if x >= 0 {
			a.set(x, y, g, i)
		}
		x += g.width
		return true
	})
	return x
}

func (a area) set(x, y int, g glyph, i ink) {
	at := (a.y+y)*a.on.width + a.x + x
	a.halve(at)
	a.on.cells[at] = cell{g.r, g.tail, i}
	if g.width == 2 {
		a.halve(at + 1)
		a.on.cells[at+1] = cell{ink: i}
	}
}

// halve ensures that no half of a wide character remains when the other half is overwritten.
func (a area) halve(at int) {
	cells, column := a.on.cells, at%a.on.width
	if cells[at].r == 0 && column > 0 {
		cells[at-1].r, cells[at-1].tail = ' ', ""
	}
	if column+1 < a.on.width && cells[at+1].r == 0 {
		cells[at+1].r = ' '
	}
}

// fill sets the ink of a row and keeps its text.
func (a area) fill(y int, i ink) {
	if y < 0 || y >= a.h {
		return
	}
	from := (a.y+y)*a.on.width + a.x
	for at := from; at < from+a.w; at++ {
		a.on.cells[at].ink = i
	}
}

// clear empties an area.
func (a area) clear() {
	for y := range a.h {
		for x := range a.w {
			a.set(x, y, glyph{r: ' ', width: 1}, plainInk)
		}
	}
}

// right writes a text aligned at the right edge, and returns where it begins.
func (a area) right(y int, i ink, text string) int {
	x := a.w - width(text)
	a.put(x, y, i, text)
	return x
}

// wipe empties a canvas.
func (c *canvas) wipe() {
	for i := range c.cells {
		c.cells[i] = cell{r: ' '}
	}
}

// dialog is drawn over a screen until it is answered.
type dialog interface {
	draw(a area, l look)
	// key handles a key; the dialog closes when open is false.
	key(k string) (cmd tea.Cmd, open bool)
	take(msg tea.Msg)
	wheel(lines int)
}

// clickable is a dialog in which some positions stand for keys.
type clickable interface{ keyAt(x, y int) string }

// button is a position that stands for a key.
type button struct {
	at  area
	key string
}

// box draws a frame in the middle of an area, and returns its inside.
func (l look) box(a area, title string, w, h int) area {
	w, h = min(w+4, a.w), min(h+2, a.h)
	frame := a.part((a.w-w)/2, (a.h-h)/2, w, h)
	frame.clear()
	side, flat := l.pick("│", "|"), strings.Repeat(l.pick("─", "-"), max(0, w-2))
	frame.put(0, 0, accent, l.pick("╭", "+")+flat+l.pick("╮", "+"))
	for y := 1; y < h-1; y++ {
		frame.put(0, y, accent, side)
		frame.put(w-1, y, accent, side)
	}
	frame.put(0, h-1, accent, l.pick("╰", "+")+flat+l.pick("╯", "+"))
	frame.put(2, 0, accent|strong, " "+clip(title, w-6, l.more())+" ")
	return frame.part(2, 1, w-4, h-2)
}

// listPosition is the cursor in a list of which some lines are visible.
type listPosition struct{ cursor, offset, height int }

// clamp keeps the cursor on a line of the list, and that line visible.
func (p *listPosition) clamp(length int) {
	p.cursor = max(0, min(p.cursor, length-1))
	p.offset = max(p.cursor-p.height+1, min(p.offset, p.cursor))
	p.offset = max(0, min(p.offset, length-p.height))
}

// scroll is the scroll position of a text.
type scroll struct{ offset, space, lines int }

// move scrolls by lines.
func (s *scroll) move(lines int) {
	s.offset = max(0, min(s.offset+lines, s.lines-s.space))
}

// fit records the number of lines, and how many are visible.
func (s *scroll) fit(lines, avail int) {
	s.lines, s.space = lines, avail
	s.move(0)
}

// key handles the keys that scroll.
func (s *scroll) key(k string) bool {
	switch k {
	case "up", "k":
		s.move(-1)
	case "down", "j":
		s.move(1)
	case "pgup", "ctrl+b", "ctrl+u":
		s.move(-s.space)
	case "pgdown", "ctrl+f", "ctrl+d", " ":
		s.move(s.space)
	case "home", "g":
		s.move(-s.lines)
	case "end", "G":
		s.move(s.lines)
	default:
		return false
	}
	return true
}

// rest tells how much there is below, if anything.
func (s *scroll) rest(l look) string {
	if below := s.lines - s.offset - s.space; below > 0 {
		return l.pick("↓ ", "v ") + some(below, "more line")
	}
	return ""
}
