package report

import (
	"slices"
	"strings"

	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/excerpt"
	"flunq.io/flunq/sim/spec"
)

// Frame is an excerpt of a document.
type Frame struct {
	Place  string // "order.yaml:7:5"
	Column int    // where the task begins, from 1
	Lines  []FrameLine
}

// FrameLine is a line of an excerpt.
type FrameLine struct {
	Number int
	Text   string
	Marked bool // only one of the two documents contains it
}

// Limits of comparing and showing one task.
const (
	comparedLines = 400
	shownLines    = 40
	contextLines  = 2 // around a line that differs
)

// Compare extends two frames, each with the first line of a task, by the lines that only
// one of the two documents contains, and marks these lines. If the tasks are equal, it
// changes nothing.
func Compare(was, now *Frame, before, after *dsl.Definition) {
	a, b := taskLines(before, was), taskLines(after, now)
	markDifferent(a, b)
	marked := func(l FrameLine) bool { return l.Marked }
	if slices.ContainsFunc(a, marked) || slices.ContainsFunc(b, marked) {
		was.Lines, now.Lines = nearMarks(a), nearMarks(b)
	}
}

// taskLines returns the lines of the task at the start of a frame.
func taskLines(def *dsl.Definition, f *Frame) []FrameLine {
	lines := strings.Split(strings.TrimRight(string(def.Source), "\n"), "\n")
	var out []FrameLine
	for i := range blockAt(lines, f.Lines[0].Number, f.Column) {
		if len(out) == comparedLines {
			break
		}
		out = append(out, FrameLine{Number: i + 1, Text: excerpt.Escaped(strings.TrimRight(lines[i], "\r"))})
	}
	return out
}

// markDifferent marks the lines that only one of two lists contains.
func markDifferent(a, b []FrameLine) {
	texts := func(lines []FrameLine) (out []string) {
		for _, l := range lines {
			out = append(out, l.Text)
		}
		return out
	}
	for _, line := range spec.Align(texts(a), texts(b)) {
		if line.Mark != '+' {
			a[0].Marked, a = line.Mark == '-', a[1:]
		}
		if line.Mark != '-' {
			b[0].Marked, b = line.Mark == '+', b[1:]
		}
	}
}

// nearMarks keeps the first line and those near a marked one.
func nearMarks(lines []FrameLine) []FrameLine {
	var out []FrameLine
	for i, l := range lines {
		near := slices.ContainsFunc(lines[max(0, i-contextLines):min(len(lines), i+contextLines+1)], func(l FrameLine) bool { return l.Marked })
		if (i == 0 || near) && len(out) < shownLines {
			out = append(out, l)
		}
	}
	return out
}
