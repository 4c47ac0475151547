package dsl

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// ErrInvalid is wrapped by every error about a document's content.
var ErrInvalid = errors.New("invalid workflow")

// Mistake is something in a document that has to be mended before it can run.
type Mistake struct {
	Pos
	Message    string
	Suggestion string // what to write instead, or ""
	File       string
}

// String is the mistake as one line: file:line:col: message.
func (m Mistake) String() string { return m.place() + ": " + m.Message }

func (m Mistake) place() string {
	return fmt.Sprintf("%s:%d:%d", printable(m.File), m.Line, m.Column)
}

// Warning is something that works, but hardly as it was meant.
type Warning Mistake

// String is the warning as one line.
func (w Warning) String() string { return Mistake(w).place() + ": warning: " + w.Message }

// Mistakes are all that is wrong with a document, in its order. It wraps ErrInvalid.
type Mistakes struct {
	List   []Mistake
	source []byte
}

// NewMistakes are the mistakes of another kind of file than a document, in the
// order of its lines; source is its text.
func NewMistakes(source []byte, list []Mistake) *Mistakes {
	m := &Mistakes{source: source}
	for _, one := range list {
		one.Message, one.Suggestion = printable(cut(one.Message, longest)), printable(cut(one.Suggestion, longest))
		m.List = append(m.List, one)
	}
	slices.SortStableFunc(m.List, func(a, b Mistake) int { return cmp.Compare(a.Line, b.Line) })
	return m
}

// Error is one line for each mistake.
func (m *Mistakes) Error() string {
	lines := make([]string, len(m.List))
	for i, one := range m.List {
		lines[i] = one.String()
	}
	return strings.Join(lines, "\n")
}

// Unwrap makes errors.Is(err, ErrInvalid) hold.
func (m *Mistakes) Unwrap() error { return ErrInvalid }

// Render writes each mistake with the line it is on and what to write instead.
func (m *Mistakes) Render(w io.Writer, color bool) {
	for _, one := range m.List {
		render(w, m.source, one, lookOf(color, red))
	}
}

// RenderAsWarnings is Render for what keeps nothing from being done.
func (m *Mistakes) RenderAsWarnings(w io.Writer, color bool) {
	warnings := make([]Warning, len(m.List))
	for i, one := range m.List {
		warnings[i] = Warning(one)
	}
	RenderWarnings(w, m.source, warnings, color)
}

// RenderWarnings writes each warning with the line it is on and what to write
// instead; source is the document's text.
func RenderWarnings(w io.Writer, source []byte, warnings []Warning, color bool) {
	for _, one := range warnings {
		m := Mistake(one)
		m.Message = "warning: " + m.Message
		render(w, source, m, lookOf(color, yellow))
	}
}

// notes collects what is to be said about a document.
type notes struct {
	file     string
	mistakes []Mistake
	warnings []Mistake
	said     map[Mistake]bool // of both: a shared policy is checked for each use
	more     int              // mistakes that are left out
	muted    map[int]bool     // lines of which nothing more is said
}

func (n *notes) mistake(at Pos, suggestion, format string, args ...any) {
	n.add(&n.mistakes, Mistake{at, fmt.Sprintf(format, args...), suggestion, n.file})
}

func (n *notes) warn(at Pos, suggestion, format string, args ...any) {
	n.add(&n.warnings, Mistake{at, fmt.Sprintf(format, args...), suggestion, n.file})
}

// full reports whether no more mistakes are told, so that nobody need think about them.
func (n *notes) full() bool { return len(n.mistakes) >= MaxMistakes }

// guess is what a writer meant with a word, as long as mistakes are told.
func (n *notes) guess(word string, all []string) string {
	if n.full() {
		return ""
	}
	return didYouMean(word, all)
}

// guessKey is guess for the key of a map that has room for the keys free of those allowed.
func (n *notes) guessKey(word string, free, allowed []string) string {
	if n.full() {
		return ""
	}
	if found := closest(word, free); found != "" {
		return "did you mean " + quote(found) + "?"
	}
	return "allowed keys: " + strings.Join(quoted(allowed), ", ")
}

// longest is the most bytes of a message that are told.
const longest = 800

func (n *notes) add(to *[]Mistake, m Mistake) {
	m.Message, m.Suggestion = printable(cut(m.Message, longest)), printable(cut(m.Suggestion, longest))
	if n.said[m] || n.muted[m.Line] {
		return
	}
	if len(*to) >= MaxMistakes {
		if to == &n.mistakes {
			n.more++
		}
		return
	}
	n.said[m] = true
	*to = append(*to, m)
}

// result gives what was collected in the order of the document.
func (n *notes) result(source []byte) ([]Warning, error) {
	byPlace := func(a, b Mistake) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	}
	slices.SortStableFunc(n.warnings, byPlace)
	slices.SortStableFunc(n.mistakes, byPlace)
	var warnings []Warning
	for _, w := range n.warnings {
		warnings = append(warnings, Warning(w))
	}
	if len(n.mistakes) == 0 {
		return warnings, nil
	}
	if n.more > 0 {
		last := n.mistakes[len(n.mistakes)-1].Pos
		n.mistakes = append(n.mistakes, Mistake{last, fmt.Sprintf("and %d more mistakes", n.more), "", n.file})
	}
	return warnings, &Mistakes{List: n.mistakes, source: source}
}
