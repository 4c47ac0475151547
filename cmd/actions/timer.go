// Package actions implements what commands and the terminal UI do to a running engine
// through Redis.
package actions

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"time"

	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/examine"
	"flunq.io/flunq/engine/history"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/timers"
)

// Status returns the status of an execution, "" if it is unknown.
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

// FireTimer fires a timer, due or not. It returns false if the timer is gone.
func FireTimer(ctx context.Context, st *store.Store, p timers.Pending, by string) (bool, error) {
	recorded := !p.Keyed() && p.Kind != event.InputTimer && p.Kind != event.StartTimer && p.Kind != event.DeliveryTimer
	if err := auditTimer(ctx, st, p, recorded, "timer fire", "", by); err != nil {
		return false, err
	}
	return timers.New(st).FireNow(ctx, p, by)
}

// CancelTimer removes a timer. It returns false if the timer is gone.
func CancelTimer(ctx context.Context, st *store.Store, p timers.Pending, by string) (bool, error) {
	if err := auditTimer(ctx, st, p, true, "timer cancel", "", by); err != nil {
		return false, err
	}
	return timers.New(st).Cancel(ctx, p, by)
}

// MoveTimer changes the time of a timer and returns the moved timer. It returns false if the timer is gone.
func MoveTimer(ctx context.Context, st *store.Store, p timers.Pending, to time.Time, by string) (timers.Pending, bool, error) {
	if err := auditTimer(ctx, st, p, true, "timer move", " to "+to.UTC().Format(time.RFC3339Nano), by); err != nil {
		return p, false, err
	}
	return timers.New(st).Move(ctx, p, to, by)
}

// auditTimer adds to the trail what is about to be done to a timer, unless the history of its execution
// will record it: recorded says whether that of an open execution would.
func auditTimer(ctx context.Context, st *store.Store, p timers.Pending, recorded bool, action, detail, by string) error {
	what := history.TimerName(p.Kind, p.Key)
	if p.Err != nil {
		recorded, what = false, "unreadable timer"
	}
	x, err := st.Execution(ctx, p.Tenant, p.Execution)
	switch {
	case err != nil && !errors.Is(err, store.ErrNotFound) && !errors.Is(err, store.ErrName):
		return err
	case recorded && x.Version > 0 && !examine.Ended(x.Status):
		return nil
	}
	return st.Audit(ctx, p.Tenant, store.AuditEntry{
		Action: action, Subject: cmp.Or(p.Execution, p.ID), Detail: what + detail, By: by,
	})
}

// Due describes when a moved or restored timer is due; at is its time as text.
func Due(when, now time.Time, at string) string {
	if !when.After(now) {
		return "due at " + at + ", in the past: it fires immediately"
	}
	return "due at " + at + ", in " + history.Between(now, when)
}

// Shift parses by how much to move a time: forward by a duration, or back if it begins with "-".
func Shift(text string) (func(time.Time) time.Time, error) {
	length, back := strings.CutPrefix(text, "-")
	if !back {
		length = strings.TrimPrefix(text, "+")
	}
	d, err := dsl.ParseSpan(length)
	if err != nil {
		return nil, err
	}
	move := d.From
	if back {
		move = d.Before
	}
	return func(t time.Time) time.Time { return move(t).UTC() }, nil
}

// Consequence describes what firing a timer does, given the status of its execution.
func Consequence(p timers.Pending, status string) string {
	resumed := "" // a suspended execution takes no event
	if status == string(decide.Suspended) {
		resumed = " once the execution is resumed"
	}
	switch {
	case p.Err != nil:
		return "it cannot fire and is dead-lettered when it is due"
	case p.Kind == event.DeliveryTimer:
		return "an event is delivered again"
	case p.Kind == event.StartTimer && status != "":
		return "nothing starts: execution " + p.Execution + " exists already"
	case p.Kind == event.StartTimer:
		return "execution " + p.Execution + " starts"
	case p.Kind == event.InputTimer && !examine.Ended(status):
		return "execution " + p.Execution + " receives " + cmp.Or(InputType(p), "its event") + resumed
	case status == "":
		return "an event is published; no known execution waits for it"
	case examine.Ended(status):
		return "an event is published, but the execution has ended"
	case p.Keyed():
		return "an event is published"
	case p.Kind == event.TimeoutTimer:
		return "the task or the workflow times out" + resumed
	case p.Kind == event.RetryTimer:
		return "the task is retried" + resumed
	default:
		return "the execution continues" + strings.Replace(resumed, "the execution", "it", 1)
	}
}

// Loss describes what cancelling a timer would lose. It reports whether the timer is
// needed: an execution would wait forever, or an event would be lost.
func Loss(ctx context.Context, e *examine.Examiner, p timers.Pending, status string) (loss string, needed bool, err error) {
	if p.Err == nil && p.Kind == event.TimeoutTimer && status != "" && !examine.Ended(status) {
		return limitLoss(ctx, e, p)
	}
	loss, needed = lossOf(p, status)
	return loss, needed, nil
}

// limitLoss describes what is lost with a timeout. A task that waits for something may
// never end without it.
func limitLoss(ctx context.Context, e *examine.Examiner, p timers.Pending) (loss string, needed bool, err error) {
	stuck, known, err := e.Without(ctx, p.Tenant, p.Execution, p.Timer)
	if err != nil {
		return "", false, err
	}
	limited := "the task"
	if p.TaskID == "" {
		limited = "the workflow"
	}
	loss = limited + " no longer has a timeout"
	if !known {
		return loss + ", and it is unknown whether it would wait forever", true, nil
	}
	if len(stuck) > 0 {
		task, _, _ := strings.Cut(stuck[0], " ")
		return loss + ", and " + task + " would wait forever", true, nil
	}
	return loss, false, nil
}

func lossOf(p timers.Pending, status string) (loss string, needed bool) {
	switch {
	case p.Err != nil:
		return "it could not fire anyway", false
	case p.Kind == event.DeliveryTimer:
		return "it holds the only copy of an event that is to be delivered again", true
	case p.Kind == event.StartTimer && status != "":
		return "execution " + p.Execution + " exists already", false
	case p.Kind == event.StartTimer:
		return "execution " + p.Execution + " does not start", false
	case p.Kind == event.InputTimer:
		return "execution " + p.Execution + " does not receive " + cmp.Or(InputType(p), "its event"), false
	case p.Keyed() || status == "" || examine.Ended(status):
		return "no execution here waits for it", false
	default:
		return "execution " + p.Execution + " would wait forever", true
	}
}
