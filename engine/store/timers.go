package store

import (
	"context"
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"flunq.io/flunq/engine/event"
)

// news are the fields of the event that tells of a timer which no event has asked for.
func (s Timers) news(t event.Timer) []any {
	return anys(s.store.fields(event.Event{
		ID:     t.Execution + t.TaskID + "/" + string(t.Kind) + t.Key + "/set/" + strconv.FormatInt(t.Due().UnixNano(), 10),
		Source: "/flunq/store", Type: event.TimerSet, Tenant: t.Tenant, Workflow: t.Workflow, Execution: t.Execution, Task: t.TaskID,
	}))
}

// WakeService makes a timer service look at the timers of a tenant, after the service that knew
// the next one has crashed.
func (s Timers) WakeService(ctx context.Context, tenant string) error {
	now, err := s.store.Now(ctx)
	if err != nil {
		return err
	}
	e := event.Event{
		ID: "timers/" + strconv.FormatInt(now.UnixMicro(), 10), Source: "/flunq/store", Type: event.TimerSet, Time: now, Tenant: tenant,
	}
	// Without a stream, no service waits.
	err = s.store.rdb.XAdd(ctx, &redis.XAddArgs{Stream: s.store.keys.Stream(tenant), NoMkStream: true, Values: s.store.fields(e)}).Err()
	if errors.Is(err, redis.Nil) {
		err = nil
	}
	return failed("wake the timer services", err)
}

// TimerIndexes is of each set of timers one tenant who has it: all share one, but on
// a cluster each has its own.
func (s Timers) TimerIndexes(tenants []string) []string {
	if s.store.keys.cluster || len(tenants) == 0 {
		return tenants
	}
	return tenants[:1]
}

// RemoveTenant removes the timers of a tenant.
func (s Timers) RemoveTenant(ctx context.Context, tenant string) error {
	now, err := s.store.Now(ctx)
	if err != nil {
		return err
	}
	for cursor := uint64(0); ; {
		// Members and scores, one after the other.
		page, next, err := s.store.rdb.ZScan(ctx, s.store.keys.Timers(tenant), cursor, `*"`+tenant+`"*`, scanCount).Result()
		if err != nil {
			return failed("look for the timers of tenant "+tenant, err)
		}
		for pair := range slices.Chunk(page, 2) {
			if p := pendingOf(redis.Z{Member: pair[0]}, now); p.Tenant == tenant {
				if _, err := s.CancelTimer(ctx, p, ""); err != nil {
					return err
				}
			}
		}
		if cursor = next; cursor == 0 {
			return nil
		}
	}
}

// identity is what a timer is found by among the keys: one with a key by that,
// and one that was moved by what it was before.
func identity(t event.Timer) string {
	if t.Keyed() {
		return "k" + string(event.Encode([]string{t.Tenant, t.Execution, t.TaskID, t.Key}))
	}
	return "m" + string(event.Encode([]string{t.Tenant, t.Execution, tombstone(t)}))
}

// noted is the identity of a timer of which the keys may know, else empty.
func noted(t event.Timer) string {
	if !t.Keyed() && t.MovedTo.IsZero() {
		return ""
	}
	return identity(t)
}

// noOrder is the order of timers that were set at an unknown time.
func noOrder() string { return strings.Repeat("0", 40) }

// score is the moment a timer is due at, in Unix seconds. A float64 has no
// nanoseconds to spare today, so it is rounded up: never early.
func score(t time.Time) float64 {
	seconds := float64(t.Unix()) + float64(t.Nanosecond())/1e9
	for before(seconds, t) {
		seconds = math.Nextafter(seconds, math.Inf(1))
	}
	return seconds
}

// before compares exactly: what a float64 has behind the point of a number of
// seconds is that coarse that it can be multiplied without rounding.
func before(seconds float64, t time.Time) bool {
	whole := math.Floor(seconds)
	if int64(whole) != t.Unix() {
		return int64(whole) < t.Unix()
	}
	return (seconds-whole)*1e9 < float64(t.Nanosecond())
}

func formatScore(t time.Time) string { return strconv.FormatFloat(score(t), 'f', -1, 64) }

// micros is the first microsecond of Redis' clock at which a timer is due.
func micros(t time.Time) int64 {
	up := t.Add(time.Microsecond - time.Nanosecond)
	return up.UnixMicro()
}

// Timers sets, fires and changes timers.
type Timers struct{ store *Store }

// NewTimers returns the timers of a Store.
func NewTimers(s *Store) Timers { return Timers{s} }

//nolint:gochecknoglobals // constants that go-redis wraps
var (
	setTimersScript   = script("mine", "moved", "timer_keys", "set_timers")
	fireScript        = script("timer_keys", "unread", "fire")
	cancelTimerScript = script("even_if_full", "timer_keys", "note", "cancel_timer")
	moveTimerScript   = script("even_if_full", "wake", "note", "move_timer")
	restoreScript     = script("even_if_full", "wake", "note", "restore")
	timersFromScript  = script("timers_from")
)

// asSet is how a timer stands in the ZSET until somebody moves it.
func asSet(t event.Timer) string {
	t.MovedTo = time.Time{}
	return member(t)
}

// Armed finds timers that an execution has set among those that will fire, wherever
// they were moved to; those that are not there, or not yet, have no ID.
func (s Timers) Armed(ctx context.Context, timers []event.Timer) ([]Pending, error) {
	if len(timers) == 0 {
		return nil, nil
	}
	pipe := s.store.rdb.Pipeline()
	scores, moved := make([]*redis.FloatCmd, len(timers)), make([]*redis.SliceCmd, len(timers))
	for i, t := range timers {
		if err := CheckTenant(t.Tenant); err != nil {
			return nil, err
		}
		scores[i] = pipe.ZScore(ctx, s.store.keys.Timers(t.Tenant), asSet(t))
		moved[i] = pipe.HMGet(ctx, s.store.keys.Execution(t.Tenant, t.Execution), "moved:"+tombstone(t))
	}
	clock := pipe.Time(ctx)
	// A timer that is not there is redis.Nil.
	if _, err := pipe.Exec(ctx); err != nil && clock.Err() != nil {
		return nil, failed("read the timers of an execution", err)
	}
	out := make([]Pending, len(timers))
	var elsewhere []int // those that were moved
	for i, t := range timers {
		out[i] = Pending{Due: Due{Timer: t, Member: asSet(t), now: clock.Val().UTC()}}
		text, _ := moved[i].Val()[0].(string) // nil where it was not moved
		if scores[i].Err() == nil {
			out[i] = pendingOf(redis.Z{Score: scores[i].Val(), Member: out[i].Member}, out[i].now)
		} else if text != "" {
			out[i].Member = text
			elsewhere = append(elsewhere, i)
		}
	}
	if len(elsewhere) == 0 {
		return out, nil
	}
	for _, i := range elsewhere {
		scores[i] = pipe.ZScore(ctx, s.store.keys.Timers(timers[i].Tenant), out[i].Member)
	}
	clock = pipe.Time(ctx)
	if _, err := pipe.Exec(ctx); err != nil && clock.Err() != nil {
		return nil, failed("read the moved timers of an execution", err)
	}
	for _, i := range elsewhere {
		if scores[i].Err() == nil {
			out[i] = pendingOf(redis.Z{Score: scores[i].Val(), Member: out[i].Member}, out[i].now)
		}
	}
	return out, nil
}
