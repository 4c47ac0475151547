package timers

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/wire"
)

// The changes that operators make to timers. One script makes the change and appends an entry with
// the operator's name to the history of the timer's execution, unless the execution has ended or
// does not exist.

// FireNow fires a timer, due or not. The published event names the operator, and enters the history
// when the execution handles it. FireNow returns false if the timer is gone.
func (ts Timers) FireNow(ctx context.Context, p Pending, by string) (bool, error) {
	if p.Err != nil {
		return false, p.Err
	}
	p.by = operator(by)
	keys, args := ts.fireCall(p.Tenant, []Due{p.Due}, 0)
	n, err := firedOf(fireScript().Run(ctx, ts.rdb, keys, args...))
	return n == 1, err
}

// Cancel removes a timer, even if an execution waits for it. It returns false if the timer is gone.
func (ts Timers) Cancel(ctx context.Context, p Pending, by string) (bool, error) {
	if p.Err != nil {
		return ts.cancel(ctx, p, "")
	}
	note := store.TimerNote(p.Timer)
	if p.Kind != event.InputTimer {
		note = "moved:" + store.Tombstone(p.Timer)
	}
	return ts.cancel(ctx, p, note, ts.changeEntry(event.TimerCancelled, p.Timer, p.Now, by)...)
}

// cancel removes a timer and its note in the hash of its execution, and appends the entry, if any, to
// the history.
func (ts Timers) cancel(ctx context.Context, p Pending, note string, entry ...any) (bool, error) {
	keys := []string{
		ts.keys.Timers(p.Tenant), ts.keys.TimerKeys(p.Tenant), ts.keys.ForgottenKeys(p.Tenant),
		ts.keys.Execution(p.Tenant, p.Execution), ts.keys.History(p.Tenant, p.Execution),
	}
	identity := ""
	if p.Err == nil {
		identity = storedIdentity(p.Timer)
	}
	n, err := cancelTimerScript().Run(ctx, ts.rdb, keys, append([]any{p.Member, identity, note}, entry...)...).Int()
	return n == 1, store.Failed("cancel a timer", err)
}

// CancelStart removes the timer with StartKey of an execution that has been started meanwhile, and
// reports whether there was one. It adds no entry to the history.
func (ts Timers) CancelStart(ctx context.Context, tenant, execution string) (cancelled Pending, had bool, err error) {
	t := event.Timer{Tenant: tenant, Execution: execution, Kind: event.StartTimer, Key: StartKey}
	member, _, err := ts.current(ctx, t)
	if err != nil || member == "" {
		return cancelled, false, err
	}
	if cancelled, had, err = ts.find(ctx, tenant, member); err != nil || !had {
		return cancelled, false, store.Failed("read the start of execution "+execution, err)
	}
	had, err = ts.cancel(ctx, cancelled, "")
	return cancelled, had, err
}

// Move changes the time of a timer and returns the moved timer. For its execution it remains the same
// timer. Move returns false if the timer is gone.
func (ts Timers) Move(ctx context.Context, p Pending, to time.Time, by string) (moved Pending, done bool, err error) {
	if p.Err != nil {
		return p, false, p.Err
	}
	text := movedMember(p.Member, to.UTC())
	moved = pendingOf(redis.Z{Score: score(to), Member: text}, p.Now)
	if moved.Err != nil || !moved.Moment().Equal(to) {
		return p, false, fmt.Errorf("move timer %s: moved_to cannot be appended to its JSON", p.ID)
	}
	keys := []string{
		ts.keys.Timers(p.Tenant), ts.keys.TimerKeys(p.Tenant), ts.keys.ForgottenKeys(p.Tenant),
		ts.keys.Execution(p.Tenant, p.Execution), ts.keys.Stream(p.Tenant), ts.keys.History(p.Tenant, p.Execution),
	}
	args := []any{p.Member, FormatScore(to), text, store.TimerIdentity(p.Timer), noOrder(), store.TimerNote(p.Timer)}
	args = ts.store.AppendFields(args, Announcement(moved.Timer))
	args = append(args, ts.changeEntry(event.TimerScheduled, moved.Timer, p.Now, by)...)
	n, err := moveTimerScript().Run(ctx, ts.rdb, keys, args...).Int()
	return moved, n == 1, store.Failed("move a timer", err)
}

