package search

import (
	"slices"
	"strings"
	"time"

	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/sim/invariant"
)

// Orders are two runs of a workflow that races, side by side.
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

// mostSteps is how many steps are compared pairwise.
const mostSteps = 300

// swapped returns a pair of steps that came in one order in all usual runs, and in the
// opposite order in all others. Of several pairs it returns the earliest.
func swapped(usual, other []*facts) (first, second fact, ok bool) {
	if len(usual) == 0 || len(other) == 0 {
		return first, second, false
	}
	steps := usual[0].steps[:min(len(usual[0].steps), mostSteps)]
	for j, b := range steps {
		for _, a := range steps[:j] {
			if always(usual, a.key, b.key) && always(other, b.key, a.key) {
				return a, b, true
			}
		}
	}
	return first, second, false
}

// always reports whether one step comes before another in all runs.
func always(runs []*facts, first, second string) bool {
	for _, f := range runs {
		a, ok1 := f.place[first]
		b, ok2 := f.place[second]
		if !ok1 || !ok2 || a >= b {
			return false
		}
	}
	return true
}

// diverged returns the first step at which two runs diverge, for runs with different steps.
func diverged(usual, other *facts) (first, second fact, ok bool) {
	for i := range min(len(usual.steps), len(other.steps)) {
		if usual.steps[i].key != other.steps[i].key {
			return usual.steps[i], other.steps[i], true
		}
	}
	return first, second, false
}

// fork names what two steps race in: the fork around them, or else both tasks.
func (h *searchState) fork(id string, first, second fact) string {
	if sibling(id) == sibling(h.Config.ID) {
		if t := around(h.Config.Definition, first.task, second.task); t != nil {
			return t.Ref
		}
	}
	return event.ParseRun(first.task).Ref + " " + event.ParseRun(second.task).Ref
}

// since returns when a step of another run came in this one, from the start; -1 if it did
// not.
func (f *facts) since(step fact) time.Duration {
	if step.what == stepAnswered {
		f = f.calls
	}
	i, ok := f.place[step.key]
	if !ok {
		return -1
	}
	return f.steps[i].at.Sub(f.start)
}

// atOnce reports whether two steps come at the same moment, which is also the same in two
// runs: then only their order differs. The time of an event from outside is its own,
// whenever it is received.
func atOnce(usual, got *facts, first, second fact) bool {
	at := usual.since(first)
	return usual.since(second) == at && got.since(first) == at && got.since(second) == at
}

// text describes the step.
func (f fact) text() string {
	if f.task == "" {
		return f.what
	}
	return invariant.RunName(f.task) + " " + f.what
}

// pair names what races between two classes of runs.
func (h *searchState) pair(id string, usual, other *class) string {
	if a, b, ok := disagreement(usual.facts, other.facts); ok {
		return h.fork(id, a, b)
	}
	return ""
}

func disagreement(usual, other []*facts) (first, second fact, ok bool) {
	if first, second, ok = reordered(usual, other); ok || len(usual) == 0 || len(other) == 0 {
		return first, second, ok
	}
	return diverged(usual[0], other[0])
}

// reordered returns the pair of steps, or else of calls, that came in another order.
func reordered(usual, other []*facts) (first, second fact, ok bool) {
	if first, second, ok = swapped(usual, other); ok {
		return first, second, ok
	}
	return swapped(callsIn(usual), callsIn(other))
}

// orderOf shows the usual run of an execution beside one that ended differently.
func (h *searchState) orderOf(id string, usual *class, other *facts, sc Scenario, status string) *Orders {
	def := h.Config.Definition
	first, second, ok := disagreement(usual.facts, []*facts{other})
	o := &Orders{Sides: [2]Side{
		{Scenario: usual.scenarios[0], Runs: usual.outcome.Runs, Status: usual.outcome.Status},
		{Scenario: sc, Status: status},
	}}
	if id != sibling(h.Config.ID) {
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

func stepsOf(def *dsl.Definition, f *facts, marked map[string]bool) []Step {
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

// around returns the innermost fork that contains two tasks; nil if there is none.
func around(def *dsl.Definition, a, b string) *dsl.Task {
	x, y := event.ParseRun(a).Ref, event.ParseRun(b).Ref
	var found *dsl.Task
	for ref, t := range def.Tasks() {
		if t.Kind == dsl.Fork && strings.HasPrefix(x, ref+"/") && strings.HasPrefix(y, ref+"/") && (found == nil || len(ref) > len(found.Ref)) {
			found = t
		}
	}
	return found
}

// branchOf returns the branch of a fork that contains a task run; nil if none does.
func branchOf(fork *dsl.Task, task string) *dsl.Task {
	ref := event.ParseRun(task).Ref
	i := slices.IndexFunc(fork.Fork.Branches, func(t *dsl.Task) bool { return ref == t.Ref || strings.HasPrefix(ref, t.Ref+"/") })
	if i < 0 {
		return nil
	}
	return fork.Fork.Branches[i]
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
	if len(marked) < 2 { //nolint:mnd // a pair
		return nil, nil
	}
	return marked[0], marked[1]
}
