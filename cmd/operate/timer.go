// Package operate is what commands and the screen do to an engine that runs
// somewhere, through its Redis: what it means, and how it is done.
package operate

import (
	"context"
	"errors"

	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/store"
)

// Status is the status of an execution, "" if it is not known.
func Status(ctx context.Context, st *store.Store, tenant, id string) (string, error) {
	if id == "" {
		return "", nil
	}
	x, err := st.Execution(ctx, tenant, id)
	if errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrName) {
		return "", nil
	}
	return x.Status, err
}

// Ended reports whether an execution of a status goes on no more.
func Ended(status string) bool {
	return status == "completed" || status == "faulted" || status == "cancelled"
}

// Consequence is what the firing of a timer does, whose execution has a status.
func Consequence(p store.Pending, status string) string {
	switch {
	case p.Err != nil:
		return "it cannot fire, and goes to the dead letters when it is due"
	case p.Kind == event.DeliveryTimer:
		return "an event is delivered once more"
	case status == "":
		return "an event is published; no execution here is known to wait for it"
	case Ended(status):
		return "an event is published, but the execution has ended"
	case p.Keyed():
		return "an event is published"
	case p.Kind == event.TimeoutTimer:
		return "the task, or the workflow, runs out of time"
	case p.Kind == event.RetryTimer:
		return "the task is tried again"
	default:
		return "the execution goes on"
	}
}

// Loss is what is lost with a timer, and whether somebody needs it.
func Loss(p store.Pending, status string) (loss string, needed bool) {
	switch {
	case p.Err != nil:
		return "it could not anyway", false
	case p.Kind == event.DeliveryTimer:
		return "it holds the only copy of an event that is to be delivered again", true
	case p.Keyed() || status == "" || Ended(status):
		return "no execution here waits for it", false
	case p.Kind == event.TimeoutTimer:
		return "the task, or the workflow, has no time limit any more", false
	default:
		return "execution " + p.Execution + " would wait for ever", true
	}
}
