package search

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/event"
	httpcall "flunq.io/flunq/engine/executor/http"
	"flunq.io/flunq/engine/expr"
	"flunq.io/flunq/engine/history"
	"flunq.io/flunq/sim"
	"flunq.io/flunq/sim/invariant"
)

// Hint is something that is wrong in no run but worth a look.
type Hint struct {
	Kind string    // "timeout", "catch", "retry", "repeat", "export", "undo", "key", "advice", "together", "correlate", "listen", "call" or "early"
	Task *dsl.Task // nil: the workflow
	Text string
}

// timeouts counts how often the timeouts of a task were set, and fired.
type timeouts struct{ set, fired int }

// timeoutsIn counts the timeouts of a run.
func timeoutsIn(ends []sim.End) (set, fired map[string]int) {
	set, fired = map[string]int{}, map[string]int{}
	for _, end := range ends {
		if strings.Contains(end.ID, ".") {
			continue // a child
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

// timeoutOf returns the task whose own timeout an event is about.
func timeoutOf(e event.Event) (ref string, ok bool) {
	if e.Type != event.TimerScheduled && e.Type != event.TimerFired || !bytes.Contains(e.Data, []byte(event.TimeoutTimer)) {
		return "", false // most timers are of other kinds and need not be decoded
	}
	var t event.Timer
	if decide.DecodeData(e, &t) != nil || t.Kind != event.TimeoutTimer || t.Key != "" {
		return "", false
	}
	return event.ParseRun(t.TaskID).Ref, true
}

func (h *searchState) countTimeouts(v *verdict) {
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

// hints returns all hints in document order. Hints that rely on what no run showed need
// many runs.
func (h *searchState) hints(many bool) []Hint {
	b := bounds{h.Config.Definition, h.turns}
	var out []Hint
	if !many {
		for _, t := range h.Config.Definition.Tasks() {
			out = slices.Concat(out, exportHint(t), h.advice(t))
		}
		return append(out, h.endlessHints()...)
	}
	out = h.wholeHint(b)
	for _, t := range h.Config.Definition.Tasks() {
		out = append(out, h.timeoutHint(b, t)...)
		out = append(out, exportHint(t)...)
		out = append(out, h.catchHint(t)...)
		out = append(out, h.advice(t)...)
	}
	return slices.Concat(out, h.undoHint(), h.leftHint(), h.keyHint(), h.retryHint(), h.repeatHint(), h.togetherHint(), h.receiversHint(), h.earlyHints(), h.endlessHints())
}

// firstMissed finds events that come too early even without faults.
func (h *searchState) firstMissed(ctx context.Context) error {
	listens := false
	for _, t := range h.Config.Definition.Tasks() {
		listens = listens || t.Listen != nil
	}
	if !listens {
		return nil
	}
	cfg := h.scenario(h.First).Config(h.Config)
	cfg.Plan = nil // only a run without a plan explains missed events
	r, err := sim.Run(ctx, cfg)
	if err != nil {
		return err
	}
	h.missedEvents = r.Missed
	return nil
}

// earlyHints report events that came before the task that waits for them began to listen.
func (h *searchState) earlyHints() []Hint {
	var out []Hint
	for _, m := range h.missedEvents {
		if m.For == nil || h.reported(Hang, m.For.Ref) || h.reported(Late, m.For.Ref) {
			continue
		}
		out = append(out, Hint{"early", m.For, fmt.Sprintf(
			"%s, and %s waits in vain, though nothing goes wrong. An event that nobody listens for is lost: listen before what makes it come, "+
				"as in a branch of a fork, or listen for all that you wait for at once (to: {all: […]})", m, m.For.Name)})
	}
	return out
}

// endlessHints report calls and listen tasks without a timeout.
func (h *searchState) endlessHints() []Hint {
	var calls, listens []string
	for _, def := range append([]*dsl.Definition{h.Config.Definition}, h.Config.With...) {
		for _, t := range def.Tasks() {
			if t.Kind != dsl.Call && t.Kind != dsl.Listen || timed(def, t) {
				continue
			}
			at := fmt.Sprintf("%s (line %d)", t.Name, t.Pos.Line)
			if def != h.Config.Definition {
				at = fmt.Sprintf("%s (%s, line %d)", t.Name, def.ID(), t.Pos.Line)
			}
			switch {
			case slices.Contains(calls, at) || slices.Contains(listens, at): // an alias of the YAML
			case t.Kind == dsl.Call:
				calls = append(calls, at)
			case !h.reported(Hang, t.Ref):
				listens = append(listens, at)
			}
		}
	}
	var out []Hint
	if len(listens) > 0 {
		out = append(out, Hint{"listen", nil, fmt.Sprintf(
			"no timeout ends %s: %s. If the event does not come, or came before, the execution waits for ever; "+
				"add timeout: {after: P7D}, or as long as you would wait, and say in a catch what to do then",
			these(len(listens), "listen"), strings.Join(listens, ", "))})
	}
	if len(calls) > 0 {
		out = append(out, Hint{"call", nil, fmt.Sprintf(
			"no timeout ends %s: %s. By default a call is given up after %s; add timeout: {after: PT10S}, or as long as the service may take, to the task or to one around it",
			these(len(calls), "call"), strings.Join(calls, ", "), history.Duration(httpcall.DefaultLimits().Timeout))})
	}
	return out
}

func these(n int, noun string) string {
	if n == 1 {
		return "this " + noun
	}
	return "these " + history.Plural(n, noun)
}

// timed reports whether a task, an enclosing one, or the workflow has a timeout.
func timed(def *dsl.Definition, t *dsl.Task) bool {
	if def.Timeout != nil || t.Timeout != nil || t.Kind == dsl.Call && t.Call.Function != nil && t.Call.Function.Timeout != nil {
		return true
	}
	for ref, o := range def.Tasks() {
		if o.Timeout != nil && strings.HasPrefix(t.Ref, ref+"/") {
			return true
		}
	}
	return false
}

// reported reports whether a finding of a class is about a task.
func (h *searchState) reported(class Class, ref string) bool {
	return slices.ContainsFunc(h.report.Findings, func(f *Finding) bool { return f.Class == class && f.Tasks[ref] > 0 })
}

// repeatHint reports calls that flunq repeated after a fault, if no other hint or finding
// does.
func (h *searchState) repeatHint() []Hint {
	var calls []string
	var first *Repeat
	for _, key := range slices.SortedFunc(maps.Keys(h.repeated), compareActions) {
		r := h.repeated[key]
		if h.rekeyed[r.Task] != nil || h.retried[r.Task] != nil || h.reported(SideEffect, r.Task) || h.onceTells(r) {
			continue
		}
		first = cmp.Or(first, r)
		calls = append(calls, fmt.Sprintf("%s (%s %s, in %s)", h.taskName(r.Task), r.Method, r.URL, runsText(r.Runs)))
	}
	if first == nil {
		return nil
	}
	return []Hint{{"repeat", nil, fmt.Sprintf(
		"when a process died, stopped or was cut off after a call, the call was made again: %s. "+
			"Each time it has the same Idempotency-Key header, so check that the service looks at it; "+
			"if it does not, the work is done twice. --once '%s %s' makes that a failure", strings.Join(calls, ", "), first.Method, first.URL)}}
}

// onceTells reports whether a failed expectation is about a call.
func (h *searchState) onceTells(r *Repeat) bool {
	return slices.ContainsFunc(h.report.Findings, func(f *Finding) bool {
		return f.Class == Expectation && strings.HasPrefix(f.Rule, "once:") && strings.HasPrefix(f.Detail, r.Method+" "+r.URL+" ")
	})
}

func (h *searchState) taskName(ref string) string {
	for _, def := range append([]*dsl.Definition{h.Config.Definition}, h.Config.With...) {
		if t := def.Task(ref); t != nil {
			return t.Name
		}
	}
	return ref
}

// runName returns a task run in words.
func (h *searchState) runName(task string) string {
	run := event.ParseRun(task)
	if run.Ref == "" {
		return "the workflow"
	}
	return history.Run(h.taskName(run.Ref), run.Iteration, run.Attempt)
}

func runsText(n int) string {
	return history.Count(n, "run")
}

// timeoutHint reports a timeout that fires only if processes are delayed, or never.
func (h *searchState) timeoutHint(b bounds, t *dsl.Task) []Hint {
	limit, ok := invariant.LiteralDuration(t.Timeout)
	count := h.timeouts[t.Ref]
	if !ok || count != nil && count.fired > 0 {
		return nil
	}
	why := ""
	if longest, because, bounded := b.task(t); bounded && longest < limit {
		why = "comes only if flunq is held up: " + because
	} else if outer, name, ok := b.outer(t); ok && outer <= limit {
		why = fmt.Sprintf("can never come: the timeout of %s around it comes first, after %s", name, iso(outer))
	}
	if why == "" {
		return nil
	}
	return []Hint{{"timeout", t, fmt.Sprintf("the timeout of %s %s (it %s)", iso(limit), why, h.setText(count))}}
}

// wholeHint is timeoutHint for the workflow.
func (h *searchState) wholeHint(b bounds) []Hint {
	limit, ok := invariant.LiteralDuration(b.def.Timeout)
	longest, bounded := b.list(b.def.Do)
	count := h.timeouts[""]
	if !ok || !bounded || longest >= limit || count != nil && count.fired > 0 {
		return nil
	}
	return []Hint{{"timeout", nil, fmt.Sprintf("the timeout of the workflow, %s, comes only if flunq is held up: its tasks take %s at most%s (it %s)",
		iso(limit), iso(longest), b.seen(b.def.Do), h.setText(count))}}
}

// setText says how often a timeout was set.
func (h *searchState) setText(count *timeouts) string {
	if count == nil {
		return "was never set in " + runsText(h.runs())
	}
	return "was set " + history.Count(count.set, "time") + " and never came"
}

// runs returns the number of runs of the search.
func (h *searchState) runs() int { return h.report.Plain + h.report.Singles + h.report.Seeds }

func iso(d time.Duration) string { return dsl.Duration{Clock: d}.String() }

// exportHint reports branches that export the same member of $context.
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

// exports collects the members of $context that a task and its inner tasks write.
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

// members collects the members of an object, or those that an expression creates.
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

// written matches the members that an expression creates: {name: …} and .name = ….
func written() *regexp.Regexp {
	return regexp.MustCompile(`[{,]\s*"?(\w+)"?\s*:|\.(\w+)\s*(?:\+|-|\*|/|//)?=[^=]`)
}

// inner returns the lists of tasks inside a task.
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
