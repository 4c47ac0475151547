package search

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/sim"
)

// undoCalls holds the calls of a try before it failed, and the calls after that.
type undoCalls struct {
	failed        string     // ref of the task
	before, after []sim.Call // calls that changed something, in order
}

// wrongUndo describes a mistake in how a try undoes its calls.
type wrongUndo struct {
	failed        string
	left          string // the task whose call nothing undoes; "" if there is none
	call          string
	first, second string // tasks that are undone in the order in which they ran; "" if there are none
}

// wrongUndosIn returns the mistakes that tries made in a run when they undid their calls, by the refs
// of the tries. A try in a loop may fail several times: the first mistake counts.
func wrongUndosIn(t *sim.Trial, handling []*dsl.Task) map[string]wrongUndo {
	out := map[string]wrongUndo{}
	for _, end := range t.Ends {
		if end.Child() || len(end.Calls) == 0 || !end.Status.Ended() {
			continue
		}
		calls := changing(callsBelow(t, end.ID))
		for _, try := range handling {
			u := undoingOf(end, try, calls)
			found, wrong := u.check()
			if _, known := out[try.Ref]; wrong && !known {
				out[try.Ref] = found
			}
		}
	}
	return out
}

// changing returns the calls that do not only read.
func changing(calls []sim.Call) []sim.Call {
	return slices.DeleteFunc(calls, func(c sim.Call) bool { return c.Safe() })
}

// handling returns the tries of a document that handle errors without raising another one,
// which would let an enclosing try undo the calls.
func handling(def *dsl.Definition) (out []*dsl.Task) {
	tasks := maps.Collect(def.Tasks())
	for _, ref := range slices.Sorted(maps.Keys(tasks)) {
		t := tasks[ref]
		if t.Try == nil || len(t.Try.Catch.Do) == 0 || slices.ContainsFunc(tasksIn(t.Try.Catch.Do), func(t *dsl.Task) bool { return t.Kind == dsl.Raise }) {
			continue
		}
		out = append(out, t)
	}
	return out
}

// undoingOf returns the calls of a try before it failed, and the calls after that.
func undoingOf(end sim.End, try *dsl.Task, calls []sim.Call) (u undoCalls) {
	inside, handler := try.Ref+"/try/", try.Ref+"/catch/do/"
	undone := inside // prefix of the tasks that only this handler can undo
	if endsWorkflow(try) {
		undone = "/"
	}
	well := map[string]bool{}
	for _, e := range end.History {
		switch ref := event.ParseRun(e.Task).Ref; {
		case e.Type == event.TaskRequested && strings.HasPrefix(ref, handler):
			for _, c := range calls {
				own, task := c.Execution == end.ID, event.ParseRun(c.Task).Ref
				switch {
				case own && strings.HasPrefix(task, undone) && well[c.Task]:
					u.before = append(u.before, c)
				case own && strings.HasPrefix(task, inside): // it failed
				case !c.At.Before(e.Time):
					u.after = append(u.after, c)
				}
			}
			return u
		case e.Type == event.TaskCompleted && strings.HasPrefix(ref, undone):
			if succeeded(e) {
				well[e.Task] = true
			} else if strings.HasPrefix(ref, inside) {
				u.failed = ref
			}
		}
	}
	return undoCalls{}
}

// endsWorkflow reports whether the handler of a try ends the workflow.
func endsWorkflow(try *dsl.Task) bool {
	return try.Try.Catch.Then == dsl.End || slices.ContainsFunc(try.Try.Catch.Do, func(t *dsl.Task) bool { return t.Then == dsl.End })
}

// check finds a call that nothing undoes although others are undone or no call follows, and
// two calls that are undone in the order in which they were made.
func (u *undoCalls) check() (out wrongUndo, wrong bool) {
	out.failed = u.failed
	by := make([]int, len(u.before)) // index of the call that undoes each one; -1 for none
	taken := map[int]bool{}
	for i := range by {
		by[i] = -1
		for j := range u.after {
			if !taken[j] && mayUndo(&u.before[i], &u.after[j]) {
				by[i], taken[j] = j, true
				break
			}
		}
	}
	ref := func(i int) string { return event.ParseRun(u.before[i].Task).Ref }
	for i := range by {
		switch {
		case by[i] < 0 && (len(taken) > 0 || len(u.after) == 0):
			out.left, out.call, wrong = ref(i), u.before[i].Method+" "+u.before[i].URL, true
		case i > 0 && by[i-1] >= 0 && by[i] > by[i-1] && ref(i) != ref(i-1):
			out.first, out.second, wrong = ref(i-1), ref(i), true
		}
	}
	return out, wrong
}

