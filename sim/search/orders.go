package search

import (
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
		{usual.scenarios[0], string(usual.end.Status), stepsOf(def, left, marked)},
		{f.Small, string(end.Status), stepsOf(def, right, marked)},
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
