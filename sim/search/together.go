package search

import (
	"crypto/sha256"
	"slices"
	"strings"

	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/sim"
)

// together reports whether the executions of a run share what mocks keep. Then one run is
// compared with another as a whole: which of its executions comes to what may well differ.
func (h *hunt) together() bool { return h.Config.Executions > 1 && h.Config.Mocks.Shared() }

// runKey is the same for runs whose executions came to the same, whichever is which.
func (h *hunt) runKey(t *sim.Trial) string {
	var parts []string
	for _, end := range t.Ends {
		parts = append(parts, sibling(end.ID)+" "+h.hidden.key(end))
	}
	slices.Sort(parts)
	sum := sha256.Sum256(append([]byte(strings.Join(parts, "\n")), event.Encode(t.Shared)...))
	return string(sum[:])
}

// learnRun adds a run without faults to what is known.
func (h *hunt) learnRun(v *verdict) {
	t := v.trial
	key := h.runKey(t)
	c := h.whole[key]
	if c == nil {
		c = &class{keys: keys{whole: key}, end: sim.End{Status: t.Status, Output: t.Output, Error: t.Error, Kept: t.Shared}, calls: callsBelow(t, "")}
		for _, end := range t.Ends { // one that did not end is what counts
			if !end.Status.Ended() && c.ended() {
				c.end.Status, c.end.ID, c.history = end.Status, end.ID, end.History
			}
		}
		c.outcome = Outcome{Status: string(c.end.Status), Output: t.Output, Error: t.Error, Calls: c.calls, Kept: t.Shared, Stop: t.Stop}
		h.whole[key] = c
	}
	h.count(c, v, t.Ends[0])
}

// apart is the failure of a run whose executions ended each as one does without faults,
// and that came to something else all the same.
func (h *hunt) apart(t *sim.Trial) []failure {
	if len(h.whole) == 0 || len(t.Ends) == 0 {
		return nil
	}
	return []failure{{Class: Race, Violation: sim.Violation{Rule: RuleOrder, Detail: "what the executions share came to something else"}}}
}
