package search

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/expr"
	"flunq.io/flunq/sim/invariant"
)

// advice returns improvements of the document that do not depend on any run.
func (h *hints) advice(t *dsl.Task) []Hint {
	var out []Hint
	for _, look := range []func(*dsl.Task) string{retryDelay, h.retryProduct, h.retryTime, clockDecides, competingEffects, h.earlyEmit} {
		if text := look(t); text != "" {
			out = append(out, Hint{"advice", t, text})
		}
	}
	return out
}

// retryOf returns the retry policy of a task; nil if it has none.
func retryOf(t *dsl.Task) *dsl.RetryPolicy {
	if t.Try == nil {
		return nil
	}
	return t.Try.Catch.Retry
}

// retryDelay reports retries without a delay.
func retryDelay(t *dsl.Task) string {
	if r := retryOf(t); r == nil || r.Delay != nil || r.AttemptCount == 1 {
		return ""
	}
	return "it is retried immediately, so a service that is down gets all attempts at the same moment: give the retry a delay and a backoff, such as delay: PT1S and backoff: {exponential: {}}"
}

// maxAttempts is the number of attempts at one task above which nested retries are reported.
const maxAttempts = 10

// retryProduct reports nested retries, whose attempts multiply.
func (h *hints) retryProduct(t *dsl.Task) string {
	r := retryOf(t)
	if r == nil || r.AttemptCount == 0 {
		return ""
	}
	for _, inside := range tasksIn(t.Try.Try) {
		inner := retryOf(inside)
		if inner == nil || inner.AttemptCount == 0 || !fails(&inside.Try.Catch) {
			continue
		}
		a, b := r.AttemptCount+1, inner.AttemptCount+1
		if a*b > maxAttempts {
			return fmt.Sprintf("its retry encloses the retry of %s (line %d), so the attempts multiply: a service that is down is called %d × %d = %d times for one task. Retry in only one of the two places",
				inside.Name, inside.Pos.Line, a, b, a*b)
		}
	}
	return ""
}

// fails reports whether a try may fail with what it caught: after the last retry nothing handles the
// error, or what handles it may fail for the same reason.
func fails(c *dsl.Catch) bool {
	if c.Do == nil {
		return c.Then == ""
	}
	x := possibleErrors{raised: map[string]bool{}}
	x.add(c.Do)
	return x.calls || x.computed || len(x.raised) > 0
}

// tasksIn returns tasks and all tasks inside them.
func tasksIn(tasks dsl.TaskList) (out []*dsl.Task) {
	for _, t := range tasks {
		out = append(out, t)
		for _, list := range t.Lists() {
			out = append(out, tasksIn(list)...)
		}
	}
	return out
}

// retryTime reports a retry whose delays alone exceed a timeout around it.
func (h *hints) retryTime(t *dsl.Task) string {
	r := retryOf(t)
	if r == nil || r.AttemptCount == 0 {
		return ""
	}
	limit, name, ok := bounds{def: h.Config.Definition}.outer(t)
	if own, has := invariant.LiteralDuration(t.Timeout); has && (!ok || own < limit) {
		limit, name, ok = own, t.Name, true
	}
	what := "the timeout of " + name
	if own, has := invariant.LiteralDuration(r.Duration); has && (!ok || own < limit) {
		limit, what, ok = own, "limit.duration", true
	}
	if !ok {
		return ""
	}
	total := time.Duration(0)
	for n := 1; n <= r.AttemptCount; n++ {
		pause, _, known := invariant.RetryDelay(r, n, h.Config.Start)
		if total += pause; !known {
			return ""
		}
		if total >= limit {
			return fmt.Sprintf("%s, %s, expires before retry %d of %d begins: the delays before it alone take %s. Allow more time or fewer retries",
				what, iso(limit), n, r.AttemptCount, iso(total))
		}
	}
	return ""
}

// clockDecides reports a decision that reads the clock.
func clockDecides(t *dsl.Task) string {
	for _, d := range decisions(t) {
		if d.program != nil && decidingClock.MatchString(d.program.Source()) {
			return fmt.Sprintf("%s reads the clock, so its result depends on how long calls and crashed processes have delayed the execution: "+
				"decide by the data, or by a time that an earlier task has stored; for a deadline use timeout, wait or limit.duration", d.what)
		}
	}
	return ""
}

