package search

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/sim"
)

// begins reports whether an execution should exist: its parent may have ended in a usual way
// before starting it.
func (chk *checker) begins(t *sim.Trial, id string) bool {
	at := strings.LastIndexByte(id, '.')
	if at < 0 {
		return true
	}
	number, _ := strconv.Atoi(id[at+1:]) // the engine writes a number there
	return slices.ContainsFunc(t.Ends, func(end sim.End) bool {
		return canonicalID(end.ID) == id[:at] && runsIn(end.History) >= number
	})
}

// runsIn returns how many tasks of a history run a child workflow.
func runsIn(history []event.Event) (n int) {
	for _, e := range history {
		if e.Type == event.TaskRequested && bytes.Contains(e.Data, []byte(`"task_type":"run"`)) {
			n++
		}
	}
	return n
}

// causedByParent reports whether a child ended differently because of its parent, which gave
// it a different input or cancelled it.
func (chk *checker) causedByParent(t *sim.Trial, end sim.End, usual []*class, got *historyFacts) bool {
	at := strings.LastIndexByte(end.ID, '.')
	if at < 0 {
		return false
	}
	if !slices.ContainsFunc(usual, func(c *class) bool {
		return slices.ContainsFunc(c.facts, func(f *historyFacts) bool { return f.input == got.input })
	}) {
		return true
	}
	parent := slices.IndexFunc(t.Ends, func(e sim.End) bool { return e.ID == end.ID[:at] })
	return (end.Status == decide.Cancelled || cancelled(usual)) && parent >= 0 && chk.outcomes.unusualOutcome(t.Ends[parent])
}

// cancelled reports whether an execution is cancelled in all runs without faults.
func cancelled(usual []*class) bool {
	return !slices.ContainsFunc(usual, func(c *class) bool { return c.outcome.Status != string(decide.Cancelled) })
}

// endedBeforeCancel returns the failure of a child that ended by itself although it is
// cancelled in runs without faults.
func (chk *checker) endedBeforeCancel(t *sim.Trial, end sim.End, usual []*class, got *historyFacts) (failure, bool) {
	late, ok := uncancelled(t, end, usual, got)
	switch {
	case !ok:
		return failure{}, false
	case late <= longestDelay(t):
		return failure{Class: Late, Violation: sim.Violation{Rule: RuleCancel, Execution: end.ID, Detail: "it ended before its cancellation arrived, and the task that started it no longer waited for it"}}, true
	default:
		return failure{Class: Engine, Violation: sim.Violation{
			Rule: "a cancelled child ends when its cancellation arrives", Execution: end.ID,
			Detail: fmt.Sprintf("it ended %v after it was to be cancelled, which the faults do not explain", late),
		}}, true
	}
}

// uncancelled returns by how much such a child outlived the task that started it.
func uncancelled(t *sim.Trial, end sim.End, usual []*class, got *historyFacts) (late time.Duration, ok bool) {
	if len(t.Injected) == 0 || !end.Status.Ended() || end.Status == decide.Cancelled || !cancelled(usual) {
		return 0, false
	}
	parent := slices.IndexFunc(t.Ends, func(e sim.End) bool { return e.ID == end.ID[:max(0, strings.LastIndexByte(end.ID, '.'))] })
	if parent < 0 || len(end.History) == 0 {
		return 0, false
	}
	over, ok := factsOf(t.Ends[parent].History).ended[got.above]
	return end.History[len(end.History)-1].Time.Sub(over), ok
}

// ofChild returns the failure of an execution that ended differently because one of its
// children did.
func (chk *checker) ofChild(t *sim.Trial, end sim.End) (failure, bool) {
	for _, child := range t.Ends {
		rest, ok := strings.CutPrefix(child.ID, end.ID+".")
		if !ok || strings.Contains(rest, ".") || !chk.outcomes.unusualOutcome(child) {
			continue
		}
		if f, ok := chk.attribute(t, child); ok {
			if f.Class != Engine {
				f.Execution, f.in = end.ID, cmp.Or(f.in, child.ID)
				f.Detail = "in its child " + child.ID + ": " + f.Detail
			}
			return f, true
		}
	}
	return failure{}, false
}
