package canvas

import "strings"

// Ink is the look of a character: a colour and attributes.
type Ink uint16

// The colours, by their meaning.
const (
	Normal Ink = iota
	Faint
	Accent
	Good
	Bad
	Warn
	Busy
	Calm
	Bar
	colours
)

// The attributes.
const (
	Strong   Ink = 1 << (8 + iota)
	Selected     // the row at the cursor
)

// Theme gives the inks of a terminal.
type Theme [colours]string

// code returns the escape sequence of an ink.
func (t Theme) code(i Ink) string {
	var parts []string
	if c := t[i&0xff]; c != "" && i&Selected == 0 {
		parts = append(parts, c)
	}
	if i&Strong != 0 && i&0xff != Faint { // that would be neither
		parts = append(parts, "1")
	}
	if i&Selected != 0 {
		parts = append(parts, "7")
	}
	if len(parts) == 0 {
		return "\x1b[0m"
	}
	return "\x1b[0;" + strings.Join(parts, ";") + "m"
}

// Look is the theme, and whether only ASCII is drawn.
type Look struct {
	Theme Theme
	ASCII bool
}

// Pick returns unicode, or ascii if only ASCII is drawn.
func (l Look) Pick(unicode, ascii string) string {
	if l.ASCII {
		return ascii
	}
	return unicode
}

// More returns the mark that ends truncated text.
func (l Look) More() string { return l.Pick("…", "~") }

// Rule draws a line with a title in it.
func (l Look) Rule(a Area, y int, title string, i Ink) {
	x := a.Put(0, y, Faint, l.Pick("── ", "-- "))
	x = a.Put(x, y, i|Strong, Clip(title, a.W-x-1, l.More())) + 1
	a.Put(x, y, Faint, strings.Repeat(l.Pick("─", "-"), max(0, a.W-x)))
}

// Field writes text into a column that is avail cells wide.
func (l Look) Field(a Area, x, y, avail int, i Ink, text string) int {
	a.Put(x, y, i, Clip(text, min(avail, a.W-x), l.More()))
	return x + avail
}

// Rest draws text, truncated to the rest of a row.
func (l Look) Rest(a Area, x int, i Ink, text string) int {
	return a.Put(x, 0, i, Clip(text, a.W-x, l.More()))
}
