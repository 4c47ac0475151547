package search

import (
	"fmt"

	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/sim"
	"flunq.io/flunq/sim/invariant"
)

// learnReceivers counts how many executions received one event, at most, by its type.
func (h *hints) learnReceivers(t *sim.Trial) {
	heard := map[string]int{} // by id, which is the execution's own if the event was sent to it alone
	for _, end := range t.Ends {
		for _, e := range end.History {
			if e.Type != event.EventReceived || end.Child() {
				continue
			}
			heard[e.ID]++
			typ := string(decide.Arrived(e).Type)
			h.receivers[typ] = max(h.receivers[typ], heard[e.ID])
		}
	}
}

// receiversHint reports events that several executions received because no listen task says
// which event it waits for.
func (h *hints) receiversHint() []Hint {
	var out []Hint
	for _, t := range h.Config.Definition.Tasks() {
		if t.Listen == nil {
			continue
		}
		for _, f := range t.Listen.To.Filters {
			types := invariant.EventTypes(f)
			if len(types) > 0 && h.receivers[types[0]] > 1 && len(f.Correlate) == 0 {
				out = append(out, Hint{"correlate", t, fmt.Sprintf("one event %s reached %d executions, because nothing says which of them it is for. "+
					"If it is for only one, let the listen task say so: correlate: {order: {from: .data.order, expect: '${ $workflow.input.order }'}}", types[0], h.receivers[types[0]])})
				break
			}
		}
	}
	return out
}

// earlyHints report events that arrived before the task that waits for them began to listen.
func (h *hints) earlyHints() []Hint {
	var out []Hint
	for _, m := range h.missedEvents {
		if m.For == nil || h.report.reports(Hang, m.For.Ref) || h.report.reports(Late, m.For.Ref) {
			continue
		}
		out = append(out, Hint{"early", m.For, fmt.Sprintf(
			"%s, and %s waits in vain even without faults. An event for which no task listens is lost: listen before the task that triggers it, "+
				"for example in a branch of a fork, or listen for all awaited events at once (to: {all: […]})", m, m.For.Name)})
	}
	return out
}
