// Package timers sets, cancels, fires, moves and lists timers. No timer fires early by Redis' clock,
// and each fires once as long as Redis keeps what it has confirmed. Its keys are the sorted set of
// timers and the keys that belong to it. It publishes to tenants' streams.
package timers

import (
	"context"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/scripts"
	"flunq.io/flunq/engine/store/wire"
)

// Timers sets, fires and changes timers.
type Timers struct {
	store *store.Store
	rdb   *wire.Client
	keys  store.Keys
}

// New returns the timers of a Store.
func New(s *store.Store) Timers { return Timers{store: s, rdb: s.Redis(), keys: s.Keys()} }

//nolint:gochecknoglobals // constants that go-redis wraps
var (
	setTimersScript   = scripts.New("mine", "moved", "timer_keys", "set_timers")
	fireScript        = scripts.New("timer_keys", "skip", "fire")
	cancelTimerScript = scripts.New("even_if_full", "timer_keys", "append_entry", "cancel_timer")
	moveTimerScript   = scripts.New("even_if_full", "announce_first", "append_entry", "move_timer")
	restoreScript     = scripts.New("even_if_full", "announce_first", "append_entry", "restore")
	setInputScript    = scripts.New("set_input")
	timersFromScript  = scripts.Reading("timers_from")
)

// SetEvent returns the fields of the Announcement of a timer.
func (ts Timers) SetEvent(t event.Timer) []any { return wire.Args(ts.store.Fields(Announcement(t))) }

// Announcement returns the event that announces to the timer services a timer that no event has
// requested.
func Announcement(t event.Timer) event.Event {
	return event.Event{
		ID:     t.Execution + t.TaskID + "/" + string(t.Kind) + t.Key + "/set/" + strconv.FormatInt(t.Due().UnixNano(), 10),
		Source: "/flunq/store", Type: event.TimerSet, Tenant: t.Tenant, Workflow: t.Workflow, Execution: t.Execution, Task: t.TaskID,
	}
}

// WakeService makes a timer service read the timers of a tenant, after the service that knew the next
// one has crashed.
func (ts Timers) WakeService(ctx context.Context, tenant string) error {
	now, err := ts.store.NowOf(ctx, tenant)
	if err != nil {
		return err
	}
	e := event.Event{
		ID: "timers/" + strconv.FormatInt(now.UnixMicro(), 10), Source: "/flunq/store", Type: event.TimerSet, Time: now, Tenant: tenant,
	}
	// Without a stream, no service is waiting for it.
	key := ts.keys.Stream(tenant)
	_, err = ts.store.WriteEvenIfFull(ctx, key, append([]any{"xadd", key, "nomkstream", "*"}, wire.Args(ts.store.Fields(e))...)...)
	return store.Failed("wake the timer services", err)
}

// Indexes returns one tenant for each set of timers: all tenants share one, but on a cluster each
// has its own.
func (ts Timers) Indexes(tenants []string) []string {
	if ts.keys.Clustered() || len(tenants) == 0 {
		return tenants
	}
	return tenants[:1]
}

// RemoveTenant removes the timers of a tenant, on a cluster with everything that belongs to them. On a
// single Redis their keys are forgotten in time.
func (ts Timers) RemoveTenant(ctx context.Context, tenant string) error {
	if ts.keys.Clustered() {
		err := ts.rdb.Unlink(ctx, ts.keys.Timers(tenant), ts.keys.TimerKeys(tenant), ts.keys.ForgottenKeys(tenant), ts.keys.AskedTimers(tenant)).Err()
		return store.Failed("remove the timers of tenant "+tenant, err)
	}
	now, err := ts.store.NowOf(ctx, tenant)
	if err != nil {
		return err
	}
	all := ts.rdb.ZScan(ctx, ts.keys.Timers(tenant), 0, `*"`+tenant+`"*`, store.ScanCount)
	err = wire.EachPair(ctx, all, func(member, _ string) error {
		p := pendingOf(redis.Z{Member: member}, now)
		if p.Tenant != tenant {
			return nil
		}
		_, err := ts.Cancel(ctx, p, "")
		return err
	})
	return store.Failed("remove the timers of tenant "+tenant, err)
}

