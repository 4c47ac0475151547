package sim

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/executor"
	"flunq.io/flunq/engine/expr"
)

// Hint is something that is wrong in no run, and worth a look.
type Hint struct {
	Kind string    // "timeout", "repeat" or "export"
	Task *dsl.Task // nil: the workflow
	Text string
}

// timeouts count how often the timeouts of a task were set, and came.
type timeouts struct{ set, fired int }

// timeoutsIn counts the timeouts of a run.
func timeoutsIn(ends []End) (set, fired map[string]int) {
	set, fired = map[string]int{}, map[string]int{}
	for _, end := range ends {
		if strings.Contains(end.ID, ".") {
			continue // a child's
		}
		for _, e := range end.History {
			switch ref, ok := timeoutOf(e); {
			case ok && e.Type == event.TimerFired:
				fired[ref]++
			case ok:
				set[ref]++
			}
		}
	}
	return set, fired
}

// timeoutOf is the task whose own timeout an event tells of.
func timeoutOf(e event.Event) (ref string, ok bool) {
	if e.Type != event.TimerScheduled && e.Type != event.TimerFired {
		return "", false
	}
	var t event.Timer
	if decide.DecodeData(e, &t) != nil || t.Kind != event.TimeoutTimer || t.Key != "" {
		return "", false
	}
	return event.ParseRun(t.TaskID).Ref, true
}

func (h *hunt) countTimeouts(v *verdict) {
	for ref, n := range v.set {
		c := h.timeouts[ref]
		if c == nil {
			c = &timeouts{}
			h.timeouts[ref] = c
		}
		c.set += n
		c.fired += v.fired[ref]
	}
}

// hints are all of them, in the order of the document.
func (h *hunt) hints() []Hint {
	var out []Hint
	b := bounds{def: h.Config.Definition}
	for _, t := range h.Config.Definition.Tasks() {
		out = append(out, h.timeoutHint(b, t)...)
		out = append(out, exportHint(t)...)
	}
	return append(out, h.repeatHint()...)
}

// repeatHint tells of calls that were made again though nobody asked for it twice.
func (h *hunt) repeatHint() []Hint {
	var calls []string
	var first *Repeat
	for _, key := range slices.SortedFunc(maps.Keys(h.repeated), Deed.compare) {
		r := h.repeated[key]
		first = cmp.Or(first, r)
		calls = append(calls, fmt.Sprintf("%s (%s %s, in %s)", h.taskName(r.Task), r.Method, r.URL, runsText(r.Runs)))
	}
	if first == nil {
		return nil
	}
	return []Hint{{"repeat", nil, fmt.Sprintf(
		"calls reached the world more than once when an executor died, or was not heard of, after them: %s. "+
			"Each time they carry the same Idempotency-Key header; a service that does not look at it does the deed twice. "+
			"--once '%s %s' makes that a failure", strings.Join(calls, ", "), first.Method, first.URL)}}
}

func (h *hunt) taskName(ref string) string {
	for _, def := range append([]*dsl.Definition{h.Config.Definition}, h.Config.With...) {
		if t := def.Task(ref); t != nil {
			return t.Name
		}
	}
	return ref
}

func runsText(n int) string {
	if n == 1 {
		return "1 run"
	}
	return fmt.Sprintf("%d runs", n)
}

// timeoutHint tells of a timeout that can never come.
func (h *hunt) timeoutHint(b bounds, t *dsl.Task) []Hint {
	limit, ok := literal(t.Timeout)
	count := h.timeouts[t.Ref]
	if !ok || count != nil && count.fired > 0 {
		return nil
	}
	why := ""
	if longest, because, bounded := b.task(t); bounded && longest < limit {
		why = because
	} else if outer, name, ok := b.outer(t); ok && outer <= limit {
		why = fmt.Sprintf("the timeout of %s around it comes first, after %s", name, iso(outer))
	}
	if why == "" {
		return nil
	}
	runs := "was never set in " + runsText(h.report.Plain+h.report.Singles+h.report.Seeds)
	if count != nil {
		runs = fmt.Sprintf("was set %d times and never came", count.set)
	}
	return []Hint{{"timeout", t, fmt.Sprintf("the timeout of %s can never come: %s (it %s)", iso(limit), why, runs)}}
}

func iso(d time.Duration) string { return dsl.Duration{Clock: d}.String() }

// literal is a duration that the document states; false if it is computed.
func literal(v *expr.Value) (time.Duration, bool) {
	if v == nil {
		return 0, false
	}
	data, ok := v.Constant()
	if !ok {
		return 0, false
	}
	d, err := dsl.ParseDuration(data)
	if err != nil {
		return 0, false
	}
	return d.From(Epoch()).Sub(Epoch()), true
}

