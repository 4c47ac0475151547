package spec

import (
	"slices"

	"flunq.io/flunq/engine/excerpt"
	"flunq.io/flunq/engine/expr/canonical"
)

// Line is a line of a comparison. Its mark is '-' if it was only expected, '+' if it is only
// actual, and ' ' if it is both.
type Line struct {
	Mark byte
	Text string
}

// longest is the maximum length of a value in a message, in bytes.
const longest = 300

// shown returns a value on one line.
func shown(v any) string { return excerpt.Of(string(canonical.Encode(v)), longest) }

// maxAligned is the number of tasks, from the first, that are compared line by line.
const maxAligned = 1000

// Align compares two lists of lines by a longest common subsequence. Time and memory grow with the
// product of their lengths.
func Align(want, got []string) []Line {
	common := commonTails(want, got)
	var out []Line
	i, j := 0, 0
	for i < len(want) || j < len(got) {
		switch {
		case i < len(want) && j < len(got) && want[i] == got[j]:
			out = append(out, Line{' ', want[i]})
			i, j = i+1, j+1
		case i < len(want) && (j == len(got) || common[i+1][j] >= common[i][j+1]):
			out = append(out, Line{'-', want[i]})
			i++
		default:
			out = append(out, Line{'+', got[j]})
			j++
		}
	}
	return out
}

// commonTails returns the length of the longest common subsequence of each pair of tails.
func commonTails(want, got []string) [][]int {
	table := make([][]int, len(want)+1)
	for i := range table {
		table[i] = make([]int, len(got)+1)
	}
	for i, name := range slices.Backward(want) {
		for j, other := range slices.Backward(got) {
			table[i][j] = max(table[i+1][j], table[i][j+1])
			if name == other {
				table[i][j] = table[i+1][j+1] + 1
			}
		}
	}
	return table
}

// around is how many equal lines are shown around a difference.
const around = 3

// folded removes equal lines far from differences.
func folded(lines []Line) []Line {
	var out []Line
	left := false
	for i, line := range lines {
		if !closeBy(lines, i) {
			if !left {
				out = append(out, Line{' ', "…"})
			}
			left = true
			continue
		}
		left = false
		out = append(out, line)
	}
	return out
}

func closeBy(lines []Line, i int) bool {
	near := lines[max(0, i-around):min(len(lines), i+around+1)]
	return slices.ContainsFunc(near, func(line Line) bool { return line.Mark != ' ' })
}
