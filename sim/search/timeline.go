package search

import (
	"slices"
	"time"

	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/sim"
)

// TimelineEntry is something that happened in a run: an event of a history, a fault, or a call
// that reached its service.
type TimelineEntry struct {
	Event   *event.Event
	Fault   *sim.InjectedFault
	Reached *sim.Reached
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

// insertion is a timeline entry that is in no history.
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
	for i := range t.Injected {
		upTo(i)
		out = append(out, insertion{TimelineEntry{Fault: &t.Injected[i]}, t.Injected[i].At, t.Injected[i].Event})
	}
	upTo(len(t.Injected))
	return out
}

// mergeTimeline inserts each insertion after the event that preceded it.
func mergeTimeline(all []event.Event, insertions []insertion, seen []string) []TimelineEntry {
	var out []TimelineEntry
	known := map[string]bool{}
	insert := func() {
		for len(insertions) > 0 && (insertions[0].event == 0 || known[seen[min(insertions[0].event, len(seen))-1]]) {
			out = append(out, insertions[0].TimelineEntry)
			insertions = insertions[1:]
		}
	}
	for i := range all {
		// A commit whose reply was lost is ordered only by its time.
		if len(insertions) > 0 && !all[i].Time.Before(insertions[0].at) {
			insert()
		}
		out = append(out, TimelineEntry{Event: &all[i]})
		known[all[i].Execution+" "+all[i].ID] = true
	}
	insert()
	for _, a := range insertions {
		out = append(out, a.TimelineEntry)
	}
	return out
}
