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

// Streams are what a command reads from and writes to, and what it may know
// of its surroundings.
type Streams struct {
	In          io.Reader
	Out, Err    io.Writer
	Env         func(name string) string
	InTerminal  bool // In is a terminal
	Terminal    bool // Out is a terminal
	ErrTerminal bool // Err is a terminal
	Width       int  // columns of that terminal; 0 where none
}

// processStreams are those of the running process.
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

// screen is a terminal that gets no character beyond ASCII which it would obey: such stand
// in data, and become JSON's escapes. What is escaped in ASCII is up to who writes.
type screen struct{ io.Writer }

// Write is io.Writer's.
func (s screen) Write(p []byte) (int, error) {
	obeyed := func(r rune) bool { return r > 0x7f && unsafeRune(r) }
	if !bytes.ContainsFunc(p, obeyed) {
		return s.Writer.Write(p) //nolint:wrapcheck // it is the terminal's
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

	stdinRead bool // there is nothing more to come
}

// outColor says whether colours belong on the standard output.
func (sh *shell) outColor() bool { return sh.colorful(sh.Terminal) }

// errColor says whether colours belong on the standard error.
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

// ascii says whether the surroundings cannot be trusted with Unicode. The
// first of these variables that is set decides, as for every C program.
func (sh *shell) ascii() bool {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if locale := sh.Env(name); locale != "" {
			locale = strings.ToLower(locale)
			return !strings.Contains(locale, "utf-8") && !strings.Contains(locale, "utf8")
		}
	}
	return true
}

// stickyWriter remembers the first error, so that a full disk is not success.
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
