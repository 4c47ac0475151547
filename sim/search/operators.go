package search

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/sim"
)

// baseline describes a run without faults, for the operators in other runs.
type baseline struct {
	lasts      time.Duration
	executions []string // ids of its executions
	begun      uint64   // number of messages
}

func baselineOf(t *sim.Trial) baseline {
	s := baseline{lasts: t.Lasted(), begun: t.Operated.Begun}
	for _, end := range t.Ends {
		s.executions = append(s.executions, end.ID)
	}
	return s
}

// operated adds to some scenarios with faults: operator actions, a poison message, or
// slow calls. Half of these scenarios have no random faults.
func (h *searchState) operated(sc Scenario) Scenario {
	const once = 8
	if len(h.Kinds) == 0 || len(h.baseline.executions) == 0 || sim.Choice(sc.Seed, "operated")%once != 1 {
		return sc
	}
	n := sim.Choice(sc.Seed, "deals")
	if n%2 == 0 { //nolint:mnd // one half
		sc.chance = nil
	}
	n >>= 8
	switch way := n % 3; { //nolint:mnd // thirds
	case way == 0 && h.baseline.begun > 0:
		sc.Poison, sc.Waits, sc.chance = 1+(n>>8)%h.baseline.begun, 0, h.besidePoison(n>>40) //nolint:mnd // other bits
		return sc
	case way == 1 && len(h.calls) > 0:
		sc.Slow = true
		sc.chance = slices.DeleteFunc(slices.Clone(sc.chance), func(k sim.FaultKind) bool { return k != sim.DropRequest && k != sim.DropReply })
		return sc
	}
	if sc.chance != nil { // a repeated request counts as a new one if another came in between
		sc.chance = slices.DeleteFunc(slices.Clone(sc.chance), func(k sim.FaultKind) bool { return k == sim.Duplicate })
	}
	sc.Acts = h.acts(sc.Seed)
	return sc
}

// besidePoison returns the kinds of faults beside a poison message: none in half of the runs, since a
// process that dies of one thing while it has another counts as a crash of both.
func (h *searchState) besidePoison(n uint64) []sim.FaultKind {
	kinds := []sim.FaultKind{sim.DropRequest, sim.DropReply, sim.Delay}
	switch n % 4 { //nolint:mnd // one of four ways
	case 0:
		kinds = kinds[:2]
	case 1:
	default:
		return nil
	}
	return slices.DeleteFunc(kinds, func(k sim.FaultKind) bool { return !slices.Contains(h.Kinds, k) })
}

// acts returns the operator actions of a seed: suspend and resume an execution, cancel
// it, or a mixture.
func (h *searchState) acts(seed uint64) []sim.Act {
	at := func(i uint64) time.Duration {
		n := sim.Draw(seed, "act", i)
		span := h.baseline.lasts + time.Second
		if n%4 == 0 { //nolint:mnd // some come at once
			span = time.Second
		}
		return time.Duration(n>>8) % span //nolint:gosec // n>>8 is less than 2^56
	}
	of := h.baseline.executions[sim.Choice(seed, "acted upon")%uint64(len(h.baseline.executions))]
	if sim.Choice(seed, "acted upon first")%2 == 0 {
		of = h.baseline.executions[0]
	}
	n := sim.Choice(seed, "act")
	if n>>60%2 == 0 { //nolint:mnd // one half is about timers and documents
		var acts []sim.Act
		deals := []sim.ActKind{sim.Move, sim.Move, sim.Fire, sim.CancelTimer, sim.Migrate, sim.Migrate, sim.Suspend, sim.Retry}
		for i := range 1 + n%4 { //nolint:mnd // one to four
			acts = append(acts, sim.Act{What: deals[(n>>(8*i+8))%uint64(len(deals))], Execution: of, After: at(2 + i)})
		}
		return acts
	}
	acts := []sim.Act{{What: sim.Suspend, Execution: of, After: at(0)}, {What: sim.Resume, Execution: of, After: at(0) + at(1)}}
	switch n % 4 { //nolint:mnd // one of four ways
	case 0:
		acts = []sim.Act{{What: sim.Cancel, Execution: of, After: at(0)}}
	case 1:
		deals := []sim.ActKind{sim.Suspend, sim.Resume, sim.Suspend, sim.Resume, sim.Cancel, sim.Retry}
		for i := range uint64(3) { //nolint:mnd // some more
			acts = append(acts, sim.Act{What: deals[(n>>(8*i+8))%uint64(len(deals))], Execution: of, After: at(2 + i)})
		}
	}
	return acts
}

