package spec

import (
	"fmt"

	"flunq.io/flunq/sim/mock"
)

// tally counts equal requests, in the order in which they were first sent.
func tally(sent []mock.Exchange) (names []string, counts map[string]int, first map[string]mock.Exchange) {
	counts, first = map[string]int{}, map[string]mock.Exchange{}
	for _, x := range sent {
		name := x.Method + " " + x.URL
		if counts[name]++; counts[name] == 1 {
			names, first[name] = append(names, name), x
		}
	}
	return names, counts, first
}

// maxSent is the maximum number of requests that are shown.
const maxSent = 10

// sentLines lists the requests that were sent, with '+'.
func sentLines(sent []mock.Exchange) []Line {
	names, counts, _ := tally(sent)
	var out []Line
	for i, name := range names {
		if i == maxSent {
			return append(out, Line{'+', fmt.Sprintf("and %d more", len(names)-i)})
		}
		out = append(out, Line{'+', name + ", " + times(counts[name])})
	}
	return out
}

// also lists the requests that were sent, as context for a difference.
func also(sent []mock.Exchange) []Line {
	lines := sentLines(sent)
	for i := range lines {
		lines[i] = Line{' ', "sent: " + lines[i].Text}
	}
	if len(lines) == 0 {
		return []Line{{' ', "no request was sent"}}
	}
	return lines
}

// summary returns the requests as a test file expects them.
func summary(sent []mock.Exchange) []any {
	names, counts, first := tally(sent)
	out := []any{}
	for _, name := range names {
		x := first[name]
		out = append(out, map[string]any{"method": x.Method, "url": x.URL, "times": counts[name]})
	}
	return out
}
