package search

import (
	"slices"

	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/history"
	"flunq.io/flunq/sim"
)

// Hint is a possible problem that caused no failure in any run.
type Hint struct {
	Kind string    // "timeout", "catch", "retry", "repeat", "undo", "key", "advice", "together", "correlate", "early" or "input"
	Task *dsl.Task // nil: the workflow
	Text string
}

// hints collects the observations of all runs and writes the hints of the report.
type hints struct {
	*Search

	report   *Report     // the findings, which hints do not repeat
	handling []*dsl.Task // see handling

	timeouts     map[string]timeouts             // by task
	repeated     map[string]*seen[sim.CallID]    // calls that flunq repeated, by task and method
	retried      map[string]*retried             // calls that the workflow repeated, by task
	rekeyed      map[string]*seen[sim.KeyMisuse] // calls with wrong idempotency keys, by task
	undo         map[string]*seen[wrongUndo]     // tries that do not undo their calls, or in the wrong order
	left         map[string]*seen[notUndone]     // calls that faulted executions did not undo, by task
	receivers    map[string]int                  // highest number of executions that received one event, by its type
	turns        map[string]int                  // highest number of iterations of loops, by the tasks inside
	missedEvents []sim.Missed                    // events that arrived too early in the first run
}

func newHints(s *Search, report *Report) *hints {
	return &hints{
		Search: s, report: report, handling: handling(s.Config.Definition), timeouts: map[string]timeouts{}, repeated: map[string]*seen[sim.CallID]{},
		retried: map[string]*retried{}, rekeyed: map[string]*seen[sim.KeyMisuse]{}, undo: map[string]*seen[wrongUndo]{},
		left: map[string]*seen[notUndone]{}, receivers: map[string]int{}, turns: map[string]int{},
	}
}

// observations holds the observations of one run, see hints.
type observations struct {
	timeouts map[string]timeouts
	repeated map[string]sim.CallID
	retried  []retried
	rekeyed  map[string]sim.KeyMisuse
	undo     map[string]wrongUndo
	left     map[string]notUndone
	turns    map[string]int
}

// observe returns what a run shows. It may be called concurrently.
func (h *hints) observe(t *sim.Trial) observations {
	return observations{timeoutsIn(t.Ends), repeatedIn(t), retriesIn(t), rekeyedIn(t), wrongUndosIn(t, h.handling), leftIn(t), turnsIn(t.Ends)}
}

// add counts what a run shows.
func (h *hints) add(o observations, faultFree bool) {
	for ref, n := range o.timeouts {
		h.timeouts[ref] = timeouts{h.timeouts[ref].set + n.set, h.timeouts[ref].fired + n.fired}
	}
	for ref, n := range o.turns {
		h.turns[ref] = max(h.turns[ref], n)
	}
	h.countRetries(o.retried, faultFree)
	count(h.repeated, o.repeated)
	count(h.rekeyed, o.rekeyed)
	count(h.undo, o.undo)
	count(h.left, o.left)
}

// seen holds the first of several similar observations and the number of runs that made one.
type seen[T any] struct {
	what T
	runs int
}

// count adds what one run shows, by its key.
func count[T any](all map[string]*seen[T], shown map[string]T) {
	for key, what := range shown {
		if all[key] == nil {
			all[key] = &seen[T]{what: what}
		}
		all[key].runs++
	}
}

// list returns all hints in document order. Unless there were many runs, it omits hints that
// something never happened.
func (h *hints) list(many bool) []Hint {
	b := bounds{h.Config.Definition, h.turns}
	out := h.inputHint()
	if !many {
		for _, t := range h.Config.Definition.Tasks() {
			out = append(out, h.advice(t)...)
		}
		return out
	}
	out = append(out, h.workflowTimeoutHint(b)...)
	for _, t := range h.Config.Definition.Tasks() {
		out = append(out, h.timeoutHint(b, t)...)
		out = append(out, h.catchHint(t)...)
		out = append(out, h.advice(t)...)
	}
	return slices.Concat(out, h.undoHint(), h.leftHint(), h.keyHint(), h.retryHint(), h.repeatHint(), h.togetherHint(), h.receiversHint(), h.earlyHints())
}

// inputHint reports an input that the workflow's schema refuses, so that there was nothing to search.
func (h *hints) inputHint() []Hint {
	for _, o := range h.report.Outcomes {
		if o.Error != nil && event.ShortType(o.Error.Type) == event.Validation && o.Error.Instance == "/input" {
			return []Hint{{Kind: "input", Text: "no run started a task, because the workflow refuses its input (--input)"}}
		}
	}
	return nil
}

func runsText(n int) string {
	return history.Count(n, "run")
}
