package store

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
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

// order is when a timer was set, in digits that compare as texts do: by the entry
// that its event was at first. That of a dead letter is not known any more, and
// the event's own time has to do.
func (m Message) order() string {
	ms, seq, _ := strings.Cut(cmp.Or(m.field(firstEntryField), m.ID), "-")
	if at := m.Event.Time.UnixMilli(); m.Replay > 0 && at > 0 {
		ms, seq = strconv.FormatInt(at, 10), ""
	}
	return digits(ms) + digits(seq)
}

// digits is a number of up to 20 digits in just so many.
func digits(n string) string { return strings.Repeat("0", max(20-len(n), 0)) + n }

// noOrder is that of timers of which nobody knows when they were set.
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

// Schedule sets a timer, as a message asks. A timer that was taken back
// meanwhile, or whose execution has ended, is not set; one with a key takes the
// place of the one before, unless that was set later. It reports false, and does
// nothing, if the message is not the consumer's any more.
func (s *Store) Schedule(ctx context.Context, m Message, t event.Timer) (mine bool, err error) {
	name := ""
	if t.Keyed() {
		name = identity(t)
	}
	n, err := scheduleScript.Run(ctx, s.rdb, s.settingKeys(m, t), m.Group, m.ID, m.Consumer,
		formatScore(t.Due()), member(t), tombstone(t), name, m.order()).Int()
	return n == 1, failed("set a timer", err)
}

// Unschedule takes a timer out, as a message asks: one with a key whatever else
// is said of it, unless it was set later.
func (s *Store) Unschedule(ctx context.Context, m Message, t event.Timer) (mine bool, err error) {
	n, err := unscheduleScript.Run(ctx, s.rdb, s.settingKeys(m, t), m.Group, m.ID, m.Consumer,
		formatScore(t.Due()), member(t), tombstone(t), identity(t), m.order()).Int()
	return n == 1, failed("take a timer out", err)
}

// settingKeys are the keys of the scripts that set timers and take them back.
func (s *Store) settingKeys(m Message, t event.Timer) []string {
	return []string{
		s.keys.stream(m.Tenant), s.keys.timers(t.Tenant), s.keys.execution(t.Tenant, t.Execution),
		s.keys.timerKeys(t.Tenant), s.keys.forgottenKeys(t.Tenant),
	}
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
	if fields[firstEntryField] == "" {
		fields[firstEntryField] = m.ID
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
		if at := time.UnixMicro(micros(d.Due())).UTC(); at.After(now) {
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
	if d.Kind == "" {
		d.Kind = event.WaitTimer
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
	return s.fire(ctx, tenant, due, func(d Due) int64 { return micros(d.Due()) })
}

// fire publishes timers from a microsecond on that each has.
func (s *Store) fire(ctx context.Context, tenant string, due []Due, from func(Due) int64) (fired int, err error) {
	keys := []string{s.keys.timers(tenant), s.keys.timerKeys(tenant), s.keys.forgottenKeys(tenant)}
	var args []any
	for _, d := range due {
		key, fields, name := s.keys.stream(d.Tenant), s.firedFields(d), noted(d.Timer)
		if d.Err != nil {
			key, fields, name = s.keys.dead(tenant), s.letter(d), ""
		}
		keys = append(keys, key)
		args = append(args, d.Member, from(d), name, len(fields))
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
		Data: event.Encode(event.Fired{Timer: d.Timer, ScheduledFor: d.Due(), FiredAt: d.now}),
	})
}

func sorted(in []string) []string {
	slices.Sort(in)
	return in
}
