package search

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"flunq.io/flunq/engine/dsl"
	httpcall "flunq.io/flunq/engine/executor/http"
	"flunq.io/flunq/engine/history"
	"flunq.io/flunq/sim/invariant"
)

// bounds computes the maximum duration of tasks.
type bounds struct {
	def   *dsl.Definition
	turns map[string]int // highest observed number of iterations, by the tasks in loops
}

// task returns how long a task can take without its own timeout, and why.
func (b bounds) task(t *dsl.Task) (longest time.Duration, why string, ok bool) {
	switch t.Kind {
	case dsl.Set, dsl.Switch, dsl.Raise, dsl.Inject, dsl.Emit:
		return 0, "a " + string(t.Kind) + " task takes no time", true
	case dsl.Wait:
		d, ok := invariant.LiteralDuration(t.Wait)
		return d, "the wait ends after " + iso(d), ok
	case dsl.Call:
		return b.call(t)
	case dsl.Do:
		d, ok := b.list(t.Do)
		return d, b.inside(d) + b.seen(t.Do), ok
	case dsl.For:
		d, ok := b.list(t.Do)
		turns := b.turnsOf(t)
		return d * time.Duration(turns), b.inside(d*time.Duration(turns)) + b.seen(dsl.TaskList{t}), ok
	case dsl.Fork:
		for _, branch := range t.Fork.Branches {
			d, ok := b.limited(branch)
			if !ok {
				return 0, "", false
			}
			longest = max(longest, d)
		}
		return longest, b.inside(longest), true
	case dsl.Try:
		d, ok := b.list(t.Try.Try)
		more, ok2 := b.list(t.Try.Catch.Do)
		return d + more, b.inside(d + more), ok && ok2 && t.Try.Catch.Retry == nil
	default:
		return 0, "", false
	}
}

func (bounds) inside(d time.Duration) string {
	if d == 0 {
		return "the tasks inside take no time"
	}
	return "the tasks inside take at most " + iso(d)
}

// turnsOf returns the highest observed number of iterations of a loop. The possible maximum is
// unknown.
func (b bounds) turnsOf(t *dsl.Task) int {
	most := 0
	for _, one := range t.Do {
		most = max(most, b.turns[one.Ref])
	}
	return most
}

// seen returns a note for a bound that assumes the observed number of iterations; "" for other
// bounds.
func (b bounds) seen(tasks dsl.TaskList) string {
	for _, t := range tasks {
		if t.Kind == dsl.For {
			return fmt.Sprintf(", with at most %s of %s as observed", history.Count(b.turnsOf(t), "iteration"), t.Name)
		}
		for _, list := range t.Lists() {
			if text := b.seen(list); text != "" {
				return text
			}
		}
	}
	return ""
}

func (b bounds) call(t *dsl.Task) (time.Duration, string, bool) {
	if t.Call.Function != nil {
		d, ok := b.limited(t.Call.Function)
		return d, b.inside(d), ok
	}
	if t.Call.HTTP == nil {
		return 0, "", false
	}
	return httpcall.Timeout, "a call times out after " + iso(httpcall.Timeout) + " anyway", true
}

// limited returns how long a task can take, including its timeout.
func (b bounds) limited(t *dsl.Task) (time.Duration, bool) {
	d, _, ok := b.task(t)
	if limit, has := invariant.LiteralDuration(t.Timeout); has && (!ok || limit < d) {
		return limit, true
	}
	return d, ok
}

func (b bounds) list(tasks dsl.TaskList) (time.Duration, bool) {
	total := time.Duration(0)
	for i, t := range tasks {
		d, ok := b.limited(t)
		if !ok || back(tasks, i) {
			return 0, false
		}
		total += d
	}
	return total, true
}

// back reports whether a task can jump backwards, so earlier tasks run again.
func back(tasks dsl.TaskList, i int) bool {
	to := []string{tasks[i].Then}
	for _, c := range tasks[i].Switch {
		to = append(to, c.Then)
	}
	return slices.ContainsFunc(to, func(name string) bool {
		at := tasks.Find(name)
		return at >= 0 && at <= i
	})
}

// outer returns the shortest timeout around a task, including that of the workflow.
func (b bounds) outer(t *dsl.Task) (time.Duration, string, bool) {
	shortest, ok := invariant.LiteralDuration(b.def.Timeout)
	name := "the workflow"
	for ref, o := range b.def.Tasks() {
		if !strings.HasPrefix(t.Ref, ref+"/") {
			continue
		}
		if d, has := invariant.LiteralDuration(o.Timeout); has && (!ok || d < shortest) {
			shortest, name, ok = d, o.Name, true
		}
	}
	return shortest, name, ok
}
