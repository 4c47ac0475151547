package tui

import "strings"

// ink is how a character looks: one of the colours, and marks on it.
type ink uint16

// The colours, by what they say.
const (
	plainInk ink = iota
	faint
	accent
	good
	bad
	warn
	busy
	calm
	bar
	colours
)

// The marks.
const (
	strong   ink = 1 << (8 + iota)
	selected     // the row that keys are about
	under
)

// theme is what the inks are on a terminal.
type theme [colours]string

// Background is what a terminal writes on.
type Background int

// The backgrounds. None stands for a terminal without colours.
const (
	Dark Background = iota
	Light
	None
)

// themeOf are colours of the sixteen that each terminal has and its user has chosen.
// Faint is an attribute and no colour: bright black is the background itself in some
// palettes (Solarized), whose other bright colours are greys.
func themeOf(b Background) theme {
	switch b {
	case Light:
		return theme{plainInk: "", faint: "2", accent: "34", good: "32", bad: "31", warn: "35", busy: "36", calm: "34", bar: "97;44"}
	case None:
		return theme{bar: "7"}
	default:
		return theme{plainInk: "", faint: "2", accent: "36", good: "32", bad: "91", warn: "33", busy: "36", calm: "94", bar: "97;44"}
	}
}

// code is the escape sequence of an ink.
func (t theme) code(i ink) string {
	var parts []string
	if c := t[i&0xff]; c != "" && i&selected == 0 {
		parts = append(parts, c)
	}
	if i&strong != 0 && i&0xff != faint { // that would be neither
		parts = append(parts, "1")
	}
	if i&under != 0 {
		parts = append(parts, "4")
	}
	if i&selected != 0 {
		parts = append(parts, "7")
	}
	if len(parts) == 0 {
		return "\x1b[0m"
	}
	return "\x1b[0;" + strings.Join(parts, ";") + "m"
}

// look is how the screen looks on a terminal.
type look struct {
	theme theme
	ascii bool
}

// sign is how a state is shown: never by its colour alone.
type sign struct {
	glyph string
	ink   ink
}

// sign of a state.
func (l look) sign(s State) sign {
	switch s {
	case Pending:
		return sign{l.pick("○", "."), faint}
	case Running:
		return sign{l.pick("▸", ">"), busy}
	case Waiting:
		return sign{l.pick("◔", "~"), calm}
	case Suspended:
		return sign{l.pick("■", "="), warn}
	case Completed:
		return sign{l.pick("✔", "+"), good}
	case Faulted:
		return sign{l.pick("✘", "!"), bad}
	case Cancelled:
		return sign{l.pick("⊘", "x"), warn}
	case Skipped:
		return sign{l.pick("–", "-"), faint}
	case Retrying:
		return sign{l.pick("↻", "%"), warn}
	case Overdue:
		return sign{l.pick("▲", "^"), warn}
	case Broken:
		return sign{l.pick("?", "?"), bad}
	case Dead:
		return sign{l.pick("✝", "X"), bad}
	case Alive:
		return sign{l.pick("●", "*"), good}
	case Silent:
		return sign{l.pick("◌", "o"), faint}
	default:
		return sign{l.pick("·", "-"), plainInk}
	}
}

// pick chooses between a character and its stand-in.
func (l look) pick(unicode, ascii string) string {
	if l.ascii {
		return ascii
	}
	return unicode
}

func (l look) more() string { return l.pick("…", "~") }

// rule is a line with a title in it.
func (l look) rule(a area, y int, title string, i ink) {
	x := a.put(0, y, faint, l.pick("── ", "-- "))
	x = a.put(x, y, i|strong, clip(title, a.w-x-1, l.more())) + 1
	a.put(x, y, faint, strings.Repeat(l.pick("─", "-"), max(0, a.w-x)))
}

// field writes a text into a column that is so wide.
func (l look) field(a area, x, y, room int, i ink, text string) int {
	a.put(x, y, i, clip(text, min(room, a.w-x), l.more()))
	return x + room
}
