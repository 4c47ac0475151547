package search

import (
	"bytes"
	"fmt"
	"time"

	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/history"
	"flunq.io/flunq/sim"
	"flunq.io/flunq/sim/invariant"
)

// timeouts counts how many times the timeouts of a task were set, and fired.
type timeouts struct{ set, fired int }

// timeoutsIn counts the timeouts of a run, by task.
func timeoutsIn(ends []sim.End) map[string]timeouts {
	out := map[string]timeouts{}
	for _, end := range ends {
		if end.Child() {
			continue
		}
		for _, e := range end.History {
			if ref, ok := timeoutOf(e); ok {
				n := out[ref]
				if e.Type == event.TimerFired {
					n.fired++
				} else {
					n.set++
				}
				out[ref] = n
			}
		}
	}
	return out
}

// timeoutOf returns the task whose own timeout an event is about.
func timeoutOf(e event.Event) (ref string, ok bool) {
	if e.Type != event.TimerScheduled && e.Type != event.TimerFired || !bytes.Contains(e.Data, []byte(event.TimeoutTimer)) {
		return "", false // most timers are of other kinds and need not be decoded
	}
	var t event.Timer
	if decide.DecodeData(e, &t) != nil || t.Kind != event.TimeoutTimer || t.Key != "" {
		return "", false
	}
	return event.ParseRun(t.TaskID).Ref, true
}

// timeoutHint reports a timeout that fires only if processes are delayed, or never.
func (h *hints) timeoutHint(b bounds, t *dsl.Task) []Hint {
	limit, ok := invariant.LiteralDuration(t.Timeout)
	if !ok || h.timeouts[t.Ref].fired > 0 {
		return nil
	}
	why := ""
	if longest, because, bounded := b.task(t); bounded && longest < limit {
		why = "fires only if flunq is delayed: " + because
	} else if outer, name, ok := b.outer(t); ok && outer <= limit {
		why = fmt.Sprintf("can never fire: the timeout of %s around it fires first, after %s", name, iso(outer))
	}
	if why == "" {
		return nil
	}
	return []Hint{{"timeout", t, fmt.Sprintf("the timeout of %s %s (it %s)", iso(limit), why, h.setText(t.Ref))}}
}

// workflowTimeoutHint is timeoutHint for the workflow.
func (h *hints) workflowTimeoutHint(b bounds) []Hint {
	limit, ok := invariant.LiteralDuration(b.def.Timeout)
	longest, bounded := b.list(b.def.Do)
	if !ok || !bounded || longest >= limit || h.timeouts[""].fired > 0 {
		return nil
	}
	return []Hint{{"timeout", nil, fmt.Sprintf("the timeout of the workflow, %s, fires only if flunq is delayed: its tasks take at most %s%s (it %s)",
		iso(limit), iso(longest), b.seen(b.def.Do), h.setText(""))}}
}

// setText describes how many times the timeout of a task was set.
func (h *hints) setText(ref string) string {
	if n := h.timeouts[ref].set; n > 0 {
		return "was set " + history.Count(n, "time") + " and never fired"
	}
	return "was never set in " + runsText(h.report.Runs())
}

func iso(d time.Duration) string { return dsl.Duration{Clock: d}.String() }
