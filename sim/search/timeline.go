package search

import (
	"cmp"
	"context"
	"slices"
	"time"

	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/sim"
)

// TimelineEntry is something that happened in a run: an event of a history, a fault, or a call
// that reached its service.
type TimelineEntry struct {
	Event   *event.Event
	Struck  *sim.Struck
	Reached *sim.Reached
}

// roundAmounts returns the durations that shrinking tries, the shortest first.
func roundAmounts() []time.Duration {
	return []time.Duration{time.Millisecond, time.Second, 10 * time.Second, 45 * time.Second}
}

// explain shrinks a finding and describes what happened.
func (h *searchState) explain(ctx context.Context, f *Finding) error {
	s := &shrinking{searchState: h, signature: f.signature}
	plainRace := f.Class == Race && len(f.Seen.Faults) == 0
	if !plainRace {
		f.Small = s.smaller(ctx, f.Seen)
	}
	f.Tried = s.tries
	if s.err != nil {
		return s.err
	}
	t, seen, err := h.watch(ctx, f.Small)
	if err != nil {
		return err
	}
	got, in := h.failuresOf(t, f.Small), f.Execution
	if i := slices.IndexFunc(got, func(x failure) bool { return f.Small.signature(x) == f.signature }); i >= 0 {
		f.Violation, f.Task, f.Again = got[i].Violation, got[i].task, true
		in = cmp.Or(got[i].in, f.Execution)
	}
	f.Document = h.Config.Definition
	for _, end := range t.Ends {
		if end.ID == in {
			f.Document = h.definitionOf(end)
		}
	}
	f.Again = f.Again || plainRace
	f.Timeline = timelineOf(t, seen)
	if f.Companion == "" {
		h.compare(f, t)
	}
	return nil
}

// watch runs a scenario and records the ids of the events as they were committed.
func (h *searchState) watch(ctx context.Context, sc Scenario) (t *sim.Trial, seen []string, err error) {
	cfg := sc.Config(h.Config)
	cfg.Observe = func(events []event.Event) {
		for _, e := range events {
			seen = append(seen, e.Execution+" "+e.ID)
		}
	}
	if t, err = sim.Try(ctx, cfg); err == nil && sc.Companion != "" {
		sc.companion().Check(t)
	}
	return t, seen, err
}

// timelineOf merges the histories, the faults and the calls in one order.
func timelineOf(t *sim.Trial, seen []string) []TimelineEntry {
	var all []event.Event
	for _, end := range t.Ends {
		all = append(all, end.History...)
	}
	rank := map[string]int{}
	for i, key := range seen {
		rank[key] = i
	}
	slices.SortStableFunc(all, func(a, b event.Event) int {
		if c := a.Time.Compare(b.Time); c != 0 {
			return c
		}
		i, ok1 := rank[a.Execution+" "+a.ID]
		j, ok2 := rank[b.Execution+" "+b.ID]
		if !ok1 || !ok2 || a.Execution == b.Execution {
			return 0
		}
		return i - j
	})
	return mergeTimeline(all, insertionsOf(t), seen)
}

// insertion is a scene that is in no history.
type insertion struct {
	TimelineEntry
	at    time.Time
	event int // number of events before it
}

// insertionsOf returns the faults and the calls in their order.
func insertionsOf(t *sim.Trial) []insertion {
	var out []insertion
	calls := t.Reached
	upTo := func(faults int) {
		for len(calls) > 0 && calls[0].Faults <= faults {
			out = append(out, insertion{TimelineEntry{Reached: &calls[0]}, calls[0].At, calls[0].Event})
			calls = calls[1:]
		}
	}
	for i := range t.Struck {
		upTo(i)
		out = append(out, insertion{TimelineEntry{Struck: &t.Struck[i]}, t.Struck[i].At, t.Struck[i].Event})
	}
	upTo(len(t.Struck))
	return out
}

// mergeTimeline inserts each aside after the event that preceded it.
func mergeTimeline(all []event.Event, asides []insertion, seen []string) []TimelineEntry {
	var out []TimelineEntry
	known := map[string]bool{}
	behind := func() {
		for len(asides) > 0 && (asides[0].event == 0 || known[seen[min(asides[0].event, len(seen))-1]]) {
			out = append(out, asides[0].TimelineEntry)
			asides = asides[1:]
		}
	}
	for i := range all {
		// A commit whose reply was lost has no order except its time.
		if len(asides) > 0 && !all[i].Time.Before(asides[0].at) {
			behind()
		}
		out = append(out, TimelineEntry{Event: &all[i]})
		known[all[i].Execution+" "+all[i].ID] = true
	}
	behind()
	for _, a := range asides {
		out = append(out, a.TimelineEntry)
	}
	return out
}

// compare describes how the outcome differs from the usual one, and for a race the two
// orders.
func (h *searchState) compare(f *Finding, t *sim.Trial) {
	for _, end := range t.Ends {
		if f.Execution != "" && end.ID != f.Execution {
			continue
		}
		if f.Execution == "" && h.together() {
			h.compareRuns(f, t)
			return
		}
		all := h.classes(sibling(end.ID))
		if len(all) == 0 || h.suppressed.key(end) == all[0].keys.whole {
			continue
		}
		usual := all[0]
		f.Status = [2]string{usual.outcome.Status, string(end.Status)}
		f.Differ = unequal("", outcomeValue(usual.end), outcomeValue(end))
		f.Differ = slices.DeleteFunc(f.Differ, func(u Unequal) bool { return h.suppressed.values[sibling(end.ID)][u.Path] })
		f.Calls = h.suppressed.unlike(usual.calls, callsBelow(t, end.ID))
		if f.Class == Race || f.Rule == RuleFaster {
			f.Orders = h.orderOf(sibling(end.ID), usual, h.factsOf(t, end), f.Small, string(end.Status))
			f.Orders.Sides[1].Runs = f.Runs
		}
		return
	}
}

// compareRuns is compare for whole runs.
func (h *searchState) compareRuns(f *Finding, t *sim.Trial) {
	all := classes(h.whole)
	if len(all) == 0 || len(t.Ends) == 0 {
		return
	}
	here := sim.End{Status: t.Status, Output: t.Output, Error: t.Error, Kept: t.Shared}
	f.Status = [2]string{all[0].outcome.Status, string(t.Status)}
	f.Differ = unequal("", outcomeValue(all[0].end), outcomeValue(here))
	f.Calls = h.suppressed.unlike(all[0].calls, callsBelow(t, ""))
	f.Orders = h.orderOf(sibling(h.Config.ID), all[0], h.factsOf(t, t.Ends[0]), f.Small, string(t.Status))
	f.Orders.Sides[1].Runs = f.Runs
}
