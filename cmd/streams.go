package cmd

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"golang.org/x/term"
)

// Streams are the standard streams of a command, and its environment.
type Streams struct {
	In          io.Reader
	Out, Err    io.Writer
	Env         func(name string) string
	InTerminal  bool // In is a terminal
	Terminal    bool // Out is a terminal
	ErrTerminal bool // Err is a terminal
	Width       int  // columns of that terminal; 0 if there is none
}

// processStreams returns the streams of the process.
func processStreams() Streams {
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

// screen is a terminal that receives no control character beyond ASCII: data can contain them, and
// they become JSON escapes. ASCII control characters are escaped by whoever writes.
type screen struct{ io.Writer }

// Write implements io.Writer.
func (s screen) Write(p []byte) (int, error) {
	obeyed := func(r rune) bool { return r > 0x7f && unsafeRune(r) }
	if !bytes.ContainsFunc(p, obeyed) {
		return s.Writer.Write(p) //nolint:wrapcheck // the terminal's own error
	}
	var out []byte
	for _, r := range string(p) {
		if obeyed(r) {
			out = fmt.Appendf(out, `\u%04x`, r)
		} else {
			out = utf8.AppendRune(out, r)
		}
	}
	_, err := s.Writer.Write(out)
	return len(p), err //nolint:wrapcheck // likewise
}

// shell is what all commands share: the streams and the flags of the root.
type shell struct {
	Streams
	color *choice
	quiet bool

	stdinRead bool // stdin has been read to its end
}

// outColor reports whether to use colours on standard output.
func (sh *shell) outColor() bool { return sh.colorful(sh.Terminal) }

// errColor reports whether to use colours on standard error.
func (sh *shell) errColor() bool { return sh.colorful(sh.ErrTerminal) }

func (sh *shell) colorful(terminal bool) bool {
	switch sh.color.String() {
	case "always":
		return true
	case "never":
		return false
	default:
		return terminal && sh.Env("NO_COLOR") == "" && sh.Env("TERM") != "dumb"
	}
}

// ascii reports whether the locale rules out Unicode. As in C programs, the first of these
// variables that is set decides.
func (sh *shell) ascii() bool {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if locale := sh.Env(name); locale != "" {
			locale = strings.ToLower(locale)
			return !strings.Contains(locale, "utf-8") && !strings.Contains(locale, "utf8")
		}
	}
	return true
}

// stickyWriter remembers the first error, so that writing to a full disk is reported.
type stickyWriter struct {
	w   io.Writer
	err error
}

func (s *stickyWriter) Write(p []byte) (int, error) {
	n, err := s.w.Write(p)
	if err != nil && s.err == nil {
		s.err = err
	}
	return n, err
}
