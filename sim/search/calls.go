package search

import (
	"strings"

	"flunq.io/flunq/sim"
)

// stepAnswered describes a step that is a call.
const stepAnswered = "is answered"

// callsOf returns the calls of an execution and of its family, or of all executions if
// they share state, in the order in which they were carried out. A history only records
// when the answers arrived.
func (h *searchState) callsOf(t *sim.Trial, end sim.End) *facts {
	f := &facts{place: map[string]int{}}
	if len(end.History) > 0 {
		f.start = end.History[0].Time
	}
	root, _, _ := strings.Cut(end.ID, ".")
	for _, c := range t.Answered {
		by, _, _ := strings.Cut(c.Execution, ".")
		id, of := sibling(c.Execution), ""
		if h.together() {
			by, id, of = root, c.Execution, c.Execution
		}
		if by == root {
			f.add(fact{"call " + id + " " + c.Task + " " + c.Method + " " + c.URL, c.Task, of, stepAnswered, c.At})
		}
	}
	return f
}

// callsIn returns the calls of those runs whose calls are recorded.
func callsIn(runs []*facts) (out []*facts) {
	for _, f := range runs {
		if f.calls != nil {
			out = append(out, f.calls)
		}
	}
	return out
}
