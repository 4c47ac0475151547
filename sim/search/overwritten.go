package search

import (
	"fmt"
	"strings"

	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/sim"
	"flunq.io/flunq/sim/recording"
)

// overwritten finds a lost update in a run without faults: an execution writes data
// derived from something that it read although another one has changed it since. If all
// runs lose it, comparing runs does not reveal it.
func (h *searchState) overwritten(t *sim.Trial) (failure, bool) {
	if !h.together() || len(t.Struck) > 0 || len(h.whole) != 1 {
		return failure{}, false // runs that differ are a race
	}
	type read struct{ root, url string }
	since := map[read]*sim.Call{} // the change by another execution since the last read; nil: none
	calls := callsBelow(t, "")
	for i := range calls {
		c := &calls[i]
		root, _, _ := strings.Cut(c.Execution, ".")
		at := read{root, c.URL}
		_, shared := t.Shared[c.URL]
		switch other := since[at]; {
		case !shared || c.Status >= 300: //nolint:mnd // it changed nothing
		case c.Safe():
			since[at] = nil
		default:
			if task := h.writer(c); other != nil && task != nil {
				return failure{Class: SideEffect, Violation: sim.Violation{Rule: RuleOverwritten, Execution: c.Execution, Detail: fmt.Sprintf(
					"%s read %s before %s changed it, and then overwrites that change with %s %s", c.Execution, c.URL, other.Execution, c.Method, c.Body,
				)}, task: task.Ref}, true
			}
			for of := range since {
				if of.url == c.URL && of.root != root {
					since[of] = c
				}
			}
			delete(since, at) // it knows what it wrote
		}
	}
	return failure{}, false
}

// writer returns the task that made a call, if its body is computed and it gives the
// service nothing to compare, such as If-Match; nil otherwise.
func (h *searchState) writer(c *sim.Call) *dsl.Task {
	for _, def := range append([]*dsl.Definition{h.Config.Definition}, h.Config.With...) {
		t := def.Task(event.ParseRun(c.Task).Ref)
		if t == nil {
			continue
		}
		method, _ := request(t)
		raw, _ := t.Raw.(map[string]any)
		with, _ := raw["with"].(map[string]any)
		if method == c.Method && (method == "PUT" || method == "PATCH") && !checksVersion(t) && strings.Contains(string(event.Encode(with["body"])), "${") {
			return t
		}
	}
	return nil
}

// learnReceivers counts how many executions received one event, at most, by its type.
func (h *searchState) learnReceivers(t *sim.Trial) {
	heard := map[[3]string]int{}
	for _, end := range t.Ends {
		for _, e := range end.History {
			if e.Type != event.EventReceived || strings.Contains(end.ID, ".") {
				continue
			}
			came := recording.Arrived(e)
			key := [3]string{string(came.Type), came.Source, came.ID}
			heard[key]++
			h.receivers[key[0]] = max(h.receivers[key[0]], heard[key])
		}
	}
}

// receiversHint reports events that several executions received because no listen task says
// which event it waits for.
func (h *searchState) receiversHint() []Hint {
	var out []Hint
	for _, t := range h.Config.Definition.Tasks() {
		if t.Listen == nil {
			continue
		}
		for _, f := range t.Listen.To.Filters {
			if n := h.receivers[typeOf(f)]; n > 1 && len(f.Correlate) == 0 {
				out = append(out, Hint{"correlate", t, fmt.Sprintf("one event %s reached %d executions: nothing says which of them it is for. "+
					"If it is for one, let the listen say so: correlate: {order: {from: .order, expect: '${ $workflow.input.order }'}}", typeOf(f), n)})
				break
			}
		}
	}
	return out
}

// typeOf returns the type of events that a filter asks for; "" if it names none.
func typeOf(f dsl.EventFilter) string {
	for _, field := range f.With {
		if text, ok := field.Value.Constant(); field.Key == "type" && ok {
			typ, _ := text.(string)
			return typ
		}
	}
	return ""
}
