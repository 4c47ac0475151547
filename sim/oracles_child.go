package sim

import (
	"slices"

	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/event"
)

// related looks for children whose end their parent was not told of, and for those that
// were not told that nobody waits for them any more.
func related(ends []End, published map[string]bool, broken breaks) {
	for _, end := range ends {
		if len(end.History) == 0 || end.History[0].Type != event.ExecutionStarted {
			continue
		}
		var begun event.Started
		if decide.DecodeData(end.History[0], &begun) != nil || begun.ParentTask == "" {
			continue
		}
		if end.Status.Ended() && !published[end.ID+"/parent"] {
			broken("who has started an execution is told how it ends", end.ID, "%s was not told", begun.Parent)
		}
		at := slices.IndexFunc(ends, func(e End) bool { return e.ID == begun.Parent })
		if at >= 0 && forsaken(ends[at].History, begun.ParentTask, end.ID) && !published[end.ID+"/cancel"] {
			broken("a child that nobody waits for is cancelled", end.ID, "%s of %s ended before it", begun.ParentTask, begun.Parent)
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
