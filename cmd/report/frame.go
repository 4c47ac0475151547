package report

import (
	"slices"
	"strings"

	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/excerpt"
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

// markDifferent marks the lines outside a longest common subsequence of two lists.
func markDifferent(a, b []FrameLine) {
	common := make([][]int, len(a)+1) // its length for a[i:] and b[j:]
	for i := range common {
		common[i] = make([]int, len(b)+1)
	}
	for i := range slices.Backward(a) {
		for j := range slices.Backward(b) {
			if a[i].Text == b[j].Text {
				common[i][j] = common[i+1][j+1] + 1
			} else {
				common[i][j] = max(common[i+1][j], common[i][j+1])
			}
		}
	}
	i, j := 0, 0
	for i < len(a) && j < len(b) {
		switch {
		case a[i].Text == b[j].Text:
			i, j = i+1, j+1
		case common[i+1][j] >= common[i][j+1]:
			a[i].Marked, i = true, i+1
		default:
			b[j].Marked, j = true, j+1
		}
	}
	for ; i < len(a); i++ {
		a[i].Marked = true
	}
	for ; j < len(b); j++ {
		b[j].Marked = true
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