// decidingClock matches expressions that read a time which differs from run to run.
var decidingClock = regexp.MustCompile(`\bnow\b|\$task\.startedAt|\blocaltime\b`)

// decision is an expression that decides what happens next.
type decision struct {
	what    string
	program *expr.Program
}

func decisions(t *dsl.Task) []decision {
	out := []decision{{"if", t.If}}
	for _, c := range t.Switch {
		out = append(out, decision{"the case " + c.Name, c.When})
	}
	if t.For != nil {
		out = append(out, decision{"while", t.For.While})
	}
	if t.Listen != nil {
		out = append(out, decision{"until", t.Listen.To.Until})
	}
	if t.Try != nil {
		out = append(out, decision{"catch.when", t.Try.Catch.When}, decision{"catch.exceptWhen", t.Try.Catch.ExceptWhen})
		if r := t.Try.Catch.Retry; r != nil {
			out = append(out, decision{"retry.when", r.When}, decision{"retry.exceptWhen", r.ExceptWhen})
		}
	}
	return out
}

// competingEffects reports competing branches that change something: the effects of the
// loser stay.
func competingEffects(t *dsl.Task) string {
	if t.Fork == nil || !t.Fork.Compete {
		return ""
	}
	for _, inside := range tasksIn(t.Fork.Branches) {
		if inside.Call == nil || inside.Call.HTTP == nil {
			continue
		}
		data, _ := inside.Call.HTTP.Method.Constant()
		if method := strings.ToUpper(fmt.Sprint(data)); method == "POST" || method == "PATCH" {
			return fmt.Sprintf("its branches compete, and %s (line %d) changes something with %s: a losing branch is cancelled, but the effect of its call stays. "+
				"Let the branches only read, and act on the winner after the fork", inside.Name, inside.Pos.Line, method)
		}
	}
	return ""
}

// earlyEmit reports an event that is emitted before, or concurrently with, the task of
// the same document that listens for it.
func (h *hints) earlyEmit(t *dsl.Task) string {
	if t.Kind != dsl.Emit {
		return ""
	}
	typ := ""
	for _, f := range t.Emit.Fields() {
		if slices.Contains(event.InputAttributes(), f.Key) {
			return "" // it waits
		}
		if data, ok := f.Value.Constant(); f.Key == "type" && ok {
			typ = fmt.Sprint(data)
		}
	}
	if data, ok := t.Emit.Constant(); ok {
		object, _ := data.(map[string]any)
		if slices.ContainsFunc(event.InputAttributes(), func(name string) bool { return object[name] != nil }) {
			return ""
		}
		if object["type"] != nil {
			typ = fmt.Sprint(object["type"])
		}
	}
	listen := h.listenFor(typ)
	if typ == "" || listen == nil {
		return ""
	}
	const change = ": emit it again until it is answered, or pass the data in $context"
	fork := around(h.Config.Definition, t.Ref, listen.Ref)
	switch {
	case fork != nil && branchOf(fork, t.Ref) != branchOf(fork, listen.Ref) && len(loopsAround(h.Config.Definition, t.Ref)) == 0:
		return fmt.Sprintf("%s is emitted in parallel with %s (line %d), which listens for it: an event that comes before it listens is lost%s", typ, listen.Name, listen.Pos.Line, change)
	case fork == nil && t.Pos.Line < listen.Pos.Line && !strings.HasPrefix(t.Ref, listen.Ref+"/"):
		return fmt.Sprintf("%s is emitted before %s (line %d) listens for it, and is lost%s", typ, listen.Name, listen.Pos.Line, change)
	default:
		return ""
	}
}

// loopsAround returns the for tasks around a task.
func loopsAround(def *dsl.Definition, ref string) (out []*dsl.Task) {
	tasks := maps.Collect(def.Tasks())
	for _, other := range slices.Sorted(maps.Keys(tasks)) {
		if tasks[other].Kind == dsl.For && strings.HasPrefix(ref, other+"/") {
			out = append(out, tasks[other])
		}
	}
	return out
}