// mayUndo reports whether a later call may undo an earlier one: it has a related resource, or
// goes to the same host and, judging by its name, undoes something.
func mayUndo(earlier, later *sim.Call) bool {
	if related(earlier, later) {
		return true
	}
	a, err1 := url.Parse(earlier.URL)
	b, err2 := url.Parse(later.URL)
	return err1 == nil && err2 == nil && a.Host == b.Host && undoing(later)
}

// notUndone is a call that was carried out before its execution faulted, and that
// nothing undoes.
type notUndone struct{ call, failed string } // failed is the task whose error ended the execution

// leftIn returns the POST calls of faulted executions that nothing undid after another task
// failed, by their tasks.
func leftIn(t *sim.Trial) map[string]notUndone {
	out := map[string]notUndone{}
	for _, end := range t.Ends {
		if end.Status != decide.Faulted || end.Error == nil || end.Child() || len(end.Calls) == 0 {
			continue
		}
		failed, _, _ := strings.Cut(end.Error.Instance, "/catch/")
		well := map[string]bool{}
		for _, e := range end.History {
			if e.Type == event.TaskCompleted {
				well[e.Task] = succeeded(e)
			}
		}
		calls := changing(callsBelow(t, end.ID))
		for i, c := range calls {
			if c.Execution != end.ID || c.Method != http.MethodPost || !well[c.Task] || strings.HasPrefix(event.ParseRun(c.Task).Ref, failed) ||
				slices.ContainsFunc(calls[i+1:], func(later sim.Call) bool { return mayUndo(&c, &later) }) {
				continue
			}
			if ref := event.ParseRun(c.Task).Ref; out[ref].call == "" {
				out[ref] = notUndone{call: c.Method + " " + c.URL, failed: failed}
			}
		}
	}
	return out
}

// leftHint reports the calls that faulted executions did not undo, in one hint at the first
// call.
func (h *hints) leftHint() []Hint {
	var first string
	var others []string
	for _, ref := range slices.Sorted(maps.Keys(h.left)) {
		switch {
		case h.Config.Definition.Task(ref) == nil || h.Config.Definition.Task(h.left[ref].what.failed) == nil || h.report.reports(SideEffect, ref):
		case first == "":
			first = ref
		default:
			others = append(others, h.taskName(ref))
		}
	}
	if first == "" {
		return nil
	}
	likewise := ""
	if len(others) > 0 {
		likewise = "; likewise the calls of " + strings.Join(others, ", ")
	}
	l := h.left[first]
	return []Hint{{"undo", h.Config.Definition.Task(first), fmt.Sprintf(
		"%s is carried out before %s fails, the execution faults, and nothing undoes the call (in %s%s). If it must be undone, put the tasks into one try and undo their calls in its catch.do, the last one first",
		l.what.call, h.taskName(l.what.failed), runsText(l.runs), likewise)}}
}

// undoHint reports tries that do not undo their calls, or in the wrong order.
func (h *hints) undoHint() []Hint {
	var out []Hint
	for _, ref := range slices.Sorted(maps.Keys(h.undo)) {
		b, where := h.undo[ref].what, runsText(h.undo[ref].runs)
		task := h.Config.Definition.Task(ref)
		if b.left != "" {
			out = append(out, Hint{"undo", task, fmt.Sprintf(
				"%s was carried out by %s before %s failed, and nothing in its catch undoes it (in %s). If it must be undone, do so in catch.do, the last call first",
				b.call, h.taskName(b.left), h.taskName(b.failed), where)})
		}
		if b.first != "" {
			out = append(out, Hint{"undo", task, fmt.Sprintf(
				"its catch undoes %s before %s, in the order in which they ran (in %s): undo the last one first, so that nothing is undone while a later step still depends on it",
				h.taskName(b.first), h.taskName(b.second), where)})
		}
	}
	return out
}
