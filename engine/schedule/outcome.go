package schedule

import (
	"strconv"
	"time"
)

// Code is the outcome of a request, with the numbers of the wire format.
type Code int

// The outcomes.
const (
	Success     Code = 0
	BadRequest  Code = 1
	Conflict    Code = 2
	Internal    Code = 3
	NotFound    Code = 4
	NoContent   Code = 5 // nothing to do: it was already cancelled
	RecordFound Code = 6
)

// String returns the name of the code in the wire format.
func (c Code) String() string {
	names := []string{"SUCCESS", "BAD_REQUEST", "CONFLICT", "INTERNAL_SERVER_ERROR", "NOT_FOUND", "NO_CONTENT", "RECORD_FOUND"}
	if c < 0 || int(c) >= len(names) {
		return strconv.Itoa(int(c))
	}
	return names[c]
}

// Outcome is the reply to a request about one event.
type Outcome struct {
	Code    Code
	Message string // "" for Success
	Created bool   // by this request
	Event   *Event // in its current state; nil if it does not exist
}

// Placed is a ledger's reply about an event to be stored.
type Placed struct {
	Event   *Event // as it is stored now
	Created bool   // by this call; Event is then the one that was passed
}

// Change is a transition that a client or an operator requests.
type Change struct {
	Kind    ChangeKind
	Content Content       // of a Replace
	Due     time.Time     // of a Move; of a Replay, zero: immediately
	After   time.Duration // of a Move without a Due: delay from now
}

// ChangeKind says what a Change does.
type ChangeKind string

// The kinds of changes.
const (
	Cancel  ChangeKind = "cancel"  // never publish it
	Move    ChangeKind = "move"    // publish it at another time; resets attempts
	Replace ChangeKind = "replace" // give it different content; resets attempts
	Replay  ChangeKind = "replay"  // publish a dead event once more; resets attempts
	Drop    ChangeKind = "drop"    // give up a dead event: it becomes CANCELLED
)

// Allows reports whether a change may be applied to e, and if not, the outcome of the request. An
// event that may have been published can neither be cancelled nor changed.
func (c Change) Allows(e *Event) (Outcome, bool) {
	refuse := func(code Code, message string) (Outcome, bool) {
		return Outcome{Code: code, Message: message, Event: e}, false
	}
	switch {
	case c.Kind == Cancel && e.Status == Cancelled:
		return refuse(NoContent, "the event was cancelled before")
	case (c.Kind == Replay || c.Kind == Drop) && e.Status != Dead:
		return refuse(Conflict, "only a DEAD event can be replayed or dropped; this one is "+string(e.Status))
	case c.Kind == Replay || c.Kind == Drop:
		return Outcome{}, true
	case e.Status != Scheduled:
		return refuse(Conflict, "the event is "+string(e.Status))
	case e.MayBePublished():
		return refuse(Conflict, "an earlier attempt may have published the event")
	default:
		return Outcome{}, true
	}
}

// Apply returns e after the change at now. The caller has checked the change with Allows.
func (c Change) Apply(e Event, now time.Time) Event {
	switch c.Kind {
	case Cancel, Drop:
		e.Status = Cancelled
	case Move:
		e.Due = c.Due
	case Replace:
		e.Content = c.Content
	case Replay:
		// An overdue event keeps its due time: the published record says when it should have been published.
	}
	if e.Status != Cancelled {
		e.Status, e.Attempts, e.Failures, e.Error = Scheduled, 0, 0, ""
		e.Next = e.Due
		if c.Kind == Replay {
			e.Next = now
			if c.Due.After(now) {
				e.Next = c.Due
			}
		}
	}
	e.Version, e.Updated, e.Owner, e.Lease = e.Version+1, now, "", time.Time{}
	return e
}
