package search

import (
	"slices"
	"time"

	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/sim"
)

// Orders holds two runs of a workflow with a race, side by side.
type Orders struct {
	Sides [2]Side
	Fork  *dsl.Task // the fork whose branches race; nil if the race has another cause
}

// Side is one of the two runs.
type Side struct {
	Scenario Scenario
	Runs     int
	Status   string
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
func (ex *explainer) orderOf(id string, usual *outcomeGroup, other *historyFacts, sc Scenario, status string) *Orders {
	def := ex.Config.Definition
	first, second, ok := disagreement(usual.facts, []*historyFacts{other})
	o := &Orders{Sides: [2]Side{
		{Scenario: usual.scenarios[0], Runs: usual.outcome.Runs, Status: usual.outcome.Status},
		{Scenario: sc, Status: status},
	}}
	if id != canonicalID(ex.Config.ID) {
		def = nil // a child: its tasks are in another document
	}
	marked := map[string]bool{first.key: ok, second.key: ok}
	left, right := usual.facts[0], other
	if first.what == stepAnswered {
		left, right = left.calls, right.calls
	}
	o.Sides[0].Steps = stepsOf(def, left, marked)
	o.Sides[1].Steps = stepsOf(def, right, marked)
	if ok && def != nil {
		o.Fork = around(def, first.task, second.task)
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
