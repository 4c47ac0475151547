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

// repeatedIn returns the POST and PATCH calls of a run that were repeated for the same task run
// although the workflow made them once, by task and method.
func repeatedIn(t *sim.Trial) map[string]sim.CallID {
	out := map[string]sim.CallID{}
	for _, call := range slices.SortedFunc(maps.Keys(t.CallCounts), compareCalls) {
		key := event.ParseRun(call.Task).Ref + " " + call.Method
		if _, known := out[key]; !known && t.CallCounts[call] > 1 && (call.Method == http.MethodPost || call.Method == http.MethodPatch) {
			out[key] = call
		}
	}
	return out
}

// repeatHint reports calls that flunq repeated after a fault, unless another hint or finding
// does.
func (h *hints) repeatHint() []Hint {
	var calls []string
	example := ""
	for _, key := range slices.Sorted(maps.Keys(h.repeated)) {
		call, ref := h.repeated[key].what, event.ParseRun(h.repeated[key].what.Task).Ref
		if h.rekeyed[ref] != nil || h.retried[ref] != nil || h.report.reports(SideEffect, ref) || h.report.reportsOnce(call) {
			continue
		}
		example = cmp.Or(example, call.Method+" "+call.URL)
		calls = append(calls, fmt.Sprintf("%s (%s %s, in %s)", h.taskName(ref), call.Method, call.URL, runsText(h.repeated[key].runs)))
	}
	if len(calls) == 0 {
		return nil
	}
	return []Hint{{"repeat", nil, fmt.Sprintf(
		"after a process crashed, stopped or lost its connection, a call was repeated: %s. "+
			"Each repetition has the same Idempotency-Key header: check that the service honours it; "+
			"if it does not, the work is done twice. --once '%s' makes a repetition a failure", strings.Join(calls, ", "), example)}}
}
