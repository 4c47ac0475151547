package canvas

import "strings"

// Style is the look of a character: a colour and attributes.
type Style uint16

// The colours, by their meaning.
const (
	Normal Style = iota
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
	Strong   Style = 1 << (8 + iota)
	Selected       // the row at the cursor
)

// Theme gives the styles of a terminal.
type Theme [colours]string

// code returns the escape sequence of a style.
func (t Theme) code(s Style) string {
	var parts []string
	if c := t[s&0xff]; c != "" && s&Selected == 0 {
		parts = append(parts, c)
	}
	if s&Strong != 0 && s&0xff != Faint { // that would be neither
		parts = append(parts, "1")
	}
	if s&Selected != 0 {
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
func (l Look) Rule(a Area, y int, title string, s Style) {
	x := a.Put(0, y, Faint, l.Pick("── ", "-- "))
	x = a.Put(x, y, s|Strong, Clip(title, a.W-x-1, l.More())) + 1
	a.Put(x, y, Faint, strings.Repeat(l.Pick("─", "-"), max(0, a.W-x)))
}

// Field writes text into a column that is avail cells wide.
func (l Look) Field(a Area, x, y, avail int, s Style, text string) int {
	a.Put(x, y, s, Clip(text, min(avail, a.W-x), l.More()))
	return x + avail
}

// Rest draws text, truncated to the rest of a row.
func (l Look) Rest(a Area, x int, s Style, text string) int {
	return a.Put(x, 0, s, Clip(text, a.W-x, l.More()))
}
