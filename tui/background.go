package tui

import (
	"bytes"
	"io"
	"os"
	"runtime"
	"strconv"
	"strings"

	tea "github.com/charmbracelet/bubbletea"

	"flunq.io/flunq/tui/canvas"
)

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
func themeOf(b Background) canvas.Theme {
	switch b {
	case Light:
		return canvas.Theme{canvas.Normal: "", canvas.Faint: "2", canvas.Accent: "34", canvas.Good: "32", canvas.Bad: "31", canvas.Warn: "35", canvas.Busy: "36", canvas.Calm: "34", canvas.Bar: "97;44"}
	case None:
		return canvas.Theme{canvas.Bar: "7"}
	default:
		return canvas.Theme{canvas.Normal: "", canvas.Faint: "2", canvas.Accent: "36", canvas.Good: "32", canvas.Bad: "91", canvas.Warn: "33", canvas.Busy: "36", canvas.Calm: "94", canvas.Bar: "97;44"}
	}
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

// listens reports whether a terminal can be queried and its answer read.
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
		return n, err
	}
	copy(p, l.partial)
	n += len(l.partial)
	text, held, colour := withoutAnswer(p[:n])
	l.partial = append(l.partial[:0], held...)
	if b, ok := backgroundOf(colour); ok {
		l.answered(b)
	}
	return copy(p, text), err
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

// backgroundOf parses "rgb:ffff/ffff/ffff", whose components have one to four digits each.
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
	m.options.Background, m.look.Theme = b, themeOf(b)
	return tea.ClearScreen
}
