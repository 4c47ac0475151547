package search

import (
	"cmp"
	"context"
	"slices"
	"time"

	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/sim"
)

// explain shrinks a finding and describes what happened.
func (s *searchState) explain(ctx context.Context, f *Finding) error {
	shrink := &shrinking{Search: s.Search, check: s.check, signature: f.signature}
	plainRace := f.Class == Race && len(f.Seen.Faults) == 0
	if !plainRace {
		f.Small = shrink.smaller(ctx, f.Seen)
	}
	f.Tried = shrink.tries
	if shrink.err != nil {
		return shrink.err
	}
	var seen []string // the ids of the events as they were committed
	t, err := s.try(ctx, f.Small, func(events []event.Event) {
		for _, e := range events {
			seen = append(seen, e.Execution+" "+e.ID)
		}
	})
	if err != nil {
		return err
	}
	got, in := s.check.failuresOf(t, f.Small), f.Execution
	if i := slices.IndexFunc(got, func(one failure) bool { return f.Small.signature(one) == f.signature }); i >= 0 {
		f.Violation, f.Task, f.Confirmed = got[i].Violation, got[i].task, true
		in = cmp.Or(got[i].in, f.Execution)
	}
	f.Document = s.Config.Definition
	if end := t.End(in); end != nil {
		f.Document = s.definitionOf(*end)
	}
	f.Confirmed = f.Confirmed || plainRace
	f.Timeline = timelineOf(t, seen)
	if f.Companion == "" {
		s.compare(f, t)
	}
	return nil
}

// compare describes how the outcome differs from the usual one.
func (s *searchState) compare(f *Finding, t *sim.Trial) {
	if f.Execution == "" && s.together() {
		if all := s.outcomes.groupsOf(wholeRun); len(all) > 0 && len(t.Ends) > 0 {
			s.describe(f, all[0], wholeEnd(t), callsBelow(t, wholeRun), s.outcomes.factsOf(t, t.Ends[0]))
		}
		return
	}
	for _, end := range t.Ends {
		if f.Execution != "" && end.ID != f.Execution {
			continue
		}
		if all := s.outcomes.groupsOf(end.ID); len(all) > 0 && s.outcomes.normalizer.key(end) != all[0].keys.whole {
			s.describe(f, all[0], end, callsBelow(t, end.ID), s.outcomes.factsOf(t, end))
			return
		}
	}
}

// describe describes how an end differs from the usual one, and for a race the two orders.
func (s *searchState) describe(f *Finding, usual *outcomeGroup, end sim.End, calls []sim.Call, facts *historyFacts) {
	ignored := s.outcomes.normalizer.values[canonicalID(end.ID)]
	f.Status = [2]string{string(usual.end.Status), string(end.Status)}
	f.Differ = slices.DeleteFunc(unequal("", outcomeValue(usual.end), outcomeValue(end)), func(u Unequal) bool { return ignored[u.Path] })
	f.Calls = s.outcomes.normalizer.differences(usual.calls, calls)
	if f.Class == Race || f.Rule == RuleFaster {
		f.Orders = s.orderOf(f, usual, end, facts)
	}
}

// Orders holds two runs of a workflow with a race, side by side.
type Orders struct {
	Sides [2]Side
	Fork  *dsl.Task // the fork whose branches race; nil if the race has another cause
}

// Side is one of the two runs.
type Side struct {
	Scenario Scenario
	Steps    []Step
}

// Step is something that happened in a run.
type Step struct {
	At     time.Duration // since the start
	Task   *dsl.Task     // nil: an event from outside
	Run    string
	Of     string // the execution, if several are shown together
	What   string
	Marked bool // one of the two steps whose order differs
}

// orderOf shows the usual run of an execution beside one that ended differently.
func (s *searchState) orderOf(f *Finding, usual *outcomeGroup, end sim.End, facts *historyFacts) *Orders {
	def := s.Config.Definition
	if canonicalID(end.ID) != canonicalID(s.Config.ID) {
		def = nil // a child: its tasks are in another document
	}
	marked := map[string]bool{}
	left, right := usual.facts[0], facts
	differ := disagreement(usual.facts, []*historyFacts{facts})
	if differ != nil {
		marked[differ.first.key], marked[differ.second.key] = true, true
		if differ.first.what == stepAnswered {
			left, right = left.calls, right.calls
		}
	}
	o := &Orders{Sides: [2]Side{
		{usual.scenarios[0], stepsOf(def, left, marked)},
		{f.Small, stepsOf(def, right, marked)},
	}}
	if differ != nil && def != nil {
		o.Fork = around(def, differ.first.task, differ.second.task)
	}
	return o
}

func stepsOf(def *dsl.Definition, f *historyFacts, marked map[string]bool) []Step {
	var out []Step
	for _, s := range f.steps {
		step := Step{At: s.at.Sub(f.start), Run: s.task, Of: s.of, What: s.what, Marked: marked[s.key]}
		if def != nil && s.task != "" {
			step.Task = def.Task(event.ParseRun(s.task).Ref)
		}
		out = append(out, step)
	}
	return out
}

// Branches returns the two racing branches of the fork; nil if they are unknown.
func (o *Orders) Branches() (first, second *dsl.Task) {
	if o.Fork == nil {
		return nil, nil
	}
	var marked []*dsl.Task
	for _, s := range o.Sides[0].Steps {
		if s.Marked {
			marked = append(marked, branchOf(o.Fork, s.Run))
		}
	}
	if len(marked) < 2 { // a pair
		return nil, nil
	}
	return marked[0], marked[1]
}
