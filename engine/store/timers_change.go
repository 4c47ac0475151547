package store

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"flunq.io/flunq/engine/event"
)

// What operators do to timers. Each change and the entry about it in the history of the
// timer's execution, with the name of the operator, are one script. An execution that has
// ended, and one that is not known here, get no entry.

// FireNow publishes a timer, due or not, and takes it out. The event says by whom; it is
// an entry of the history once the execution takes it. FireNow reports false if the timer
// is gone.
func (s Timers) FireNow(ctx context.Context, p Pending, by string) (bool, error) {
	if p.Err != nil {
		return false, p.Err
	}
	p.by = operator(by)
	n, err := s.fire(ctx, p.Tenant, []Due{p.Due}, func(*Due) int64 { return 0 })
	return n == 1, err
}

// CancelTimer takes a timer out, whatever may wait for it. It reports false if the timer
// is gone.
func (s Timers) CancelTimer(ctx context.Context, p Pending, by string) (bool, error) {
	keys := []string{
		s.store.keys.Timers(p.Tenant), s.store.keys.timerKeys(p.Tenant), s.store.keys.forgottenKeys(p.Tenant),
		s.store.keys.Execution(p.Tenant, p.Execution), s.store.keys.history(p.Tenant, p.Execution),
	}
	args := []any{p.Member, "", ""}
	if p.Err == nil {
		args[1], args[2] = noted(p.Timer), "moved:"+tombstone(p.Timer)
		args = append(args, s.changed(event.TimerCancelled, p.Timer, p.now, by)...)
	}
	n, err := cancelTimerScript.Run(ctx, s.store.rdb, keys, args...).Int()
	return n == 1, failed("cancel a timer", err)
}

// MoveTimer sets a timer for another moment, at which it is still the same one to its
// execution, and returns what it has become. It reports false if the timer is gone.
func (s Timers) MoveTimer(ctx context.Context, p Pending, to time.Time, by string) (moved Pending, done bool, err error) {
	if p.Err != nil {
		return p, false, p.Err
	}
	text := movedMember(p.Member, to.UTC())
	moved = pendingOf(redis.Z{Score: score(to), Member: text}, p.now)
	if moved.Err != nil || !moved.Moment().Equal(to) {
		return p, false, fmt.Errorf("move timer %s: its JSON has no end to write moved_to to", p.ID)
	}
	keys := []string{
		s.store.keys.Timers(p.Tenant), s.store.keys.timerKeys(p.Tenant), s.store.keys.forgottenKeys(p.Tenant),
		s.store.keys.Execution(p.Tenant, p.Execution), s.store.keys.Stream(p.Tenant), s.store.keys.history(p.Tenant, p.Execution),
	}
	news := s.news(moved.Timer)
	args := append([]any{p.Member, formatScore(to), text, identity(p.Timer), noOrder(), tombstone(p.Timer), len(news)}, news...)
	args = append(args, s.changed(event.TimerScheduled, moved.Timer, p.now, by)...)
	n, err := moveTimerScript.Run(ctx, s.store.rdb, keys, args...).Int()
	return moved, n == 1, failed("move a timer", err)
}

// movedMember is the text of a timer with another moment at its end: what else
// it says, in whichever form, stays.
func movedMember(text string, to time.Time) string {
	const name = `,"moved_to":`
	body := strings.TrimSuffix(strings.TrimSpace(text), "}")
	if at := strings.LastIndex(body, name); at >= 0 && !strings.ContainsAny(body[at+len(name):], ",{}") {
		body = body[:at]
	}
	return body + name + string(event.Encode(to)) + "}"
}

// Restoration is what an execution waits for and Redis does not have.
type Restoration struct {
	Timers   []event.Timer // due when they were, or when an operator has moved them to
	Listen   []string      // types of events
	Requests []event.Event // that no executor has
}

// Empty reports whether there is nothing to restore.
func (r Restoration) Empty() bool { return len(r.Timers)+len(r.Listen)+len(r.Requests) == 0 }

// Restore sets timers again that an execution waits for, lists it as a listener again,
// and sends its lost requests again: all of it, or nothing and Conflict if the execution
// has another version than the one by which it was found out. A timer that is set is not
// set twice. What is due fires at once.
func (s Timers) Restore(ctx context.Context, x Execution, r Restoration, by string) (Outcome, error) {
	if err := checkExecution(x.Tenant, x.ID); err != nil {
		return Conflict, err
	}
	now, err := s.store.Now(ctx)
	if err != nil {
		return Conflict, err
	}
	keys := []string{s.store.keys.Timers(x.Tenant), s.store.keys.Execution(x.Tenant, x.ID), s.store.keys.history(x.Tenant, x.ID), s.store.keys.Stream(x.Tenant)}
	for _, typ := range r.Listen {
		keys = append(keys, s.store.keys.Listeners(x.Tenant, typ))
	}
	var note []any
	if len(r.Listen)+len(r.Requests) > 0 {
		restored := event.Restored{Listen: r.Listen, By: operator(by)}
		for _, e := range r.Requests {
			restored.Requests = append(restored.Requests, e.Task)
		}
		note = s.store.note(event.Event{
			Type: event.ExecutionRestored, Time: now, Tenant: x.Tenant, Workflow: x.Workflow, Execution: x.ID,
			Data: event.Encode(restored),
		})
	}
	args := append([]any{x.Version, x.ID, len(r.Requests), len(note)}, note...)
	for _, e := range r.Requests {
		e.Time = now
		fields := anys(s.store.fields(e))
		args = append(append(args, len(fields)), fields...)
	}
	for _, t := range r.Timers {
		if t.Tenant != x.Tenant || t.Execution != x.ID {
			return Conflict, fmt.Errorf("%w: a timer of execution %s cannot be set for %s", ErrName, t.Execution, x.ID)
		}
		note, news := s.changed(event.TimerScheduled, t, now, by), s.news(t)
		args = append(append(args, formatScore(t.Due()), member(t), "", tombstone(t), len(note)), note...)
		if !t.MovedTo.IsZero() {
			args[len(args)-len(note)-3] = member(t)
		}
		args = append(append(args, len(news)), news...)
	}
	n, err := restoreScript.Run(ctx, s.store.rdb, keys, args...).Int()
	if err != nil || n != 1 {
		return Conflict, failed("restore execution "+x.ID, err)
	}
	return Committed, nil
}

// changed are the fields of the entry about a change of a timer.
func (s Timers) changed(typ event.Type, t event.Timer, now time.Time, by string) []any {
	return s.store.note(event.Event{
		Type: typ, Time: now, Tenant: t.Tenant, Workflow: t.Workflow, Execution: t.Execution, Task: t.TaskID,
		Data: event.Encode(event.TimerChange{Timer: t, By: operator(by)}),
	})
}

// note is an entry of a history that an operator makes, as annotate wants it.
func (s *Store) note(e event.Event) []any {
	e.ID, e.Source = e.Execution+"/", OperatorSource
	return anys(s.fields(e))[1:] // without the name of the id
}

// OperatorSource is the source of events that operators make.
const OperatorSource = "/flunq/cli"

// operator is the name of the operator who changes something.
func operator(by string) string { return cmp.Or(by, "unknown") }
