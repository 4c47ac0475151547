// Package cli contains what the commands share: streams and colours, flags and tables,
// documents and data, settings, the connection to Redis, and errors with their exit codes.
package cli

import (
	"bytes"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/term"

	"flunq.io/flunq/engine/excerpt"
)

// The groups in which the overview lists the commands.
const (
	GroupDevelop = "develop"
	GroupOperate = "operate"
	GroupAbout   = "about"
)

// Streams are the standard streams and the environment of a command.
type Streams struct {
	In          io.Reader
	Out, Err    io.Writer
	Env         func(name string) string
	InTerminal  bool // In is a terminal
	Terminal    bool // Out is a terminal
	ErrTerminal bool // Err is a terminal
	Width       int  // columns of that terminal; 0 if there is none
}

// ProcessStreams returns the streams of the process.
func ProcessStreams() Streams {
	s := Streams{
		In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Env: os.Getenv,
		InTerminal:  term.IsTerminal(int(os.Stdin.Fd())),
		Terminal:    term.IsTerminal(int(os.Stdout.Fd())),
		ErrTerminal: term.IsTerminal(int(os.Stderr.Fd())),
	}
	if s.Terminal {
		s.Out = screen{os.Stdout}
	}
	if s.ErrTerminal {
		s.Err = screen{os.Stderr}
	}
	for _, f := range []*os.File{os.Stdout, os.Stderr} {
		if width, _, err := term.GetSize(int(f.Fd())); err == nil && s.Width == 0 {
			s.Width = width
		}
	}
	return s
}

// RedrawEvery is the interval between two redraws of progress on a terminal.
const RedrawEvery = 100 * time.Millisecond

// screen is a terminal whose input contains no control characters beyond ASCII: those in
// data are written as JSON escapes. The commands escape ASCII control characters
// themselves.
type screen struct{ io.Writer }

// Write implements io.Writer.
func (s screen) Write(p []byte) (int, error) {
	obeyed := func(r rune) bool { return r > 0x7f && excerpt.Controls(r) }
	if !bytes.ContainsFunc(p, obeyed) {
		return s.Writer.Write(p)
	}
	_, err := io.WriteString(s.Writer, excerpt.EscapedFunc(string(p), obeyed))
	return len(p), err
}

// Shell holds the streams and the global flags, which all commands share.
type Shell struct {
	Streams
	Color *Choice
	Quiet bool

	stdinRead bool // stdin has been read to its end
}

// OutColor reports whether to use colours on standard output.
func (sh *Shell) OutColor() bool { return sh.colorful(sh.Terminal) }

// ErrColor reports whether to use colours on standard error.
func (sh *Shell) ErrColor() bool { return sh.colorful(sh.ErrTerminal) }

func (sh *Shell) colorful(terminal bool) bool {
	switch sh.Color.String() {
	case "always":
		return true
	case "never":
		return false
	default:
		return terminal && sh.Env("NO_COLOR") == "" && sh.Env("TERM") != "dumb"
	}
}

// ASCII reports whether the locale excludes Unicode. As in C programs, the first of these
// variables that is set decides.
func (sh *Shell) ASCII() bool {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if locale := sh.Env(name); locale != "" {
			locale = strings.ToLower(locale)
			return !strings.Contains(locale, "utf-8") && !strings.Contains(locale, "utf8")
		}
	}
	return true
}

// Glyph returns unicode, or ascii if the locale excludes Unicode.
func (sh *Shell) Glyph(unicode, ascii string) string {
	if sh.ASCII() {
		return ascii
	}
	return unicode
}

// StickyWriter keeps its first error so that writing to a full disk is reported.
type StickyWriter struct {
	Writer  io.Writer
	Failure error
}

func (s *StickyWriter) Write(p []byte) (int, error) {
	n, err := s.Writer.Write(p)
	if err != nil && s.Failure == nil {
		s.Failure = err
	}
	return n, err
}
