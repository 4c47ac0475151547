package timers

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/wire"
)

// SetInput sets an InputTimer, whose execution must exist and not have ended, or a StartTimer,
// whose execution must not exist. It moves an earlier one of the same key and reports whether there
// was one. The error wraps store.ErrNotFound, ErrEnded or ErrExists if the execution is none of
// that.
func (ts Timers) SetInput(ctx context.Context, t event.Timer, now time.Time) (moved bool, err error) {
	if err := store.CheckIDs(t.Tenant, t.Execution); err != nil {
		return false, err
	}
	if err := ts.store.AddTenant(ctx, t.Tenant); err != nil {
		return false, err
	}
	h, note := ts.store.TenantKeys(t.Tenant), ""
	if t.Kind == event.InputTimer {
		note = store.TimerNote(t)
	}
	keys := []string{h.Stream, h.Timers, h.TimerKeys, h.ForgottenKeys, h.Execution(t.Execution)}
	args := append([]any{FormatScore(t.Due()), ts.textOf(t), store.TimerIdentity(t), note}, wire.Args(ts.store.Fields(event.Event{
		ID: t.InputID() + "/set/" + strconv.FormatInt(now.UnixNano(), 10), Source: OperatorSource, Type: event.TimerScheduled, Time: now,
		Tenant: t.Tenant, Workflow: t.Workflow, Execution: t.Execution, Data: event.Encode(t),
	}))...)
	switch status, err := setInputScript.Run(ctx, ts.rdb, keys, args...).Text(); {
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

// Superseded reports whether the key of an input was set again after the input had fired.
func (ts Timers) Superseded(ctx context.Context, t event.Timer) (bool, error) {
	kept, err := ts.rdb.HGet(ctx, ts.keys.TimerKeys(t.Tenant), store.TimerIdentity(t)).Result()
	if errors.Is(err, redis.Nil) {
		return false, nil
	}
	if err != nil {
		return false, store.Failed("read the timer of a key", err)
	}
	_, member, _ := strings.Cut(kept, " ")
	current := DueOf(redis.Z{Member: member}, time.Time{})
	return member != "" && current.Err == nil && !current.FireAt.Equal(t.FireAt), nil
}
