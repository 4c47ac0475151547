package search

import (
	"fmt"
	"strings"

	"flunq.io/flunq/engine/dsl"
)

// togetherHint recommends several executions if one cannot show a mistake: the workflow
// reads something with GET and writes it back, or mocks keep shared state.
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