// intervened reports whether anything happens that is neither in the document nor a fault.
func (sc Scenario) intervened() bool { return len(sc.Acts) > 0 || sc.Poison > 0 || sc.Slow }

// anomalies returns the failures that the ends of a run show.
func (h *searchState) anomalies(t *sim.Trial, sc Scenario) []failure {
	if !sc.intervened() {
		return h.differing(t)
	}
	// A suspension delays like a fault.
	suspended := *t
	suspended.Struck = slices.Clone(t.Struck)
	if long := t.Operated.Held; long > 0 {
		suspended.Struck = append(suspended.Struck, sim.Struck{Fault: sim.Fault{Kind: sim.Delay, Amount: long}})
	}
	var out []failure
	for _, end := range t.Ends {
		if strings.Contains(end.ID, ".") { // its parent's end is checked
			continue
		}
		if f, ok := h.unusualEnd(&suspended, end, sc); ok {
			out = append(out, f)
		}
	}
	return out
}

// unusualEnd returns what is wrong with the end of an execution in an attended run.
func (h *searchState) unusualEnd(t *sim.Trial, end sim.End, sc Scenario) (failure, bool) {
	fail := func(rule, format string, args ...any) (failure, bool) {
		return failure{Class: Engine, Violation: sim.Violation{Rule: rule, Execution: end.ID, Detail: fmt.Sprintf(format, args...)}}, true
	}
	classes := h.classes(sibling(end.ID))
	at, cancelled := cancelledAt(sc, end)
	switch {
	case end.Status == "" || end.Status == sim.Removed || len(classes) == 0 || len(end.History) == 0:
		return failure{}, false
	case end.Status == decide.Cancelled && cancelled:
		return failure{}, false
	case !end.Status.Ended() && !h.waits(t, end, classes):
		return fail(ruleEnds, "it is %s, and nothing happens any more", end.Status)
	case cancelled && (!end.Status.Ended() || at.Add(h.longestDelay(t)+time.Second).Before(end.History[len(end.History)-1].Time)):
		return fail("a cancelled execution ends", "it was cancelled %v after its start, and is %s", at.Sub(end.History[0].Time), end.Status)
	case h.altered(t, end, sc):
		return failure{}, false
	}
	if !h.unusualResult(end) {
		return failure{}, false
	}
	f, ok := h.attribute(t, end)
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

// waits reports whether an execution may wait for ever: it does so without faults, it
// received other events, it has an open listen task, or a child of it may.
func (h *searchState) waits(t *sim.Trial, end sim.End, usual []*class) bool {
	if len(usual) > 0 && otherEvents(usual, h.factsOf(&sim.Trial{}, end)) || h.openListen(end) != nil ||
		slices.ContainsFunc(usual, func(c *class) bool { return !decide.Status(c.outcome.Status).Ended() }) {
		return true
	}
	return slices.ContainsFunc(t.Ends, func(child sim.End) bool {
		rest, ok := strings.CutPrefix(child.ID, end.ID+".")
		return ok && !strings.Contains(rest, ".") && !child.Status.Ended() && len(child.History) > 0 && h.waits(t, child, h.classes(sibling(child.ID)))
	})
}

// altered reports whether an execution may end differently because of what was done to it
// or to its children.
func (h *searchState) altered(t *sim.Trial, end sim.End, sc Scenario) bool {
	touched := func(id string) bool { return id == end.ID || strings.HasPrefix(id, end.ID+".") }
	if h.together() {
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