// bounds says how long tasks can take at most.
type bounds struct{ def *dsl.Definition }

// task is how long a task can take, its own timeout aside, and why.
func (b bounds) task(t *dsl.Task) (longest time.Duration, why string, ok bool) {
	switch t.Kind {
	case dsl.Set, dsl.Switch, dsl.Raise, dsl.Inject, dsl.Emit:
		return 0, "a " + string(t.Kind) + " task takes no time", true
	case dsl.Wait:
		d, ok := literal(t.Wait)
		return d, "the wait is over after " + iso(d), ok
	case dsl.Call:
		return b.call(t)
	case dsl.Do:
		d, ok := b.list(t.Do)
		return d, b.inside(d), ok
	case dsl.For:
		d, ok := b.list(t.Do)
		return d, b.inside(d), ok && d == 0 // how often, nobody knows
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
		return "what is inside takes no time"
	}
	return "what is inside takes " + iso(d) + " at most"
}

func (b bounds) call(t *dsl.Task) (time.Duration, string, bool) {
	if t.Call.Function != nil {
		d, ok := b.limited(t.Call.Function)
		return d, b.inside(d), ok
	}
	if t.Call.HTTP == nil {
		return 0, "", false
	}
	limit := executor.DefaultLimits().Timeout
	return limit, "a call is given up after " + iso(limit) + " anyway", true
}

// limited is how long a task can take, its timeout taken into account.
func (b bounds) limited(t *dsl.Task) (time.Duration, bool) {
	d, _, ok := b.task(t)
	if limit, has := literal(t.Timeout); has && (!ok || limit < d) {
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

// back reports whether a task can jump back, so that what is before runs again.
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

// outer is the shortest timeout of the tasks around a task, and of the workflow.
func (b bounds) outer(t *dsl.Task) (time.Duration, string, bool) {
	shortest, ok := literal(b.def.Timeout)
	name := "the workflow"
	for ref, o := range b.def.Tasks() {
		if !strings.HasPrefix(t.Ref, ref+"/") {
			continue
		}
		if d, has := literal(o.Timeout); has && (!ok || d < shortest) {
			shortest, name, ok = d, o.Name, true
		}
	}
	return shortest, name, ok
}

// exportHint tells of branches that export the same member of $context.
func exportHint(t *dsl.Task) []Hint {
	if t.Kind != dsl.Fork || t.Fork.Compete {
		return nil
	}
	by := map[string][]string{}
	for _, branch := range t.Fork.Branches {
		names := map[string]bool{}
		exports(branch, names)
		for name := range names {
			by[name] = append(by[name], branch.Name)
		}
	}
	var out []Hint
	for _, name := range slices.Sorted(maps.Keys(by)) {
		if branches := by[name]; len(branches) > 1 {
			out = append(out, Hint{"export", t, fmt.Sprintf(
				"the branches %s export $context.%s, each on a copy of its own: that of %s stays, the last in the document, whichever ends last",
				strings.Join(branches, " and "), name, branches[len(branches)-1])})
		}
	}
	return out
}

// exports gathers the members of $context that a task and those inside write.
func exports(t *dsl.Task, names map[string]bool) {
	if t.Export.As != nil {
		members(t.Export.As, names)
	}
	for _, list := range inner(t) {
		for _, one := range list {
			exports(one, names)
		}
	}
}

// members are those that an object has, or that an expression makes.
func members(v *expr.Value, names map[string]bool) {
	for _, f := range v.Fields() {
		names[f.Key] = true
	}
	if p := v.Program(); p != nil {
		for _, m := range written().FindAllStringSubmatch(p.Source(), -1) {
			names[m[1]+m[2]] = true
		}
	}
	if data, ok := v.Constant(); ok {
		object, _ := data.(map[string]any)
		for name := range object {
			names[name] = true
		}
	}
}

// written are the members that an expression makes: {name: …} and .name = ….
func written() *regexp.Regexp {
	return regexp.MustCompile(`[{,]\s*"?(\w+)"?\s*:|\.(\w+)\s*(?:\+|-|\*|/|//)?=[^=]`)
}

// inner are the lists of tasks inside a task.
func inner(t *dsl.Task) []dsl.TaskList {
	out := []dsl.TaskList{t.Do}
	if t.Fork != nil {
		out = append(out, t.Fork.Branches)
	}
	if t.Try != nil {
		out = append(out, t.Try.Try, t.Try.Catch.Do)
	}
	if t.Listen != nil && t.Listen.Foreach != nil {
		out = append(out, t.Listen.Foreach.Do)
	}
	return out
}
