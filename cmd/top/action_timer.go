package top

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"flunq.io/flunq/cmd/actions"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/history"
	"flunq.io/flunq/engine/store/timers"
	"flunq.io/flunq/tui"
)

// prepareTimers checks an action on timers.
func (l *Live) prepareTimers(ctx context.Context, a tui.Action) (*prepared, error) {
	plan, done := l.fire, "fired"
	switch a.Verb {
	case tui.Cancel:
		plan, done = l.drop, "cancelled"
	case tui.Reschedule:
		now, err := l.store.NowOf(ctx, l.opts.Tenant)
		if err != nil {
			return nil, err
		}
		when, err := momentOf(a.Text, now)
		if err != nil {
			return nil, err
		}
		done = "rescheduled"
		plan = func(_ context.Context, t timers.Pending, _ string) (plannedAction, error) {
			return l.move(t, when(t), now)
		}
	default:
	}
	p := &prepared{head: fmt.Sprintf("%s %s of tenant %s", a.Verb, history.Count(len(a.IDs), "timer"), l.opts.Tenant), done: done, what: "timer"}
	err := p.each(a.IDs, func(id string) (plannedAction, error) {
		t, err := timers.New(l.store).Find(ctx, l.opts.Tenant, id)
		if err != nil {
			return plannedAction{}, err
		}
		status, err := actions.Status(ctx, l.store, t.Tenant, t.Execution)
		if err != nil {
			return plannedAction{}, err
		}
		d, err := plan(ctx, t, status)
		d.id, d.line = t.ID, nameOf(t)+" "+d.line
		return d, err
	})
	if err == nil && a.Verb == tui.Fire {
		p.notes, err = l.unserved(ctx)
	}
	return p, err
}

// nameOf describes a timer.
func nameOf(t timers.Pending) string {
	if t.Err != nil {
		return "timer " + t.ID
	}
	return strings.TrimSpace(fmt.Sprintf("%s of %s", t.Kind, strings.TrimSpace(t.Execution+" "+t.TaskID)))
}

func (l *Live) fire(_ context.Context, t timers.Pending, status string) (plannedAction, error) {
	if t.Err != nil {
		return plannedAction{}, fmt.Errorf("timer %s cannot fire: %w; cancelling removes it", t.ID, t.Err)
	}
	return plannedAction{
		line: "fires now: " + actions.Consequence(t, status),
		said: "fired the " + nameOf(t),
		do:   func(ctx context.Context) (bool, error) { return actions.FireTimer(ctx, l.store, t, l.opts.Operator) },
	}, nil
}

func (l *Live) drop(ctx context.Context, t timers.Pending, status string) (plannedAction, error) {
	loss, needed, err := actions.Loss(ctx, l.examiner, t, status)
	if err != nil {
		return plannedAction{}, err
	}
	d := plannedAction{
		line:    "never fires: " + loss,
		warning: irreversible,
		said:    "cancelled the " + nameOf(t),
		do:      func(ctx context.Context) (bool, error) { return actions.CancelTimer(ctx, l.store, t, l.opts.Operator) },
	}
	switch t.Kind {
	case event.WaitTimer, event.TimeoutTimer, event.RetryTimer: // the execution knows them
		d.warning = "'flunq timers restore EXECUTION' restores timers."
	default:
	}
	if needed {
		d.guard = fmt.Sprintf("timer %s is needed: %s; firing it ends the wait", t.ID, loss)
	}
	return d, nil
}

// local formats a time within a sentence. The zone of an Instant is chosen where it is drawn.
func local(t time.Time) string { return t.Local().Format(time.RFC3339Nano) }

func (l *Live) move(t timers.Pending, at, now time.Time) (plannedAction, error) {
	if t.Err != nil {
		return plannedAction{}, fmt.Errorf("timer %s cannot be moved: %w", t.ID, t.Err)
	}
	return plannedAction{
		line: "is " + actions.Due(at, now, local(at)),
		said: "the " + nameOf(t) + " is due at " + local(at),
		do: func(ctx context.Context) (bool, error) {
			_, done, err := actions.MoveTimer(ctx, l.store, t, at, l.opts.Operator)
			return done, err
		},
	}, nil
}

// momentOf parses a new due time: a time, a duration from now or, with a sign, a duration
// from the current due time.
func momentOf(text string, now time.Time) (func(timers.Pending) time.Time, error) {
	text = strings.TrimSpace(text)
	if at, err := time.Parse(time.RFC3339Nano, text); err == nil {
		return func(timers.Pending) time.Time { return at.UTC() }, nil
	}
	shift, err := actions.Shift(strings.TrimSpace(strings.TrimPrefix(text, "in ")))
	if err != nil {
		return nil, errors.New("want a duration from now (10m, 2d), a change of the due time (+1h, -30m), or a time (2026-01-01T00:00:00Z)")
	}
	return func(t timers.Pending) time.Time {
		if text[0] == '+' || text[0] == '-' {
			return shift(t.Moment())
		}
		return shift(now)
	}, nil
}
