package actions

import (
	"crypto/rand"
	"fmt"
	"slices"
	"strings"
	"time"

	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/examine"
	"flunq.io/flunq/engine/store"
)

// Signal is a command to an execution.
type Signal struct {
	Verb   string
	Type   event.Type
	States []string // statuses in which it is allowed
}

// Statuses returns all statuses of an execution, in the order of its lifetime.
func Statuses() []string { return append(OpenStatuses(), EndedStatuses()...) }

// OpenStatuses returns the statuses of an execution that has not ended. The first is that of one that
// has not begun.
func OpenStatuses() []string {
	return []string{string(decide.Pending), string(decide.Running), string(decide.Waiting), string(decide.Suspended)}
}

// EndedStatuses returns the statuses of an execution that has ended.
func EndedStatuses() []string {
	return []string{string(decide.Completed), string(decide.Faulted), string(decide.Cancelled)}
}

// Signals returns all signals by their verbs.
func Signals() map[string]Signal {
	return map[string]Signal{
		"cancel":  {"cancel", event.ExecutionCancelled, OpenStatuses()},
		"suspend": {"suspend", event.ExecutionSuspended, []string{string(decide.Pending), string(decide.Running), string(decide.Waiting)}},
		"resume":  {"resume", event.ExecutionResumed, []string{string(decide.Suspended)}},
		"retry":   {"retry", event.ExecutionRetried, []string{string(decide.Faulted)}},
	}
}

// Refuse returns an error if an execution cannot take the signal.
func (s Signal) Refuse(x store.Execution) error {
	already := map[string]decide.Status{"cancel": decide.Cancelled, "suspend": decide.Suspended}
	switch {
	case slices.Contains(s.States, x.Status):
		return nil
	case examine.Ended(x.Status) && s.Verb != "retry", string(already[s.Verb]) == x.Status:
		return fmt.Errorf("execution %s is already %s", x.ID, x.Status)
	default:
		return fmt.Errorf("execution %s is %s: to %s it, it must be %s", x.ID, x.Status, s.Verb, strings.Join(s.States, " or "))
	}
}

// Event returns the event that carries the signal, with the operator.
func (s Signal) Event(x store.Execution, reason, by string, now time.Time) event.Event {
	return event.Event{
		ID: x.ID + "/" + s.Verb + "/" + strings.ToLower(rand.Text()), Source: decide.Prefix + "cli", Type: s.Type, Time: now,
		Tenant: x.Tenant, Workflow: x.Workflow, Execution: x.ID, Data: event.Encode(event.Ended{Reason: reason, By: by}),
	}
}
