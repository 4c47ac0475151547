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

// Palette has the escape codes of the colours of a terminal.
type Palette [colours]string

// code returns the escape sequence of a style.
func (t Palette) code(s Style) string {
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

// Theme is how a terminal shows styles and symbols.
type Theme struct {
	Palette Palette
	ASCII   bool
}

// Pick returns unicode, or ascii if only ASCII is drawn.
func (theme Theme) Pick(unicode, ascii string) string {
	if theme.ASCII {
		return ascii
	}
	return unicode
}

// More returns the mark that ends truncated text.
func (theme Theme) More() string { return theme.Pick("…", "~") }

// Rule draws a line with a title in it.
func (theme Theme) Rule(a Area, y int, title string, s Style) {
	x := a.Put(0, y, Faint, theme.Pick("── ", "-- "))
	x = a.Put(x, y, s|Strong, Clip(title, a.W-x-1, theme.More())) + 1
	a.Put(x, y, Faint, strings.Repeat(theme.Pick("─", "-"), max(0, a.W-x)))
}

// Field writes text into a column that is width cells wide.
func (theme Theme) Field(a Area, x, y, width int, s Style, text string) int {
	a.Put(x, y, s, Clip(text, min(width, a.W-x), theme.More()))
	return x + width
}

// Rest draws text, truncated to the rest of a row.
func (theme Theme) Rest(a Area, x int, s Style, text string) int {
	return a.Put(x, 0, s, Clip(text, a.W-x, theme.More()))
}
