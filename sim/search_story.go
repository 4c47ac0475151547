package sim

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"flunq.io/flunq/engine/event"
)

// Scene is something that happened in a run: an event of a history, or a fault.
type Scene struct {
	Event  *event.Event
	Struck *Struck
}

// At is when it happened.
func (m Scene) At() time.Time {
	if m.Struck != nil {
		return m.Struck.At
	}
	return m.Event.Time
}

// roundAmounts are those that a failure is tried with, the shortest first.
func roundAmounts() []time.Duration {
	return []time.Duration{time.Millisecond, time.Second, 10 * time.Second, 45 * time.Second}
}

// explain makes a finding smaller and tells its story.
func (h *hunt) explain(ctx context.Context, f *Finding) error {
	s := &shrinking{hunt: h, signature: f.signature}
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
	for _, got := range h.failuresOf(t, f.Small) {
		if got.signature() == f.signature {
			f.Violation, f.Again = got.Violation, true
		}
	}
	f.Again = f.Again || plainRace
	f.Story = tell(t, seen)
	h.compare(f, t)
	return nil
}

// watch runs a scenario and keeps the ids of the events as they were committed.
func (h *hunt) watch(ctx context.Context, sc Scenario) (t *Trial, seen []string, err error) {
	cfg := sc.Config(h.Config)
	cfg.Observe = func(events []event.Event) {
		for _, e := range events {
			seen = append(seen, e.Execution+" "+e.ID)
		}
	}
	t, err = Try(ctx, cfg)
	return t, seen, err
}

// tell puts the histories and the faults in one order.
func tell(t *Trial, seen []string) []Scene {
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
	return mingle(all, t.Struck, seen)
}

// mingle puts each fault behind the event that was the last before it.
func mingle(all []event.Event, struck []Struck, seen []string) []Scene {
	var out []Scene
	next := 0
	behind := func(known map[string]bool) {
		for next < len(struck) && (struck[next].Event == 0 || known[seen[min(struck[next].Event, len(seen))-1]]) {
			out = append(out, Scene{Struck: &struck[next]})
			next++
		}
	}
	known := map[string]bool{}
	for i := range all {
		// What was lost after it was done is in no order but that of time.
		if next < len(struck) && !all[i].Time.Before(struck[next].At) {
			behind(known)
		}
		out = append(out, Scene{Event: &all[i]})
		known[all[i].Execution+" "+all[i].ID] = true
	}
	behind(known)
	for ; next < len(struck); next++ {
		out = append(out, Scene{Struck: &struck[next]})
	}
	return out
}

// compare says how the outcome differs from the usual one, and in a race what
// came in which order.
func (h *hunt) compare(f *Finding, t *Trial) {
	for _, end := range t.Ends {
		if f.Execution != "" && end.ID != f.Execution {
			continue
		}
		all := h.classes(sibling(end.ID))
		if len(all) == 0 || h.hidden.key(end) == h.hidden.key(End{ID: end.ID, Status: end.Status, Output: all[0].outcome.Output, Error: all[0].outcome.Error}) {
			continue
		}
		usual := all[0]
		f.Status = [2]string{usual.outcome.Status, string(end.Status)}
		f.Differ = unequal("", outcomeValue(End{Output: usual.outcome.Output, Error: usual.outcome.Error}), outcomeValue(end))
		f.Differ = slices.DeleteFunc(f.Differ, func(u Unequal) bool { return h.hidden[sibling(end.ID)][u.Path] })
		if f.Class == Race || f.Rule == ruleFaster {
			f.Orders = h.orderOf(sibling(end.ID), usual, factsOf(end.History), f.Small, string(end.Status))
			f.Orders.Sides[1].Runs = f.Runs
		}
		return
	}
}

// faultLine is a fault in a recording.
type faultLine struct {
	Record  string    `json:"record"` // "fault"
	At      time.Time `json:"at"`
	Fault   Fault     `json:"fault"`
	Doing   string    `json:"doing,omitempty"`
	Process int       `json:"process"`
}

// recordFault writes a fault into the recording, if there is one.
func (w *world) recordFault(s Struck) {
	if w.cfg.record != nil {
		w.cfg.record.line(faultLine{"fault", s.At, s.Fault, s.Doing, s.Process})
	}
}

// decodedValue reads JSON; what is none is null.
func decodedValue(text []byte) any {
	var v any
	_ = json.Unmarshal(text, &v) // then it stays nil
	return v
}
