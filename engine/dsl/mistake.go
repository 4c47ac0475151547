package dsl

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"flunq.io/flunq/engine/spelling"
)

// ErrInvalid is wrapped by every error about a document's content.
var ErrInvalid = errors.New("invalid workflow")

// Mistake is an error in a document, which must be corrected before it can run.
type Mistake struct {
	Pos
	Message    string
	Suggestion string // what to write instead, or ""
	File       string
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

// Mistakes holds all mistakes of a document, in document order. It wraps ErrInvalid.
type Mistakes struct {
	List   []Mistake
	source []byte
}

// NewMistakes returns the mistakes of a file that is no workflow document, in the order of
// its lines; source is its text.
func NewMistakes(source []byte, list []Mistake) *Mistakes {
	m := &Mistakes{source: source}
	for _, one := range list {
		one.Message, one.Suggestion = printable(cut(one.Message, longest)), printable(cut(one.Suggestion, longest))
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

// Unwrap returns ErrInvalid.
func (m *Mistakes) Unwrap() error { return ErrInvalid }

// Render writes each mistake with its line and a suggestion.
func (m *Mistakes) Render(w io.Writer, color bool) {
	for _, one := range m.List {
		render(w, m.source, one, lookOf(color, red))
	}
}

// RenderAsWarnings is Render for mistakes that do not prevent anything.
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
		render(w, source, m, lookOf(color, yellow))
	}
}

// notes collects the mistakes and warnings of a document.
type notes struct {
	file     string
	mistakes []Mistake
	warnings []Mistake
	said     map[Mistake]bool // reported mistakes and warnings: a shared policy is checked once per use
	more     int              // number of mistakes beyond the limit
	muted    map[int]bool     // lines for which nothing more is reported
}

func (n *notes) mistake(at Pos, suggestion, format string, args ...any) {
	n.add(&n.mistakes, Mistake{at, fmt.Sprintf(format, args...), suggestion, n.file})
}

func (n *notes) warn(at Pos, suggestion, format string, args ...any) {
	n.add(&n.warnings, Mistake{at, fmt.Sprintf(format, args...), suggestion, n.file})
}

// full reports whether no more mistakes are reported, so that checks can be skipped.
func (n *notes) full() bool { return len(n.mistakes) >= MaxMistakes }

// guess suggests the word that was meant, unless no more mistakes are reported.
func (n *notes) guess(word string, all []string) string {
	if n.full() {
		return ""
	}
	return didYouMean(word, all)
}

// guessKey is guess for a key of a map: free are the allowed keys that the map does not
// have yet.
func (n *notes) guessKey(word string, free, allowed []string) string {
	if n.full() {
		return ""
	}
	if found := closest(word, free); found != "" {
		return "did you mean " + quote(found) + "?"
	}
	return "allowed keys: " + strings.Join(quoted(allowed), ", ")
}

// longest is the largest size of a message in bytes.
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

// result returns the collected warnings and mistakes in document order.
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

// meant returns the keys that correspond to a word of other languages. The first key that
// is allowed in place of the word is suggested.
func meant(word string) []string {
	switch strings.ToLower(word) {
	case "url", "uri", "href", "address":
		return []string{"endpoint", "uri"}
	case "endpoint":
		return []string{"uri", "document"}
	case "next", "goto", "transition", "nextstate", "next_state":
		return []string{"then"}
	case "foreach", "each", "loop", "iterate":
		return []string{"for", "each", "foreach"}
	case "condition", "when", "if", "unless":
		return []string{"if", "when"}
	case "delay", "sleep", "pause":
		return []string{"wait", "delay"}
	case "retries", "retrypolicy", "retry_policy":
		return []string{"retry"}
	case "task", "tasks", "steps", "states", "actions", "flow":
		return []string{"do"}
	case "parallel", "branches", "concurrent":
		return []string{"fork", "branches"}
	case "assign", "var", "vars", "let":
		return []string{"set"}
	case "id":
		return []string{"name", "operationId"}
	case "parameters", "args", "arguments", "params":
		return []string{"with", "parameters", "arguments"}
	case "except", "rescue", "onerror", "onerrors":
		return []string{"catch"}
	case "user", "login":
		return []string{"username"}
	case "pass", "passwd", "pwd":
		return []string{"password"}
	case "desc", "description":
		return []string{"summary", "description"}
	case "index":
		return []string{"at"}
	case "item":
		return []string{"each", "item"}
	case "operation":
		return []string{"operationId"}
	case "details":
		return []string{"detail"}
	case "data", "content", "payload":
		return []string{"body", "payload", "data"}
	case "secret":
		return []string{"use", "secrets"}
	case "throw", "error":
		return []string{"raise"}
	default:
		return nil
	}
}

// closest returns the word of all that was probably meant, or "".
func closest(word string, all []string) string {
	for _, m := range meant(word) {
		if slices.Contains(all, m) {
			return m
		}
	}
	return spelling.Word(word, all)
}

// didYouMean suggests the closest word of all, or lists those allowed.
func didYouMean(word string, all []string) string {
	if found := closest(word, all); found != "" {
		return "did you mean " + quote(found) + "?"
	}
	switch {
	case len(all) == 0:
		return ""
	case len(all) > 20:
		return "allowed: " + strings.Join(quoted(all[:20]), ", ") + " and others"
	default:
		return "allowed: " + strings.Join(quoted(all), ", ")
	}
}

func quoted(words []string) []string {
	out := make([]string, len(words))
	for i, w := range words {
		out[i] = short(w)
	}
	return out
}