// storedIdentity returns the identity of a timer that may be in the hash of timer keys, otherwise "".
func storedIdentity(t event.Timer) string {
	if !t.Keyed() && t.MovedTo.IsZero() {
		return ""
	}
	return store.TimerIdentity(t)
}

// noOrder returns the order of timers that were set at an unknown position.
func noOrder() string { return strings.Repeat("0", 40) }

// score returns when a timer is due in Unix seconds, rounded up because a float64 cannot represent
// nanoseconds: a timer never fires early.
func score(t time.Time) float64 {
	seconds := float64(t.Unix()) + float64(t.Nanosecond())/1e9
	for before(seconds, t) {
		seconds = math.Nextafter(seconds, math.Inf(1))
	}
	return seconds
}

// before compares exactly: the fraction of a float64 of this size is coarse enough to be
// multiplied without rounding.
func before(seconds float64, t time.Time) bool {
	whole := math.Floor(seconds)
	if int64(whole) != t.Unix() {
		return int64(whole) < t.Unix()
	}
	return (seconds-whole)*1e9 < float64(t.Nanosecond())
}

// FormatScore returns the score of a timer that is due at t.
func FormatScore(t time.Time) string { return strconv.FormatFloat(score(t), 'f', -1, 64) }

// micros returns the first microsecond of Redis' clock at which a timer is due.
func micros(t time.Time) int64 {
	up := t.Add(time.Microsecond - time.Nanosecond)
	return up.UnixMicro()
}

// originalMember returns the member of a timer in the sorted set before an operator moves it.
func originalMember(t event.Timer) string {
	t.MovedTo = time.Time{}
	return event.TimerText(&t)
}

// Armed looks up timers that an execution has requested, even if an operator has moved them. Timers
// that are not set have no ID.
func (ts Timers) Armed(ctx context.Context, timers []event.Timer) ([]Pending, error) {
	if len(timers) == 0 {
		return nil, nil
	}
	pipe := ts.rdb.Pipeline()
	scores, moved := make([]*redis.FloatCmd, len(timers)), make([]*redis.SliceCmd, len(timers))
	for i, t := range timers {
		if err := store.CheckTenant(t.Tenant); err != nil {
			return nil, err
		}
		scores[i] = pipe.ZScore(ctx, ts.keys.Timers(t.Tenant), originalMember(t))
		moved[i] = pipe.HMGet(ctx, ts.keys.Execution(t.Tenant, t.Execution), "moved:"+store.Tombstone(t))
	}
	clock := pipe.Time(ctx)
	if err := wire.ExceptNil(pipe.Exec(ctx)); err != nil { // a timer that is not set has no score
		return nil, store.Failed("read the timers of an execution", err)
	}
	out := make([]Pending, len(timers))
	var elsewhere []int // indexes of the moved timers
	for i, t := range timers {
		out[i] = Pending{Due: Due{Timer: t, Member: originalMember(t), Now: clock.Val().UTC()}}
		text := wire.List(moved[i].Val()).Text(0) // "" if it was not moved
		if scores[i].Err() == nil {
			out[i] = pendingOf(redis.Z{Score: scores[i].Val(), Member: out[i].Member}, out[i].Now)
		} else if text != "" {
			out[i].Member = text
			elsewhere = append(elsewhere, i)
		}
	}
	if len(elsewhere) == 0 {
		return out, nil
	}
	for _, i := range elsewhere {
		scores[i] = pipe.ZScore(ctx, ts.keys.Timers(timers[i].Tenant), out[i].Member)
	}
	if err := wire.ExceptNil(pipe.Exec(ctx)); err != nil {
		return nil, store.Failed("read the moved timers of an execution", err)
	}
	for _, i := range elsewhere {
		if scores[i].Err() == nil {
			out[i] = pendingOf(redis.Z{Score: scores[i].Val(), Member: out[i].Member}, out[i].Now)
		}
	}
	return out, nil
}

// IsSet reports whether a timer is among those that will fire.
func (ts Timers) IsSet(ctx context.Context, t event.Timer) (bool, error) {
	entries, err := ts.entriesOf(ctx, t.Tenant, micros(t.FireAt))
	return slices.ContainsFunc(entries, func(entry redis.Z) bool {
		d := DueOf(entry, time.Time{})
		return d.Tenant == t.Tenant && d.Execution == t.Execution && d.TaskID == t.TaskID && d.Key == t.Key
	}), err
}