// movedMember returns the member of a timer with moved_to appended or replaced, and otherwise
// unchanged.
func movedMember(text string, to time.Time) string {
	const name = `,"moved_to":`
	body := strings.TrimSuffix(strings.TrimSpace(text), "}")
	if at := strings.LastIndex(body, name); at >= 0 && !strings.ContainsAny(body[at+len(name):], ",{}") {
		body = body[:at]
	}
	return body + name + string(event.Encode(to)) + "}"
}

// Restoration lists what an execution waits for but Redis has lost.
type Restoration struct {
	Timers   []event.Timer // with their original times, or those that an operator has moved them to
	Listen   []string      // types of events
	Requests []event.Event // requests that no executor has
}

// Empty reports whether there is nothing to restore.
func (r Restoration) Empty() bool { return len(r.Timers)+len(r.Listen)+len(r.Requests) == 0 }

// Restore sets the missing timers of an execution, adds it to the missing lists of listeners and
// sends its lost requests again. It does all of this, or nothing and returns Conflict if the version
// of the execution is not that of x. It skips timers that are set. Overdue timers fire immediately.
func (ts Timers) Restore(ctx context.Context, x store.Execution, r Restoration, by string) (store.Outcome, error) {
	if err := store.CheckIDs(x.Tenant, x.ID); err != nil {
		return store.Conflict, err
	}
	now, err := ts.store.NowOf(ctx, x.Tenant)
	if err != nil {
		return store.Conflict, err
	}
	keys := []string{ts.keys.Timers(x.Tenant), ts.keys.Execution(x.Tenant, x.ID), ts.keys.History(x.Tenant, x.ID), ts.keys.Stream(x.Tenant)}
	for _, typ := range r.Listen {
		keys = append(keys, ts.keys.Listeners(x.Tenant, typ))
	}
	var note []any
	if len(r.Listen)+len(r.Requests) > 0 {
		restored := event.Restored{Listen: r.Listen, By: operator(by)}
		for _, e := range r.Requests {
			restored.Requests = append(restored.Requests, e.Task)
		}
		note = ts.entry(event.Event{
			Type: event.ExecutionRestored, Time: now, Tenant: x.Tenant, Workflow: x.Workflow, Execution: x.ID,
			Data: event.Encode(restored),
		})
	}
	args := append([]any{x.Version, x.ID, len(r.Requests), len(note)}, note...)
	for _, e := range r.Requests {
		e.Time = now
		args = ts.store.AppendFields(args, e)
	}
	for _, t := range r.Timers {
		if t.Tenant != x.Tenant || t.Execution != x.ID {
			return store.Conflict, fmt.Errorf("%w: a timer of execution %s cannot be set for %s", store.ErrName, t.Execution, x.ID)
		}
		note, text, moved := ts.changeEntry(event.TimerScheduled, t, now, by), event.TimerText(&t), ""
		if !t.MovedTo.IsZero() {
			moved = text
		}
		args = append(append(args, FormatScore(t.Due()), text, moved, store.Tombstone(t), len(note)), note...)
		args = ts.store.AppendFields(args, Announcement(t))
	}
	n, err := restoreScript().Run(ctx, ts.rdb, keys, args...).Int()
	if err != nil || n != 1 {
		return store.Conflict, store.Failed("restore execution "+x.ID, err)
	}
	return store.Committed, nil
}

// changeEntry returns the fields of the history entry about a change to a timer.
func (ts Timers) changeEntry(typ event.Type, t event.Timer, now time.Time, by string) []any {
	return ts.entry(event.Event{
		Type: typ, Time: now, Tenant: t.Tenant, Workflow: t.Workflow, Execution: t.Execution, Task: t.TaskID,
		Data: event.Encode(event.TimerChange{Timer: t, By: operator(by)}),
	})
}

// entry returns the fields of an operator's history entry, as append_entry.lua reads them.
func (ts Timers) entry(e event.Event) []any {
	e.ID, e.Source = e.Execution+"/", OperatorSource
	return wire.Args(ts.store.Fields(e))[1:] // without the name of the id
}

// OperatorSource is the source of operators' events.
const OperatorSource = "/flunq/cli"

// operator returns the name of the operator who changes something.
func operator(by string) string { return cmp.Or(by, "unknown") }
