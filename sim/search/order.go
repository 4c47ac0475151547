package search

import (
	"slices"
	"strings"
	"time"

	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/sim/invariant"
)

// swap is a place where the orders of two runs differ: first is the step of the usual run.
type swap struct{ first, second stepFact }

// fork names what two steps race in: the fork around them, or else both tasks.
func (chk *checker) fork(id string, s *swap) string {
	if canonicalID(id) == canonicalID(chk.Config.ID) {
		if t := around(chk.Config.Definition, s.first.task, s.second.task); t != nil {
			return t.Ref
		}
	}
	return event.ParseRun(s.first.task).Ref + " " + event.ParseRun(s.second.task).Ref
}

// disagreement returns the pair of steps, or else of calls, that came in another order, or else the
// first step at which the first runs differ; nil if there is none.
func disagreement(usual, other []*historyFacts) *swap {
	if s := reordered(usual, other); s != nil || len(usual) == 0 || len(other) == 0 {
		return s
	}
	return diverged(usual[0], other[0])
}

// reordered returns the pair of steps, or else of calls, that came in another order.
func reordered(usual, other []*historyFacts) *swap {
	if s := swapped(usual, other); s != nil {
		return s
	}
	return swapped(callsIn(usual), callsIn(other))
}

// swapped returns a pair of steps that came in one order in all usual runs, and in the
// opposite order in all others. Of several pairs it returns the earliest.
func swapped(usual, other []*historyFacts) *swap {
	if len(usual) == 0 || len(other) == 0 {
		return nil
	}
	steps := usual[0].steps[:min(len(usual[0].steps), maxSteps)]
	for j, b := range steps {
		for _, a := range steps[:j] {
			if always(usual, a.key, b.key) && always(other, b.key, a.key) {
				return &swap{a, b}
			}
		}
	}
	return nil
}

// maxSteps is how many steps are compared pairwise.
const maxSteps = 300

// always reports whether one step comes before another in all runs.
func always(runs []*historyFacts, first, second string) bool {
	for _, f := range runs {
		a, ok1 := f.place[first]
		b, ok2 := f.place[second]
		if !ok1 || !ok2 || a >= b {
			return false
		}
	}
	return true
}

// diverged returns the first step at which two runs differ.
func diverged(usual, other *historyFacts) *swap {
	for i := range min(len(usual.steps), len(other.steps)) {
		if usual.steps[i].key != other.steps[i].key {
			return &swap{usual.steps[i], other.steps[i]}
		}
	}
	return nil
}

// stepAnswered describes a step that is a call.
const stepAnswered = "is answered"

// callsIn returns the calls of those runs whose calls are recorded.
func callsIn(runs []*historyFacts) (out []*historyFacts) {
	for _, f := range runs {
		if f.calls != nil {
			out = append(out, f.calls)
		}
	}
	return out
}

// sameOrder reports whether the same steps and calls came in the same order.
func (f *historyFacts) sameOrder(g *historyFacts) bool {
	same := func(a, b *historyFacts) bool {
		return slices.EqualFunc(a.steps, b.steps, func(x, y stepFact) bool { return x.key == y.key })
	}
	return same(f, g) && (f.calls == nil || g.calls == nil || same(f.calls, g.calls))
}

// since returns how long after the start of this run a step of another run came; -1 if it did
// not.
func (f *historyFacts) since(step stepFact) time.Duration {
	if step.what == stepAnswered {
		f = f.calls
	}
	i, ok := f.place[step.key]
	if !ok {
		return -1
	}
	return f.steps[i].at.Sub(f.start)
}

// atOnce reports whether two steps come at the same moment, and at the same one in both runs:
// then only their order differs. An event from outside has the time at which it was sent,
// whenever it is received.
func atOnce(usual, got *historyFacts, s *swap) bool {
	at := usual.since(s.first)
	return usual.since(s.second) == at && got.since(s.first) == at && got.since(s.second) == at
}

// text describes the step.
func (f stepFact) text() string {
	if f.task == "" {
		return f.what
	}
	return invariant.RunName(f.task) + " " + f.what
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
