package search

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"

	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/sim"
)

// together reports whether the executions of a run share mock state. Then whole runs are
// compared, since it may differ which execution has which outcome.
func (h *searchState) together() bool { return h.Config.Executions > 1 && h.Config.Mocks.Shared() }

// runKey is equal for runs with the same outcomes, whichever execution has which.
func (h *searchState) runKey(t *sim.Trial) string {
	var parts []string
	for _, end := range t.Ends {
		parts = append(parts, sibling(end.ID)+" "+h.suppressed.key(end))
	}
	slices.Sort(parts)
	sum := sha256.Sum256(append([]byte(strings.Join(parts, "\n")), event.Encode(t.Shared)...))
	return string(sum[:])
}

// learnRun adds a run without faults to the known outcomes.
func (h *searchState) learnRun(v *verdict) {
	t := v.trial
	key := h.runKey(t)
	c := h.whole[key]
	if c == nil {
		c = &class{keys: keys{whole: key}, end: sim.End{Status: t.Status, Output: t.Output, Error: t.Error, Kept: t.Shared}, calls: callsBelow(t, "")}
		for _, end := range t.Ends { // one that did not end determines the outcome
			if !end.Status.Ended() && c.ended() {
				c.end.Status, c.end.ID, c.history = end.Status, end.ID, end.History
			}
		}
		c.outcome = Outcome{Status: string(c.end.Status), Output: t.Output, Error: t.Error, Calls: c.calls, Kept: t.Shared, Stop: t.Stop}
		h.whole[key] = c
		if f, ok := h.overwritten(t); ok {
			c.loses = &f
		}
	}
	h.count(c, v, t.Ends[0])
}

// sharedStateDiffers returns the failure of a run whose executions each ended as usual but whose
// shared state is unusual.
func (h *searchState) sharedStateDiffers(t *sim.Trial) []failure {
	if len(h.whole) == 0 || len(t.Ends) == 0 {
		return nil
	}
	return []failure{{Class: Race, Violation: sim.Violation{Rule: RuleOrder, Detail: "what the executions share came to something else"}}}
}

// togetherHint recommends several executions if one cannot show a mistake: the workflow
// reads something with GET and writes it back, or mocks keep shared state.
func (h *searchState) togetherHint() []Hint {
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
			keep := ", and let the mocks keep what they share: keep: {scope: shared, state: {…}}"
			if h.Config.Mocks.Shared() {
				keep = ""
			}
			return []Hint{{"together", t, fmt.Sprintf(
				"%s reads %s and %s writes it back: an execution that runs at the same time may overwrite the change, and one execution alone cannot show it. "+
					"To see it: --executions 2%s", from.Name, target, t.Name, keep)}}
		}
	}
	if h.Config.Mocks.Shared() {
		return []Hint{{"together", nil, "the mocks keep what executions share, and only one execution ran: --executions 2 also tries two at a time"}}
	}
	return nil
}

// request returns the method and the target of a call as the document states them.
func request(t *dsl.Task) (method, target string) {
	if t.Kind != dsl.Call || t.Call.HTTP == nil {
		return "", ""
	}
	raw, _ := t.Raw.(map[string]any)
	with, _ := raw["with"].(map[string]any)
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

// checksVersion reports whether a call lets the service check that nothing has changed.
func checksVersion(t *dsl.Task) bool {
	raw, _ := t.Raw.(map[string]any)
	with, _ := raw["with"].(map[string]any)
	headers, _ := with["headers"].(map[string]any)
	for name := range headers {
		if strings.EqualFold(name, "If-Match") || strings.EqualFold(name, "If-Unmodified-Since") {
			return true
		}
	}
	return false
}
