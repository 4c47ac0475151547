package tui

import (
	"bytes"
	"io"
	"os"
	"runtime"
	"strconv"
	"strings"

	tea "github.com/charmbracelet/bubbletea"
)

// ink is the look of a character: a colour and attributes.
type ink uint16

// The colours, by their meaning.
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

// The attributes.
const (
	strong   ink = 1 << (8 + iota)
	selected     // the row at the cursor
	under
)

// theme gives the inks of a terminal.
type theme [colours]string

// Background is the background of a terminal.
type Background int

// The backgrounds. None stands for a terminal without colours.
const (
	Dark Background = iota
	Light
	None
)

// themeOf returns a theme of the terminal's own sixteen colours, which its user has chosen.
// Faint is an attribute, not a colour: in some palettes (Solarized) bright black is the
// background itself, and the other bright colours are greys.
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

// code returns the escape sequence of an ink.
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

// look is the theme, and whether only ASCII is drawn.
type look struct {
	theme theme
	ascii bool
}

// sign is the sign of a state. A state is never shown by colour alone.
type sign struct {
	glyph string
	ink   ink
}

// sign returns the sign of a state.
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

// pick returns a text, or its replacement in ASCII.
func (l look) pick(unicode, ascii string) string {
	if l.ascii {
		return ascii
	}
	return unicode
}

func (l look) more() string { return l.pick("…", "~") }

// rule draws a line with a title in it.
func (l look) rule(a area, y int, title string, i ink) {
	x := a.put(0, y, faint, l.pick("── ", "-- "))
	x = a.put(x, y, i|strong, clip(title, a.w-x-1, l.more())) + 1
	a.put(x, y, faint, strings.Repeat(l.pick("─", "-"), max(0, a.w-x)))
}

// field writes a text into a column of a width.
func (l look) field(a area, x, y, avail int, i ink, text string) int {
	a.put(x, y, i, clip(text, min(avail, a.w-x), l.more()))
	return x + avail
}

// askBackground asks a terminal for its background colour (OSC 11).
const askBackground = "\x1b]11;?\x1b\\"

// gotBackground is the terminal's answer. A terminal that does not support the query stays silent;
// the screen does not wait for it.
type gotBackground struct{ background Background }

// listener reads a terminal and removes the answer about its background from the input, where it
// would look like keys.
type listener struct {
	*os.File

	partial  []byte // the beginning of an incomplete answer
	answered func(Background)
}

// listens reports whether a terminal can be asked and its answer be read.
func listens(o Options) (*os.File, bool) {
	if !o.Ask || o.Background == None || runtime.GOOS == "windows" {
		return nil, false
	}
	var in io.Reader = os.Stdin
	if o.Input != nil {
		in = o.Input
	}
	f, ok := in.(*os.File)
	if !ok {
		return nil, false
	}
	info, err := f.Stat()
	return f, err == nil && info.Mode()&os.ModeCharDevice != 0
}

// Read reads the input without the answer.
func (l *listener) Read(p []byte) (int, error) {
	if len(p) <= len(l.partial) {
		return copy(p, l.release()), nil
	}
	n, err := l.File.Read(p[len(l.partial):])
	if n <= 0 {
		return n, err //nolint:wrapcheck // the reader's own error
	}
	copy(p, l.partial)
	n += len(l.partial)
	text, held, colour := withoutAnswer(p[:n])
	l.partial = append(l.partial[:0], held...)
	if b, ok := backgroundOf(colour); ok {
		l.answered(b)
	}
	return copy(p, text), err //nolint:wrapcheck // the reader's own error
}

func (l *listener) release() []byte {
	held := l.partial
	l.partial = nil
	return held
}

// longestAnswer is how many bytes are held back while waiting for the end of an answer.
const longestAnswer = 64

// withoutAnswer removes an answer from the input, and holds back what may be the beginning of one
// at its end.
func withoutAnswer(read []byte) (text, held []byte, colour string) {
	const begin = "\x1b]11;"
	at := bytes.Index(read, []byte(begin))
	if at < 0 {
		// Two bytes may be a key: alt and a bracket.
		for n := min(len(begin)-1, len(read)); n > 2; n-- {
			if bytes.HasSuffix(read, []byte(begin[:n])) {
				return read[:len(read)-n], bytes.Clone(read[len(read)-n:]), ""
			}
		}
		return read, nil, ""
	}
	rest := read[at+len(begin):]
	end := bytes.IndexAny(rest, "\a\x1b")
	switch {
	case end < 0 && len(rest) > longestAnswer:
		return read, nil, ""
	case end < 0, rest[end] == '\x1b' && end+1 == len(rest):
		return read[:at], bytes.Clone(read[at:]), ""
	}
	colour = string(rest[:end])
	after := rest[end+1:]
	if rest[end] == '\x1b' {
		after = bytes.TrimPrefix(after, []byte(`\`))
	}
	return append(bytes.Clone(read[:at]), after...), nil, colour
}

// backgroundOf parses "rgb:ffff/ffff/ffff", in which a component has one to four digits.
func backgroundOf(colour string) (Background, bool) {
	text, ok := strings.CutPrefix(colour, "rgb:")
	parts := strings.Split(text, "/")
	if !ok || len(parts) != 3 {
		return 0, false
	}
	bright := 0.0
	for i, weight := range []float64{0.299, 0.587, 0.114} {
		n, err := strconv.ParseUint(parts[i], 16, 16)
		if err != nil {
			return 0, false
		}
		most := uint64(1)<<(4*len(parts[i])) - 1
		bright += weight * float64(n) / float64(most)
	}
	if bright > 0.5 {
		return Light, true
	}
	return Dark, true
}

// paintFor adapts the colours to the background that the terminal reported.
func (m *model) paintFor(b Background) tea.Cmd {
	if m.options.Background == b {
		return nil
	}
	m.options.Background, m.look.theme = b, themeOf(b)
	return tea.ClearScreen
}
