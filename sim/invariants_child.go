package sim

import (
	"slices"
	"strings"

	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/event"
)

// related checks parents and children: a parent learns how its child ended, and a child
// that its parent no longer waits for is cancelled.
func (w *simulation) related(ends []End, published map[stated]bool, broken reportFunc) {
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
			broken("a parent learns how its child ends", end.ID, "%s did not learn it", parent)
		}
		at := slices.IndexFunc(ends, func(e End) bool { return e.ID == parent })
		if at >= 0 {
			answered(ends[at], end, begun.ParentTask, id, broken)
		}
		if at >= 0 && abandoned(ends[at].History, begun.ParentTask, id, end.History) && !published[stated{end.ID, id + "/cancel"}] {
			broken("a child that nobody waits for is cancelled", end.ID, "%s of %s ended before it", begun.ParentTask, parent)
		}
	}
}

// answered checks that a parent received the result with which its child ended.
func answered(parent, child End, task, id string, broken reportFunc) {
	for _, e := range parent.History {
		if e.Type != event.TaskCompleted || e.Task != task || e.ID != id+"/parent" {
			continue
		}
		var c event.Completed
		switch {
		case decide.DecodeData(e, &c) != nil:
		case c.Success != (child.Status == decide.Completed):
			broken("a parent goes on as its child has ended", parent.ID, "%s was told success: %t, and %s is %s", task, c.Success, child.ID, child.Status)
		case c.Success && !sameData(c.Output, child.Output):
			broken("a parent goes on as its child has ended", parent.ID, "%s was told %s, and the output of %s is %s", task, c.Output, child.ID, child.Output)
		case !c.Success && child.Status == decide.Faulted && child.Error != nil && (c.Error == nil || c.Error.Type != child.Error.Type || c.Error.Status != child.Error.Status):
			broken("a parent goes on as its child has ended", parent.ID, "%s was told %v, and %s failed with %v", task, c.Error, child.ID, child.Error)
		}
		return
	}
}

// abandoned reports whether the task that waits for a child ended without it, or its
// execution was given up before the child ended.
func abandoned(history []event.Event, task, child string, its []event.Event) bool {
	asked := false
	for _, e := range history {
		switch {
		case e.Type == event.TaskRequested && e.Task == task:
			asked = true
		case e.Type == event.TaskCompleted && e.Task == task:
			return e.ID != child+"/parent"
		case asked && givenUp(e):
			last := its[len(its)-1]
			return !ended(last) || last.Time.After(e.Time)
		}
	}
	return false
}

// givenUp reports whether an event is the end of an execution that the engine gave up
// without a decision.
func givenUp(e event.Event) bool {
	var ended event.Ended
	return e.Type == event.WorkflowFailed && decide.DecodeData(e, &ended) == nil && strings.HasPrefix(ended.Reason, "given up")
}
