package describe

import (
	"slices"
	"strings"

	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/tui"
)

// Open returns the tasks that are open after consecutive events of a history, the newest
// first. It omits tasks that contain other open tasks.
func Open(events []event.Event) []tui.Row {
	var open []tui.Row
	for _, e := range events {
		t := Event(0, e)
		if t.Ref == "" {
			if t.State.Ended() {
				open = nil
			}
			continue
		}
		at := slices.IndexFunc(open, func(r tui.Row) bool { return r.Task == t.Task })
		switch {
		case t.State.Ended():
			// Runs inside it have ended too.
			open = slices.DeleteFunc(open, func(r tui.Row) bool { return r.Task == t.Task || within(r.Task, t.Ref) })
		case t.State == "":
		case at >= 0:
			open[at].State, open[at].Until = t.State, t.Until
		default:
			open = append(open, tui.Row{Task: t.Task, State: t.State, At: t.At, Until: t.Until})
		}
	}
	slices.Reverse(open)
	all := slices.Clone(open)
	return slices.DeleteFunc(open, func(r tui.Row) bool {
		ref := event.ParseRun(r.Task).Ref
		return slices.ContainsFunc(all, func(other tui.Row) bool { return within(other.Task, ref) })
	})
}

// within reports whether a run belongs to a task inside the task at ref, or to a function
// that ref calls: the iteration of such a run ends with ref.
func within(run, ref string) bool {
	r := event.ParseRun(run)
	return strings.HasPrefix(r.Ref, ref+"/") || r.Iteration == ref || strings.HasSuffix(r.Iteration, "."+ref)
}
