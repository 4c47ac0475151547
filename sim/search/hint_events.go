package search

import (
	"fmt"
	"slices"
	"strings"

	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/event"
	httpcall "flunq.io/flunq/engine/executor/http"
	"flunq.io/flunq/engine/history"
	"flunq.io/flunq/sim"
	"flunq.io/flunq/sim/invariant"
	"flunq.io/flunq/sim/recording"
)

// learnReceivers counts how many executions received one event, at most, by its type.
func (h *hints) learnReceivers(t *sim.Trial) {
	heard := map[[3]string]int{}
	for _, end := range t.Ends {
		for _, e := range end.History {
			if e.Type != event.EventReceived || end.Child() {
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
					"If it is for only one, let the listen task say so: correlate: {order: {from: .order, expect: '${ $workflow.input.order }'}}", types[0], h.receivers[types[0]])})
				break
			}
		}
	}
	return out
}

// earlyHints report events that came before the task that waits for them began to listen.
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

// endlessHints report calls and listen tasks without a timeout.
func (h *hints) endlessHints() []Hint {
	var calls, listens []string
	for _, def := range h.Config.Definitions() {
		for ref, t := range def.Tasks() {
			if t.Kind != dsl.Call && (t.Kind != dsl.Listen || def.Competes(ref)) || def.Timed(ref) {
				continue
			}
			at := fmt.Sprintf("%s (line %d)", t.Name, t.Pos.Line)
			if def != h.Config.Definition {
				at = fmt.Sprintf("%s (%s, line %d)", t.Name, def.ID(), t.Pos.Line)
			}
			switch {
			case slices.Contains(calls, at) || slices.Contains(listens, at): // a YAML alias of a reported task
			case t.Kind == dsl.Call:
				calls = append(calls, at)
			case !h.report.reports(Hang, t.Ref):
				listens = append(listens, at)
			}
		}
	}
	var out []Hint
	if len(listens) > 0 {
		out = append(out, Hint{"listen", nil, fmt.Sprintf(
			"no timeout ends %s: %s. If the event never comes, or came earlier, the execution waits forever; "+
				"add timeout: {after: P7D}, or however long you would wait, and handle the timeout in a catch",
			these(len(listens), "listen"), strings.Join(listens, ", "))})
	}
	if len(calls) > 0 {
		out = append(out, Hint{"call", nil, fmt.Sprintf(
			"no timeout ends %s: %s. By default a call times out after %s; add timeout: {after: PT10S}, or however long the service may take, to the task or to an enclosing one",
			these(len(calls), "call"), strings.Join(calls, ", "), history.Duration(httpcall.DefaultLimits().Timeout))})
	}
	return out
}

func these(n int, noun string) string {
	if n == 1 {
		return "this " + noun
	}
	return "these " + history.Plural(n, noun)
}
