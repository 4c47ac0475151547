package search

import (
	"cmp"
	"context"
	"slices"

	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/sim"
)

// explainer shrinks a finding and describes its run beside the usual one.
type explainer struct {
	*Search

	check    *checker
	outcomes *outcomes
}

// finding shrinks a finding and describes what happened.
func (ex *explainer) finding(ctx context.Context, f *Finding) error {
	s := &shrinking{Search: ex.Search, check: ex.check, signature: f.signature}
	plainRace := f.Class == Race && len(f.Seen.Faults) == 0
	if !plainRace {
		f.Small = s.smaller(ctx, f.Seen)
	}
	f.Tried = s.tries
	if s.err != nil {
		return s.err
	}
	var seen []string // the ids of the events as they were committed
	t, err := ex.try(ctx, f.Small, func(events []event.Event) {
		for _, e := range events {
			seen = append(seen, e.Execution+" "+e.ID)
		}
	})
	if err != nil {
		return err
	}
	got, in := ex.check.failuresOf(t, f.Small), f.Execution
	if i := slices.IndexFunc(got, func(one failure) bool { return f.Small.signature(one) == f.signature }); i >= 0 {
		f.Violation, f.Task, f.Confirmed = got[i].Violation, got[i].task, true
		in = cmp.Or(got[i].in, f.Execution)
	}
	f.Document = ex.Config.Definition
	if end := t.End(in); end != nil {
		f.Document = ex.definitionOf(*end)
	}
	f.Confirmed = f.Confirmed || plainRace
	f.Timeline = timelineOf(t, seen)
	if f.Companion == "" {
		ex.compare(f, t)
	}
	return nil
}

// compare describes how the outcome differs from the usual one, and for a race the two
// orders.
func (ex *explainer) compare(f *Finding, t *sim.Trial) {
	for _, end := range t.Ends {
		if f.Execution != "" && end.ID != f.Execution {
			continue
		}
		if f.Execution == "" && ex.together() {
			ex.compareRuns(f, t)
			return
		}
		all := ex.outcomes.groupsOf(canonicalID(end.ID))
		if len(all) == 0 || ex.outcomes.normalizer.key(end) == all[0].keys.whole {
			continue
		}
		usual := all[0]
		f.Status = [2]string{usual.outcome.Status, string(end.Status)}
		f.Differ = unequal("", outcomeValue(usual.end), outcomeValue(end))
		f.Differ = slices.DeleteFunc(f.Differ, func(u Unequal) bool { return ex.outcomes.normalizer.values[canonicalID(end.ID)][u.Path] })
		f.Calls = ex.outcomes.normalizer.differences(usual.calls, callsBelow(t, end.ID))
		if f.Class == Race || f.Rule == RuleFaster {
			f.Orders = ex.orderOf(canonicalID(end.ID), usual, ex.outcomes.factsOf(t, end), f.Small, string(end.Status))
			f.Orders.Sides[1].Runs = f.Runs
		}
		return
	}
}

// compareRuns is like compare, for whole runs.
func (ex *explainer) compareRuns(f *Finding, t *sim.Trial) {
	all := sortedGroups(ex.outcomes.whole)
	if len(all) == 0 || len(t.Ends) == 0 {
		return
	}
	here := sim.End{Status: t.Status, Output: t.Output, Error: t.Error, Kept: t.Shared}
	f.Status = [2]string{all[0].outcome.Status, string(t.Status)}
	f.Differ = unequal("", outcomeValue(all[0].end), outcomeValue(here))
	f.Calls = ex.outcomes.normalizer.differences(all[0].calls, callsBelow(t, ""))
	f.Orders = ex.orderOf(canonicalID(ex.Config.ID), all[0], ex.outcomes.factsOf(t, t.Ends[0]), f.Small, string(t.Status))
	f.Orders.Sides[1].Runs = f.Runs
}
