package search

import (
	"bytes"
	"cmp"
	"slices"
	"strconv"
	"time"

	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/sim"
)

// begins reports whether an execution should exist: its parent may have ended in a usual way
// before starting it.
func (chk *checker) begins(t *sim.Trial, id string) bool {
	parent := sim.Parent(id)
	if parent == "" {
		return true
	}
	number, _ := strconv.Atoi(id[len(parent)+1:]) // the engine writes a number there
	return slices.ContainsFunc(t.Ends, func(end sim.End) bool {
		return canonicalID(end.ID) == parent && runsIn(end.History) >= number
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
func (chk *checker) causedByParent(t *sim.Trial, end sim.End, usual []*outcomeGroup, got *historyFacts) bool {
	if !end.Child() {
		return false
	}
	if !anyRun(usual, func(f *historyFacts) bool { return f.input == got.input }) {
		return true
	}
	parent := t.End(sim.Parent(end.ID))
	return (end.Status == decide.Cancelled || cancelled(usual)) && parent != nil && chk.outcomes.unusualOutcome(*parent)
}

// cancelled reports whether an execution is cancelled in all runs without faults.
func cancelled(usual []*outcomeGroup) bool {
	return !slices.ContainsFunc(usual, func(g *outcomeGroup) bool { return g.outcome.Status != string(decide.Cancelled) })
}

// endedBeforeCancel returns the failure of a child that ended by itself although it is
// cancelled in runs without faults.
func (chk *checker) endedBeforeCancel(t *sim.Trial, end sim.End, usual []*outcomeGroup, got *historyFacts) (failure, bool) {
	late, ok := uncancelled(t, end, usual, got)
	switch {
	case !ok:
		return failure{}, false
	case late <= longestDelay(t):
		return failed(Late, RuleCancel, end.ID, "", "it ended before its cancellation arrived, and the task that started it no longer waited for it"), true
	default:
		return failed(Engine, "a cancelled child ends when its cancellation arrives", end.ID, "",
			"it ended %v after it was to be cancelled, which the faults do not explain", late), true
	}
}

// uncancelled returns by how much such a child outlived the task that started it.
func uncancelled(t *sim.Trial, end sim.End, usual []*outcomeGroup, got *historyFacts) (late time.Duration, ok bool) {
	if len(t.Injected) == 0 || !end.Status.Ended() || end.Status == decide.Cancelled || !cancelled(usual) {
		return 0, false
	}
	parent := t.End(sim.Parent(end.ID))
	if parent == nil || len(end.History) == 0 {
		return 0, false
	}
	over, ok := factsOf(parent.History).ended[got.above]
	return end.History[len(end.History)-1].Time.Sub(over), ok
}

// ofChild returns the failure of an execution that ended differently because one of its
// children did.
func (chk *checker) ofChild(t *sim.Trial, end sim.End) (failure, bool) {
	for _, child := range t.Ends {
		if sim.Parent(child.ID) != end.ID || !chk.outcomes.unusualOutcome(child) {
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
