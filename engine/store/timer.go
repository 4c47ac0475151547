package store

import (
	"cmp"
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

// member is a timer as it stands in the ZSET.
func member(t event.Timer) string { return event.TimerText(&t) }

// tombstone is the field of an execution that says a timer was taken back
// before it was set.
func tombstone(t event.Timer) string {
	out := append(append(append(make([]byte, 0, 128), "gone:"...), t.TaskID...), ' ') //nolint:mnd // room for most
	out = append(append(append(append(out, t.Kind...), ' '), t.Key...), ' ')
	return string(strconv.AppendInt(out, t.FireAt.UnixNano(), 10))
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
	entry := m.ID
	if m.Attempt > 0 {
		entry = cmp.Or(m.field(firstEntryField), entry)
	}
	ms, seq, _ := strings.Cut(entry, "-")
	if at := m.Event.Time.UnixMilli(); m.Replay > 0 && at > 0 {
		ms, seq = strconv.FormatInt(at, 10), ""
	}
	return digits(ms) + digits(seq)
}

// digits pads a number to 20 digits.
func digits(n string) string { return strings.Repeat("0", max(20-len(n), 0)) + n }

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

// Retry puts a message off: after delay it is delivered again, as an event of the
// same id. It reports false, and does nothing, if the message is not the
// consumer's any more.
func (s *Store) Retry(ctx context.Context, m Message, delay time.Duration) (mine bool, err error) {
	now, err := s.Now(ctx)
	if err != nil {
		return false, err
	}
	fields := object(m.Fields())
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
	keys := []string{s.keys.Stream(m.Tenant), s.keys.Timers(m.Tenant)}
	args := append([]any{m.Group, m.ID, m.Consumer, formatScore(t.FireAt), member(t)}, s.news(t)...)
	n, err := retryScript.Run(ctx, s.rdb, keys, args...).Int()
	return n == 1, failed("put a message off", err)
}

// news are the fields of the event that tells of a timer which no event has asked for.
func (s *Store) news(t event.Timer) []any {
	return anys(s.fields(event.Event{
		ID:     t.Execution + t.TaskID + "/" + string(t.Kind) + t.Key + "/set/" + strconv.FormatInt(t.Due().UnixNano(), 10),
		Source: "/flunq/store", Type: event.TimerSet, Tenant: t.Tenant, Workflow: t.Workflow, Execution: t.Execution, Task: t.TaskID,
	}))
}

// Rouse makes a timer service look at the timers of a tenant, after the service that knew
// the next one has crashed.
func (s *Store) Rouse(ctx context.Context, tenant string) error {
	now, err := s.Now(ctx)
	if err != nil {
		return err
	}
	e := event.Event{
		ID: "timers/" + strconv.FormatInt(now.UnixMicro(), 10), Source: "/flunq/store", Type: event.TimerSet, Time: now, Tenant: tenant,
	}
	// Where there is no stream, nobody reads.
	err = s.rdb.XAdd(ctx, &redis.XAddArgs{Stream: s.keys.Stream(tenant), NoMkStream: true, Values: s.fields(e)}).Err()
	if errors.Is(err, redis.Nil) {
		err = nil
	}
	return failed("wake the timer services", err)
}

// TimerIndexes is of each set of timers one tenant who has it: all share one, but on
// a cluster each has its own.
func (s *Store) TimerIndexes(tenants []string) []string {
	if s.keys.cluster || len(tenants) == 0 {
		return tenants
	}
	return tenants[:1]
}

func sorted(in []string) []string {
	slices.Sort(in)
	return in
}
