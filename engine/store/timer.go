package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"flunq.io/flunq/engine/event"
)

// member is a timer as it stands in the ZSET.
func member(t event.Timer) string { return string(event.Encode(t)) }

// tombstone is the field of an execution that says a timer was taken back
// before it was set.
func tombstone(t event.Timer) string {
	return fmt.Sprintf("gone:%s %s %s %d", t.TaskID, t.Kind, t.Key, t.FireAt.UnixNano())
}

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

// Schedule sets a timer, as a message asks. A timer that was taken back
// meanwhile, or whose execution has ended, is not set. It reports false, and does
// nothing, if the message is not the consumer's any more.
func (s *Store) Schedule(ctx context.Context, m Message, t event.Timer) (mine bool, err error) {
	keys := []string{s.keys.stream(m.Tenant), s.keys.timers(t.Tenant), s.keys.execution(t.Tenant, t.Execution)}
	n, err := scheduleScript.Run(ctx, s.rdb, keys, m.Group, m.ID, m.Consumer,
		formatScore(t.FireAt), member(t), tombstone(t)).Int()
	return n == 1, failed("set a timer", err)
}

// Unschedule takes a timer out, as a message asks.
func (s *Store) Unschedule(ctx context.Context, m Message, t event.Timer) (mine bool, err error) {
	keys := []string{s.keys.stream(m.Tenant), s.keys.timers(t.Tenant)}
	n, err := unscheduleScript.Run(ctx, s.rdb, keys, m.Group, m.ID, m.Consumer, member(t)).Int()
	return n == 1, failed("take a timer out", err)
}

// Retry puts a message off: after delay it is delivered again, as an event of the
// same id. It reports false, and does nothing, if the message is not the
// consumer's any more.
func (s *Store) Retry(ctx context.Context, m Message, delay time.Duration) (mine bool, err error) {
	now, err := s.Now(ctx)
	if err != nil {
		return false, err
	}
	fields := object(m.Fields)
	fields[event.AttemptAttribute] = strconv.Itoa(m.Attempt + 1)
	if fields[firstFailureField] == "" {
		fields[firstFailureField] = now.Format(time.RFC3339Nano)
	}
	t := event.Timer{
		Tenant: m.Tenant, Workflow: m.Event.Workflow, Execution: m.Event.Execution, TaskID: m.Event.Task,
		FireAt: now.Add(delay), DurationMS: delay.Milliseconds(), Kind: event.DeliveryTimer, Key: m.ID,
		Event: event.Encode(fields),
	}
	keys := []string{s.keys.stream(m.Tenant), s.keys.timers(m.Tenant)}
	n, err := retryScript.Run(ctx, s.rdb, keys, m.Group, m.ID, m.Consumer, formatScore(t.FireAt), member(t)).Int()
	return n == 1, failed("put a message off", err)
}

// Shelves is of each set of timers one tenant who has it: all share one, but on
// a cluster each has its own.
func (s *Store) Shelves(tenants []string) []string {
	if s.keys.cluster || len(tenants) == 0 {
		return tenants
	}
	return tenants[:1]
}

// Due is a timer whose time has come.
type Due struct {
	event.Timer
	Member string // as it stands in the ZSET
	Err    error  // why it cannot fire, if so
	now    time.Time
	again  map[string]string // of a delivery: the fields of the entry
}

// Due finds up to limit timers whose time has come by Redis' clock, the longest
// due first, and when the next one is due after them; zero if there is none.
//
//nolint:revive // function-result-limit: what is due, and when, is one reading of one clock
func (s *Store) Due(ctx context.Context, tenant string, limit int) (due []Due, next, now time.Time, err error) {
	if err := CheckTenant(tenant); err != nil {
		return nil, next, now, err
	}
	pipe := s.rdb.Pipeline()
	entries := pipe.ZRangeWithScores(ctx, s.keys.timers(tenant), 0, int64(limit))
	clock := pipe.Time(ctx)
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, next, now, failed("look for due timers", err)
	}
	now = clock.Val().UTC()
	soon := score(now.Add(time.Second))
	for _, entry := range entries.Val() {
		d := dueOf(entry, now)
		if at := time.UnixMicro(micros(d.FireAt)).UTC(); at.After(now) {
			if next.IsZero() || at.Before(next) {
				next = at
			}
			if entry.Score > soon {
				break // those behind it are no earlier
			}
			continue
		}
		if len(due) == limit {
			next = now // there are more
			break
		}
		due = append(due, d)
	}
	return due, next, now, nil
}

