package search

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/sim"
)

// togetherHint recommends several executions if a single one cannot reveal a mistake: the
// workflow reads something with GET and writes it back, or mocks keep shared state.
func (h *hints) togetherHint() []Hint {
	if h.Config.Executions > 1 {
		return nil
	}
	read := map[string]*dsl.Task{}
	for _, t := range h.Config.Definition.Tasks() {
		method, target := request(t)
		switch method {
		case "GET":
			if read[target] == nil {
				read[target] = t
			}
		case "PUT", "PATCH":
			from := read[target]
			if from == nil || checksVersion(t) {
				continue
			}
			keep := ", and let the mocks keep shared state: keep: {scope: shared, state: {…}}"
			if h.Config.Mocks.Shared() {
				keep = ""
			}
			return []Hint{{"together", t, fmt.Sprintf(
				"%s reads %s and %s writes it back: a concurrent execution may overwrite the change, which a single execution cannot show. "+
					"Run with --executions 2%s", from.Name, target, t.Name, keep)}}
		}
	}
	if h.Config.Mocks.Shared() {
		return []Hint{{"together", nil, "the mocks keep shared state, but only one execution ran: --executions 2 runs two concurrently"}}
	}
	return nil
}

// request returns the method and the target of a call as the document states them.
func request(t *dsl.Task) (method, target string) {
	if t.Kind != dsl.Call || t.Call.HTTP == nil {
		return "", ""
	}
	with := withOf(t)
	method, _ = with["method"].(string)
	target, _ = with["endpoint"].(string)
	if endpoint, ok := with["endpoint"].(map[string]any); ok {
		target, _ = endpoint["uri"].(string)
	}
	if target == "" {
		return "", ""
	}
	return strings.ToUpper(method), target
}

// withOf returns the arguments of a call as the document states them.
func withOf(t *dsl.Task) map[string]any {
	raw, _ := t.Raw.(map[string]any)
	with, _ := raw["with"].(map[string]any)
	return with
}

// checksVersion reports whether a call has a header, such as If-Match, that makes the service
// check that nothing has changed.
func checksVersion(t *dsl.Task) bool {
	headers, _ := withOf(t)["headers"].(map[string]any)
	for name := range headers {
		if strings.EqualFold(name, "If-Match") || strings.EqualFold(name, "If-Unmodified-Since") {
			return true
		}
	}
	return false
}

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

// repeatHint reports calls that flunq repeated after a fault, unless another hint or finding
// does.
func (h *hints) repeatHint() []Hint {
	var calls []string
	var first *Repeat
	for _, key := range slices.SortedFunc(maps.Keys(h.repeated), compareActions) {
		r := h.repeated[key]
		if h.rekeyed[r.Task] != nil || h.retried[r.Task] != nil || h.report.reports(SideEffect, r.Task) || h.report.reportsOnce(r) {
			continue
		}
		first = cmp.Or(first, r)
		calls = append(calls, fmt.Sprintf("%s (%s %s, in %s)", h.taskName(r.Task), r.Method, r.URL, runsText(r.Runs)))
	}
	if first == nil {
		return nil
	}
	return []Hint{{"repeat", nil, fmt.Sprintf(
		"after a process crashed, stopped or lost its connection, a call was repeated: %s. "+
			"Each repetition has the same Idempotency-Key header: check that the service honours it; "+
			"if it does not, the work is done twice. --once '%s %s' makes a repetition a failure", strings.Join(calls, ", "), first.Method, first.URL)}}
}
