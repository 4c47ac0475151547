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

// timeoutsIn counts the timeouts of a run.
func timeoutsIn(ends []sim.End) (set, fired map[string]int) {
	set, fired = map[string]int{}, map[string]int{}
	for _, end := range ends {
		if end.Child() {
			continue
		}
		for _, e := range end.History {
			switch ref, ok := timeoutOf(e); {
			case ok && e.Type == event.TimerFired:
				fired[ref]++
			case ok:
				set[ref]++
			}
		}
	}
	return set, fired
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

func (h *hints) countTimeouts(v *verdict) {
	for ref, n := range v.set {
		c := h.timeouts[ref]
		if c == nil {
			c = &timeouts{}
			h.timeouts[ref] = c
		}
		c.set += n
		c.fired += v.fired[ref]
	}
}

// timeoutHint reports a timeout that fires only if processes are delayed, or never.
func (h *hints) timeoutHint(b bounds, t *dsl.Task) []Hint {
	limit, ok := invariant.LiteralDuration(t.Timeout)
	count := h.timeouts[t.Ref]
	if !ok || count != nil && count.fired > 0 {
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
	return []Hint{{"timeout", t, fmt.Sprintf("the timeout of %s %s (it %s)", iso(limit), why, h.setText(count))}}
}

// workflowTimeoutHint is timeoutHint for the workflow.
func (h *hints) workflowTimeoutHint(b bounds) []Hint {
	limit, ok := invariant.LiteralDuration(b.def.Timeout)
	longest, bounded := b.list(b.def.Do)
	count := h.timeouts[""]
	if !ok || !bounded || longest >= limit || count != nil && count.fired > 0 {
		return nil
	}
	return []Hint{{"timeout", nil, fmt.Sprintf("the timeout of the workflow, %s, fires only if flunq is delayed: its tasks take at most %s%s (it %s)",
		iso(limit), iso(longest), b.seen(b.def.Do), h.setText(count))}}
}

// setText says how many times a timeout was set.
func (h *hints) setText(count *timeouts) string {
	if count == nil {
		return "was never set in " + runsText(h.report.runs())
	}
	return "was set " + history.Count(count.set, "time") + " and never fired"
}

func iso(d time.Duration) string { return dsl.Duration{Clock: d}.String() }
