package search

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/sim"
)

// Repeat is a call that flunq repeated although the workflow made it once.
type Repeat struct {
	Task, Method, URL string
	Runs, Most        int
	Scenario          Scenario
}

// repetitions returns the POST and PATCH calls of a run that were repeated for the same
// task run.
func repetitions(t *sim.Trial) []sim.Action {
	var out []sim.Action
	for _, d := range slices.SortedFunc(maps.Keys(t.Actions), compareActions) {
		if t.Actions[d] > 1 && (d.Method == http.MethodPost || d.Method == http.MethodPatch) {
			out = append(out, d)
		}
	}
	return out
}

func (h *hints) countRepeats(v *verdict) {
	for _, d := range v.repeated {
		key := sim.Action{Task: event.ParseRun(d.Task).Ref, Method: d.Method}
		r := h.repeated[key]
		if r == nil {
			r = &Repeat{Task: key.Task, Method: d.Method, URL: d.URL, Scenario: v.scenario}
			h.repeated[key] = r
		}
		if len(v.scenario.Faults) < len(r.Scenario.Faults) {
			r.Scenario = v.scenario
		}
		r.Runs++
	}
}

// repeatHint reports calls that flunq repeated after a fault, if no other hint or finding
// does.
func (h *hints) repeatHint() []Hint {
	var calls []string
	var first *Repeat
	for _, key := range slices.SortedFunc(maps.Keys(h.repeated), compareActions) {
		r := h.repeated[key]
		if h.rekeyed[r.Task] != nil || h.retried[r.Task] != nil || h.report.reports(SideEffect, r.Task) || h.report.tellsOnce(r) {
			continue
		}
		first = cmp.Or(first, r)
		calls = append(calls, fmt.Sprintf("%s (%s %s, in %s)", h.taskName(r.Task), r.Method, r.URL, runsText(r.Runs)))
	}
	if first == nil {
		return nil
	}
	return []Hint{{"repeat", nil, fmt.Sprintf(
		"when a process died, stopped or was cut off after a call, the call was made again: %s. "+
			"Each time it has the same Idempotency-Key header, so check that the service looks at it; "+
			"if it does not, the work is done twice. --once '%s %s' makes that a failure", strings.Join(calls, ", "), first.Method, first.URL)}}
}
