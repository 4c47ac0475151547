package sim

import (
	"slices"
	"strings"

	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/event"
)

// related looks for children whose end their parent was not told of, and for those that
// were not told that nobody waits for them any more.
func (w *world) related(ends []End, published map[stated]bool, broken breaks) {
	for _, end := range ends {
		if len(end.History) == 0 || end.History[0].Type != event.ExecutionStarted {
			continue
		}
		var begun event.Started
		if decide.DecodeData(end.History[0], &begun) != nil || begun.ParentTask == "" {
			continue
		}
		id, parent := w.idOf(end.ID), end.ID[:max(0, strings.LastIndexByte(end.ID, '.'))]
		if end.Status.Ended() && !published[stated{parent, id + "/parent"}] {
			broken("who has started an execution is told how it ends", end.ID, "%s was not told", parent)
		}
		at := slices.IndexFunc(ends, func(e End) bool { return e.ID == parent })
		if at >= 0 && forsaken(ends[at].History, begun.ParentTask, id) && !published[stated{end.ID, id + "/cancel"}] {
			broken("a child that nobody waits for is cancelled", end.ID, "%s of %s ended before it", begun.ParentTask, parent)
		}
	}
}

// forsaken reports whether a task that waits for an execution has ended without it, by
// its history.
func forsaken(history []event.Event, task, child string) bool {
	for _, e := range history {
		if e.Type == event.TaskCompleted && e.Task == task {
			return e.ID != child+"/parent"
		}
	}
	return false
}
