package timers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/wire"
)

// SetInput sets an InputTimer, whose execution must exist and not have ended, or a StartTimer, whose
// execution must not exist. It moves an earlier timer with the same key and reports that it did. The
// error wraps store.ErrNotFound, ErrEnded or ErrExists if the execution does not meet the condition.
func (ts Timers) SetInput(ctx context.Context, t event.Timer, now time.Time) (moved bool, err error) {
	if err := store.CheckIDs(t.Tenant, t.Execution); err != nil {
		return false, err
	}
	if err := ts.store.AddTenant(ctx, t.Tenant); err != nil {
		return false, err
	}
	note := ""
	if t.Kind == event.InputTimer {
		note = store.TimerNote(t)
	}
	keys := []string{
		ts.keys.Stream(t.Tenant), ts.keys.Timers(t.Tenant), ts.keys.TimerKeys(t.Tenant), ts.keys.ForgottenKeys(t.Tenant), ts.keys.Execution(t.Tenant, t.Execution),
	}
	args := append([]any{FormatScore(t.Due()), ts.member(&t), store.TimerIdentity(t), note}, wire.Args(ts.store.Fields(event.Event{
		ID: t.InputID() + "/set/" + strconv.FormatInt(now.UnixNano(), 10), Source: OperatorSource, Type: event.TimerScheduled, Time: now,
		Tenant: t.Tenant, Workflow: t.Workflow, Execution: t.Execution, Data: event.Encode(t),
	}))...)
	switch status, err := setInputScript().Run(ctx, ts.rdb, keys, args...).Text(); {
	case err != nil:
		return false, store.Failed("set an input", err)
	case status == "set" || status == "moved":
		return status == "moved", nil
	case t.Kind == event.StartTimer:
		return false, fmt.Errorf("execution %s: %w", t.Execution, store.ErrExists)
	case status == "":
		return false, fmt.Errorf("execution %s: %w", t.Execution, store.ErrNotFound)
	default:
		return false, fmt.Errorf("execution %s %w: it is %s", t.Execution, store.ErrEnded, status)
	}
}

// Inputs returns the pending inputs of an execution, the next one first.
func (ts Timers) Inputs(ctx context.Context, tenant, execution string) (out []Pending, err error) {
	if err := store.CheckIDs(tenant, execution); err != nil {
		return nil, err
	}
	var members []string
	notes := ts.rdb.HScan(ctx, ts.keys.Execution(tenant, execution), 0, store.InputNote+"*", store.ScanCount)
	err = wire.EachPair(ctx, notes, func(_, member string) error {
		members = append(members, member)
		return nil
	})
	if err != nil {
		return nil, store.Failed("read the inputs of execution "+execution, err)
	}
	slices.Sort(members)
	for _, member := range slices.Compact(members) {
		p, isSet, err := ts.find(ctx, tenant, member)
		if err != nil {
			return nil, store.Failed("read the inputs of execution "+execution, err)
		}
		if isSet {
			out = append(out, p)
		}
	}
	slices.SortFunc(out, compareDue)
	return out, nil
}

// StartKey is the key of a delayed start, unless the user gives another one.
const StartKey = "start"

// Starts returns the timers that would start an execution, the next one first. It reads the timer keys
// of the whole tenant.
func (ts Timers) Starts(ctx context.Context, tenant, execution string) (out []Pending, err error) {
	if err := store.CheckIDs(tenant, execution); err != nil {
		return nil, err
	}
	anyKey := strings.TrimSuffix(store.TimerIdentity(event.Timer{Tenant: tenant, Execution: execution, Kind: event.StartTimer}), `"]`)
	pattern := strings.NewReplacer(`\`, `\\`, `[`, `\[`, `]`, `\]`, `*`, `\*`, `?`, `\?`).Replace(anyKey) + "*"
	starts := ts.rdb.HScan(ctx, ts.keys.TimerKeys(tenant), 0, pattern, store.ScanCount)
	err = wire.EachPair(ctx, starts, func(_, kept string) error {
		_, member, _ := strings.Cut(kept, " ")
		p, isSet, err := ts.find(ctx, tenant, member)
		if isSet && p.Err == nil && p.Kind == event.StartTimer {
			out = append(out, p)
		}
		return err
	})
	if err != nil {
		return nil, store.Failed("read the start of execution "+execution, err)
	}
	slices.SortFunc(out, compareDue)
	return slices.CompactFunc(out, func(a, b Pending) bool { return a.Member == b.Member }), nil // HSCAN may repeat fields
}

// find returns the timer with a member; false if it has fired or was cancelled.
func (ts Timers) find(ctx context.Context, tenant, member string) (p Pending, isSet bool, err error) {
	score, err := ts.rdb.ZScore(ctx, ts.keys.Timers(tenant), member).Result()
	if errors.Is(err, redis.Nil) {
		return p, false, nil
	}
	return pendingOf(redis.Z{Score: score, Member: member}, time.Time{}), err == nil, err
}

func compareDue(a, b Pending) int {
	return cmp.Or(cmp.Compare(a.score, b.score), strings.Compare(a.Member, b.Member))
}

// current returns the member of the timer that is set under the same key as t, "" if none is, and the
// order of the last request for that key; see timer_keys.lua.
func (ts Timers) current(ctx context.Context, t event.Timer) (member, order string, err error) {
	kept, err := ts.rdb.HGet(ctx, ts.keys.TimerKeys(t.Tenant), store.TimerIdentity(t)).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return "", "", store.Failed("read the timer of a key", err)
	}
	order, member, _ = strings.Cut(kept, " ")
	return member, order, nil
}

// Superseded reports whether the key of an input, which fired with the given store.Message.Order, was set
// again or cancelled afterwards.
func (ts Timers) Superseded(ctx context.Context, t event.Timer, order string) (bool, error) {
	member, last, err := ts.current(ctx, t)
	if err != nil {
		return false, err
	}
	current := DueOf(redis.Z{Member: member}, time.Time{})
	return last > order || member != "" && current.Err == nil && !current.FireAt.Equal(t.FireAt), nil
}
