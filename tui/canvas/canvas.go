// Package canvas draws text on a screen of cells. All terminals agree on the width of what it draws,
// and no text can leave its area or be interpreted by the terminal.
package canvas

import "strings"

// Canvas is a screen of cells. What is drawn beyond its edges is discarded so that no content can
// break the layout.
type Canvas struct {
	Width, Height int
	cells         []cell
}

// cell is one position of a canvas; the cell after a wide character has no rune.
type cell struct {
	r     rune
	tail  string
	style Style
}

// New returns an empty canvas.
func New(width, height int) *Canvas {
	c := &Canvas{Width: width, Height: height, cells: make([]cell, width*height)}
	for i := range c.cells {
		c.cells[i].r = ' '
	}
	return c
}

// Text returns the canvas as output for a terminal.
func (c *Canvas) Text(theme Theme) string {
	var b strings.Builder
	b.Grow(2 * len(c.cells))
	for y := range c.Height {
		if y > 0 {
			b.WriteByte('\n')
		}
		c.line(&b, c.cells[y*c.Width:(y+1)*c.Width], theme)
	}
	return b.String()
}

func (*Canvas) line(b *strings.Builder, cells []cell, theme Theme) {
	end := len(cells)
	for end > 0 && cells[end-1].r == ' ' && cells[end-1].style == Normal {
		end--
	}
	plain := theme.Palette.code(Normal)
	last, now := Normal, plain
	for _, c := range cells[:end] {
		if c.style != last {
			last = c.style
			if code := theme.Palette.code(c.style); code != now {
				b.WriteString(code)
				now = code
			}
		}
		c.write(b, theme)
	}
	if now != plain {
		b.WriteString(plain)
	}
}

// write writes the content of a cell.
func (c cell) write(b *strings.Builder, theme Theme) {
	switch {
	case theme.ASCII && (c.r > '~' || c.r == 0 || c.tail != ""):
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

// Area is a part of a canvas with its own coordinates.
type Area struct {
	on         *Canvas
	X, Y, W, H int
}

// All returns the whole canvas.
func (c *Canvas) All() Area { return Area{c, 0, 0, c.Width, c.Height} }

// Part returns the area inside another one, clipped to it.
func (a Area) Part(x, y, w, h int) Area {
	x, y = max(x, 0), max(y, 0)
	return Area{a.on, a.X + x, a.Y + y, max(0, min(w, a.W-x)), max(0, min(h, a.H-y))}
}

// Put writes text and returns where it ends.
func (a Area) Put(x, y int, s Style, text string) int {
	if y < 0 || y >= a.H || x >= a.W {
		return x
	}
	for g := range glyphs(text) {
		if x+g.width > a.W {
			break
		}
		if x >= 0 {
			a.set(x, y, g, s)
		}
		x += g.width
	}
	return x
}

func (a Area) set(x, y int, g glyph, s Style) {
	at := (a.Y+y)*a.on.Width + a.X + x
	a.halve(at)
	a.on.cells[at] = cell{g.r, g.tail, s}
	if g.width == 2 {
		a.halve(at + 1)
		a.on.cells[at+1] = cell{style: s}
	}
}

// halve ensures that no half of a wide character remains when the other half is overwritten.
func (a Area) halve(at int) {
	cells, column := a.on.cells, at%a.on.Width
	if cells[at].r == 0 && column > 0 {
		cells[at-1].r, cells[at-1].tail = ' ', ""
	}
	if column+1 < a.on.Width && cells[at+1].r == 0 {
		cells[at+1].r = ' '
	}
}

// Fill sets the style of a row and keeps its text.
func (a Area) Fill(y int, s Style) {
	if y < 0 || y >= a.H {
		return
	}
	from := (a.Y+y)*a.on.Width + a.X
	for at := from; at < from+a.W; at++ {
		a.on.cells[at].style = s
	}
}

// Clear empties an area.
func (a Area) Clear() {
	for y := range a.H {
		for x := range a.W {
			a.set(x, y, glyph{r: ' ', width: 1}, Normal)
		}
	}
}

// Right writes text aligned at the right edge, and returns where it begins.
func (a Area) Right(y int, s Style, text string) int {
	x := a.W - Width(text)
	a.Put(x, y, s, text)
	return x
}

// Box draws a frame in the middle of an area, and returns its inside.
func (theme Theme) Box(a Area, title string, w, h int) Area {
	w, h = min(w+4, a.W), min(h+2, a.H)
	frame := a.Part((a.W-w)/2, (a.H-h)/2, w, h)
	frame.Clear()
	side, flat := theme.Pick("│", "|"), strings.Repeat(theme.Pick("─", "-"), max(0, w-2))
	frame.Put(0, 0, Accent, theme.Pick("╭", "+")+flat+theme.Pick("╮", "+"))
	for y := 1; y < h-1; y++ {
		frame.Put(0, y, Accent, side)
		frame.Put(w-1, y, Accent, side)
	}
	frame.Put(0, h-1, Accent, theme.Pick("╰", "+")+flat+theme.Pick("╯", "+"))
	frame.Put(2, 0, Accent|Strong, " "+Clip(title, w-6, theme.More())+" ")
	return frame.Part(2, 1, w-4, h-2)
}

// Holds reports whether an area contains a position.
func (a Area) Holds(x, y int) bool {
	return x >= a.X && x < a.X+a.W && y >= a.Y && y < a.Y+a.H
}
