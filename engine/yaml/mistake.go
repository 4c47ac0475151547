package yaml

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"flunq.io/flunq/engine/excerpt"
)

// Pos is a position in a document. Lines and columns start at 1.
type Pos struct{ Line, Column int }

// Mistake is an error in a document, which must be corrected before it can run.
type Mistake struct {
	Pos
	Message    string
	Suggestion string // what to write instead, or ""
	File       string
	Rule       string // of a warning: its name, by which comments can ignore it
}

// String returns the mistake as one line: file:line:col: message.
func (m Mistake) String() string { return m.place() + ": " + m.Message }

func (m Mistake) place() string {
	return fmt.Sprintf("%s:%d:%d", printable(m.File), m.Line, m.Column)
}

// Warning is a valid part of a document that probably does not do what its author meant.
type Warning Mistake

// String returns the warning as one line.
func (w Warning) String() string { return Mistake(w).place() + ": warning: " + w.Message }

// Mistakes holds all mistakes of a document, in document order.
type Mistakes struct {
	List   []Mistake
	source []byte
}

// NewMistakes returns the mistakes of a file that is not a workflow document, in the order of its
// lines; source is its text.
func NewMistakes(source []byte, list []Mistake) *Mistakes {
	m := &Mistakes{source: source}
	for _, one := range list {
		one.Message, one.Suggestion = printable(excerpt.Of(one.Message, longest)), printable(excerpt.Of(one.Suggestion, longest))
		m.List = append(m.List, one)
	}
	slices.SortStableFunc(m.List, func(a, b Mistake) int { return cmp.Compare(a.Line, b.Line) })
	return m
}

// Error returns one line for each mistake.
func (m *Mistakes) Error() string {
	lines := make([]string, len(m.List))
	for i, one := range m.List {
		lines[i] = one.String()
	}
	return strings.Join(lines, "\n")
}

// Render writes each mistake with its line and a suggestion, with colours if color is true.
func (m *Mistakes) Render(w io.Writer, color bool) {
	for _, one := range m.List {
		render(w, m.source, one, paletteOf(color, red))
	}
}

// RenderAsWarnings is like Render for mistakes that do not prevent anything.
func (m *Mistakes) RenderAsWarnings(w io.Writer, color bool) {
	warnings := make([]Warning, len(m.List))
	for i, one := range m.List {
		warnings[i] = Warning(one)
	}
	RenderWarnings(w, m.source, warnings, color)
}

// RenderWarnings writes each warning with its line and a suggestion; source is the
// document's text.
func RenderWarnings(w io.Writer, source []byte, warnings []Warning, color bool) {
	for _, one := range warnings {
		m := Mistake(one)
		m.Message = "warning: " + m.Message
		render(w, source, m, paletteOf(color, yellow))
	}
}

// Collector collects the mistakes and warnings of a document.
type Collector struct {
	file     string
	keys     []string // words after which a colon may be missing
	Mistakes []Mistake
	Warnings []Mistake
	said     map[Mistake]bool // reported mistakes and warnings, which may recur: a shared policy is checked once per use
	more     int              // number of mistakes beyond the limit
	muted    map[int]bool     // lines for which nothing more is reported
}

// NewCollector returns a Collector for a file; mistakes show its name. keys are words after
// which a missing colon is recognized.
func NewCollector(file string, keys ...string) *Collector {
	return &Collector{file: file, keys: keys, said: map[Mistake]bool{}}
}

// Mistake reports a mistake, once. suggestion says what to write instead, or is empty.
func (c *Collector) Mistake(at Pos, suggestion, format string, args ...any) {
	c.add(&c.Mistakes, Mistake{Pos: at, Message: fmt.Sprintf(format, args...), Suggestion: suggestion, File: c.file})
}

// Warn reports, once, a valid part that probably does not do what its author meant; rule is the name of
// the rule that it breaks.
func (c *Collector) Warn(rule string, at Pos, suggestion, format string, args ...any) {
	c.add(&c.Warnings, Mistake{Pos: at, Message: fmt.Sprintf(format, args...), Suggestion: suggestion, File: c.file, Rule: rule})
}

// Omit counts a mistake that is not reported because of MaxMistakes.
func (c *Collector) Omit() { c.more++ }

// Full reports whether the limit is reached, so that further checks can be skipped.
func (c *Collector) Full() bool { return len(c.Mistakes) >= MaxMistakes }

// longest is the maximum length of a message in bytes.
const longest = 800

func (c *Collector) add(to *[]Mistake, m Mistake) {
	m.Message, m.Suggestion = printable(excerpt.Of(m.Message, longest)), printable(excerpt.Of(m.Suggestion, longest))
	if c.said[m] || c.muted[m.Line] {
		return
	}
	if len(*to) >= MaxMistakes {
		if to == &c.Mistakes {
			c.more++
		}
		return
	}
	c.said[m] = true
	*to = append(*to, m)
}

// Result returns the collected warnings, except those that a comment ignores, and mistakes in document
// order.
func (c *Collector) Result(source []byte) ([]Warning, error) {
	byPlace := func(a, b Mistake) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	}
	var warnings []Warning
	ignored := Ignored(source)
	for _, w := range slices.SortedStableFunc(slices.Values(c.Warnings), byPlace) {
		if !ignored.has(w) {
			warnings = append(warnings, Warning(w))
		}
	}
	if len(c.Mistakes) == 0 {
		return warnings, nil
	}
	mistakes := slices.SortedStableFunc(slices.Values(c.Mistakes), byPlace)
	if c.more > 0 {
		last := mistakes[len(mistakes)-1].Pos
		mistakes = append(mistakes, Mistake{Pos: last, Message: fmt.Sprintf("and %d more mistakes", c.more), File: c.file})
	}
	return warnings, &Mistakes{List: mistakes, source: source}
}
