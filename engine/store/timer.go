package store

import (
	"context"
	"encoding/json"
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
	seconds := float64(t.UnixNano()) / 1e9
	if int64(seconds*1e9) < t.UnixNano() {
		seconds = math.Nextafter(seconds, math.Inf(1))
	}
	return seconds
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
	fields := slices.Clone(m.Fields)
	attempt := strconv.Itoa(m.Attempt + 1)
	if i := slices.Index(fields, event.AttemptAttribute); i >= 0 && i%2 == 0 {
		fields[i+1] = attempt
	} else {
		fields = append(fields, event.AttemptAttribute, attempt)
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

// Due is a timer whose time has come.
type Due struct {
	event.Timer
	Member string    // as it stands in the ZSET
	Score  time.Time // that it is filed under, for one that cannot be read
	Err    error     // why it cannot be read, if so
	now    time.Time
}

// Due finds up to limit timers whose time has come by Redis' clock, the longest
// due first, and when the next one is due after them; zero if there is none.
func (s *Store) Due(ctx context.Context, tenant string, limit int) (due []Due, next, now time.Time, err error) {
	pipe := s.rdb.Pipeline()
	entries := pipe.ZRangeWithScores(ctx, s.keys.timers(tenant), 0, int64(limit))
	clock := pipe.Time(ctx)
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, next, now, failed("look for due timers", err)
	}
	now = clock.Val().UTC()
	for _, entry := range entries.Val() {
		d := dueOf(entry, now)
		if at := time.UnixMicro(micros(d.FireAt)).UTC(); at.After(now) {
			if next.IsZero() || at.Before(next) {
				next = at
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
	d := Due{Member: text, now: now, Score: time.Unix(0, int64(entry.Score*1e9)).UTC()}
	if err := json.Unmarshal([]byte(text), &d.Timer); err != nil {
		d.Err = err
		d.FireAt = d.Score
	}
	return d
}

// Fire publishes what is due and takes it out, each timer all or nothing. What
// is gone meanwhile, or not due by Redis' clock after all, stays as it is.
func (s *Store) Fire(ctx context.Context, tenant string, due []Due) (fired int, err error) {
	keys := []string{s.keys.timers(tenant)}
	var args []any
	for _, d := range due {
		fields := s.firedFields(d)
		keys = append(keys, s.keys.stream(d.Tenant))
		args = append(args, d.Member, micros(d.FireAt), len(fields))
		args = append(args, anys(fields)...)
	}
	if len(due) == 0 {
		return 0, nil
	}
	fired, err = fireScript.Run(ctx, s.rdb, keys, args...).Int()
	return fired, failed("fire", err)
}

// firedFields are those of the event that a timer publishes: of a delivery the
// entry that is to be delivered again, of all others TimerFired.
func (s *Store) firedFields(d Due) []string {
	if d.Kind == event.DeliveryTimer {
		var fields []string
		if json.Unmarshal(d.Event, &fields) == nil && len(fields) > 0 && len(fields)%2 == 0 {
			return fields
		}
	}
	return s.fields(event.Event{
		ID:     fmt.Sprintf("%s%s/%s%s/%d", d.Execution, d.TaskID, d.Kind, d.Key, d.FireAt.UnixNano()),
		Source: "/flunq/timer", Type: event.TimerFired, Time: d.now,
		Tenant: d.Tenant, Workflow: d.Workflow, Execution: d.Execution, Task: d.TaskID,
		Data: event.Encode(event.Fired{Timer: d.Timer, ScheduledFor: d.FireAt, FiredAt: d.now}),
	})
}

// Renew keeps messages from being claimed for another lease, as far as they are
// still the consumer's.
func (s *Store) Renew(ctx context.Context, msgs ...Message) error {
	for _, m := range msgs {
		err := renewScript.Run(ctx, s.rdb, []string{s.keys.stream(m.Tenant)}, m.Group, m.ID, m.Consumer).Err()
		if err != nil {
			return failed("renew a lease", err)
		}
	}
	return nil
}

func sorted(in []string) []string {
	slices.Sort(in)
	return in
}