func dueOf(entry redis.Z, now time.Time) Due {
	text, _ := entry.Member.(string) // go-redis reads nothing else
	d := Due{Member: text, now: now}
	if err := json.Unmarshal([]byte(text), &d.Timer); err != nil {
		d.Err = fmt.Errorf("read the timer: %w", err)
	} else if err := CheckTenant(d.Tenant); err != nil {
		d.Err = err
	} else if d.Kind == event.DeliveryTimer {
		if err := json.Unmarshal(d.Event, &d.again); err != nil || len(d.again) == 0 || len(d.again) > mostFields {
			d.Err = errors.New("read the timer: its event is none")
		}
	}
	if d.FireAt.IsZero() {
		d.FireAt = scored(entry.Score)
	}
	return d
}

// scored is the moment that a score says.
func scored(seconds float64) time.Time {
	const end = 1 << 37 // the year 6325; beyond, and below, a number is as good as another
	whole, fraction := math.Modf(max(-end, min(end, seconds)))
	return time.Unix(int64(whole), int64(fraction*1e9)).UTC()
}

// Fire publishes what is due and takes it out, each timer all or nothing. What
// is gone meanwhile, or not due by Redis' clock after all, stays as it is; what
// cannot be a timer goes to the dead letters of tenant. With an error some of
// them may have fired.
func (s *Store) Fire(ctx context.Context, tenant string, due []Due) (fired int, err error) {
	if err := CheckTenant(tenant); err != nil || len(due) == 0 {
		return 0, err
	}
	keys := []string{s.keys.timers(tenant)}
	var args []any
	for _, d := range due {
		key, fields := s.keys.stream(d.Tenant), s.firedFields(d)
		if d.Err != nil {
			key, fields = s.keys.dead(tenant), s.letter(d)
		}
		keys = append(keys, key)
		args = append(args, d.Member, micros(d.FireAt), len(fields))
		args = append(args, anys(fields)...)
	}
	reply, err := fireScript.Run(ctx, s.rdb, keys, args...).Slice()
	if err != nil || len(reply) != 2 {
		return 0, failed("fire", err)
	}
	n, _ := reply[0].(int64)
	if wrong, _ := reply[1].(string); wrong != "" {
		err = failed("fire", errors.New(wrong))
	}
	return int(n), err
}

// letter is the dead letter of what cannot be a timer.
func (s *Store) letter(d Due) []string {
	at := d.now.Format(time.RFC3339Nano)
	return []string{
		"timer", d.Member, "reason", d.Err.Error(), "attempts", "1", "service", TimerGroup,
		"first_failure", at, "last_failure", at,
	}
}

// firedFields are those of the event that a timer publishes: of a delivery the
// entry that is to be delivered again, of all others TimerFired.
func (s *Store) firedFields(d Due) []string {
	if d.again != nil {
		return listed(d.again)
	}
	return s.fields(event.Event{
		ID:     fmt.Sprintf("%s%s/%s%s/%d", d.Execution, d.TaskID, d.Kind, d.Key, d.FireAt.UnixNano()),
		Source: "/flunq/timer", Type: event.TimerFired, Time: d.now,
		Tenant: d.Tenant, Workflow: d.Workflow, Execution: d.Execution, Task: d.TaskID,
		Data: event.Encode(event.Fired{Timer: d.Timer, ScheduledFor: d.FireAt, FiredAt: d.now}),
	})
}

func sorted(in []string) []string {
	slices.Sort(in)
	return in
}
