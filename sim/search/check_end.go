package search

import (
	"slices"
	"strings"
	"time"

	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/sim"
)

// unusualEnd returns what is wrong with the end of an execution in a run with operator
// actions.
func (chk *checker) unusualEnd(t *sim.Trial, end sim.End, sc Scenario) (failure, bool) {
	fail := func(rule, format string, args ...any) (failure, bool) {
		return failed(Engine, rule, end.ID, "", format, args...), true
	}
	groups := chk.outcomes.groupsOf(canonicalID(end.ID))
	at, cancelled := cancelledAt(sc, end)
	switch {
	case end.Status == "" || end.Status == sim.Removed || len(groups) == 0 || len(end.History) == 0:
		return failure{}, false
	case end.Status == decide.Cancelled && cancelled:
		return failure{}, false
	case !end.Status.Ended() && !chk.waits(t, end, groups):
		return fail(ruleEnds, "it is %s, and nothing more will happen", end.Status)
	case cancelled && (!end.Status.Ended() || at.Add(longestDelay(t)+time.Second).Before(end.History[len(end.History)-1].Time)):
		return fail("a cancelled execution ends", "it was cancelled %v after its start, but is %s", at.Sub(end.History[0].Time), end.Status)
	case chk.altered(t, end, sc):
		return failure{}, false
	}
	if !chk.outcomes.unusualResult(end) {
		return failure{}, false
	}
	f, ok := chk.attribute(t, end)
	return f, ok && f.Class == Engine
}

// cancelledAt returns when an operator cancelled an execution.
func cancelledAt(sc Scenario, end sim.End) (at time.Time, ok bool) {
	if len(end.History) == 0 {
		return at, false
	}
	for _, a := range sc.Acts {
		if a.What == sim.Cancel && a.Execution == end.ID {
			return end.History[0].Time.Add(a.After), true
		}
	}
	return at, false
}

// waits reports whether an execution may wait forever: it does so without faults, it received
// other events, it has an open listen task, or one of its children may.
func (chk *checker) waits(t *sim.Trial, end sim.End, usual []*outcomeGroup) bool {
	if len(usual) > 0 && otherEvents(usual, chk.outcomes.factsOf(&sim.Trial{}, end)) || chk.openListen(end) != nil ||
		slices.ContainsFunc(usual, func(g *outcomeGroup) bool { return !decide.Status(g.outcome.Status).Ended() }) {
		return true
	}
	return slices.ContainsFunc(t.Ends, func(child sim.End) bool {
		return sim.Parent(child.ID) == end.ID && !child.Status.Ended() && len(child.History) > 0 && chk.waits(t, child, chk.outcomes.groupsOf(canonicalID(child.ID)))
	})
}

// altered reports whether an execution may end differently because of operator actions or
// poison messages that concern it or its children.
func (chk *checker) altered(t *sim.Trial, end sim.End, sc Scenario) bool {
	touched := func(id string) bool { return id == end.ID || strings.HasPrefix(id, end.ID+".") }
	if chk.together() {
		return true // the executions see each other's effects
	}
	o := &t.Operated
	if o.AlsoDeadLettered || o.Poisoned == "" && sc.Poison > 0 || touched(o.Poisoned) || o.Retried[end.ID] > 0 {
		return true
	}
	return slices.ContainsFunc(sc.Acts, func(a sim.Act) bool {
		return touched(a.Execution) && (a.Execution != end.ID || a.What != sim.Suspend && a.What != sim.Resume && a.What != sim.Migrate)
	})
}
