package store

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"flunq.io/flunq/engine/event"
)

// OtherStream is a stream of a flunq.io deployment of another key scheme, which
// has one for each workflow.
type OtherStream struct{ Key, Tenant, Workflow string }

// The ends of the names of keys that are looked for.
const (
	otherSuffix = ":events"
	deadSuffix  = ":events:dlq"
)

// scanCount is about how many keys one look takes in.
const scanCount = 1000

// OtherStreams finds the streams of another key scheme, of a tenant or of all
// ("*"). It looks at all keys, but at most so many times at a thousand; complete
// says whether that was enough.
func (s *Store) OtherStreams(ctx context.Context, tenant string, looks int) (found []OtherStream, complete bool, err error) {
	keys, complete, err := s.streams(ctx, "tenant:"+tenant+":workflow:*"+otherSuffix, looks)
	for _, key := range keys {
		rest := strings.TrimSuffix(strings.TrimPrefix(key, "tenant:"), otherSuffix)
		name, workflow, ok := strings.Cut(rest, ":workflow:")
		if ok && CheckTenant(name) == nil {
			found = append(found, OtherStream{Key: key, Tenant: name, Workflow: workflow})
		}
	}
	return found, complete, err
}

// DeadTenants are the tenants that have dead letters.
func (s *Store) DeadTenants(ctx context.Context) ([]string, error) {
	const all = 1 << 30
	keys, _, err := s.streams(ctx, "tenant:*"+deadSuffix, all)
	var tenants []string
	for _, key := range keys {
		name := strings.Trim(strings.TrimSuffix(strings.TrimPrefix(key, "tenant:"), deadSuffix), "{}")
		if CheckTenant(name) == nil && key == s.keys.DeadLetters(name) {
			tenants = append(tenants, name)
		}
	}
	return tenants, err
}

// streams finds the streams whose names match a pattern, sorted.
func (s *Store) streams(ctx context.Context, pattern string, looks int) (found []string, complete bool, err error) {
	seen := map[string]bool{}
	for cursor := uint64(0); looks > 0; looks-- {
		keys, next, err := s.rdb.ScanType(ctx, cursor, pattern, scanCount, "stream").Result()
		if err != nil {
			return nil, false, failed("look for streams", err)
		}
		for _, key := range keys {
			seen[key] = true
		}
		if cursor = next; cursor == 0 {
			complete = true
			break
		}
	}
	return slices.Sorted(maps.Keys(seen)), complete, nil
}

// eventOf reads an entry as an event, also one that stands in a single field as
// JSON, as some producers write it.
func (s *Store) eventOf(e entry) (event.Event, error) {
	fields := object(e.fields)
	if fields["type"] == "" {
		for _, name := range []string{"event", "data", "payload"} {
			if inner := attributes([]byte(fields[name])); inner["type"] != "" {
				fields = inner
				break
			}
		}
	}
	out, err := event.FromFields(listed(fields))
	s.sealer.unsealEvent(&out)
	return out, err
}

// attributes are the members of a JSON object as the fields of an entry: texts
// as they are, all else as JSON. It is empty if the text is no object.
func attributes(text []byte) map[string]string {
	var members map[string]json.RawMessage
	if json.Unmarshal(text, &members) != nil {
		return nil
	}
	out := make(map[string]string, len(members))
	for name, value := range members {
		var plain string
		if json.Unmarshal(value, &plain) != nil {
			plain = string(value)
		}
		out[name] = plain
	}
	return out
}

// deadLetterOfEvent reads an event that tells of a dead letter; false if it tells of
// something else.
func (s *Store) deadLetterOfEvent(e entry) (DeadLetter, bool) {
	reported, err := s.eventOf(e)
	switch reported.Type {
	case event.EventDead, event.TaskDead, event.TimerDead:
	default:
		return DeadLetter{}, false
	}
	data := attributes(reported.Data)
	first := func(names ...string) string {
		for _, name := range names {
			if data[name] != "" {
				return data[name]
			}
		}
		return ""
	}
	l := DeadLetter{
		Reason: first("reason", "error"), Service: first("service"), LastFailure: reported.Time, FirstFailure: reported.Time,
		Err: err,
	}
	l.Attempts, _ = strconv.Atoi(first("attempts")) // 0 says that it is not known
	l.Fields = listed(attributes([]byte(first("original", "original_event", "event"))))
	l.read(s)
	if l.Err == nil && l.Event.Type == "" {
		l.Err = errors.New("the original event is not in it")
	}
	if l.Event.Execution == "" {
		l.Event.Execution, l.Event.Workflow, l.Event.Task = reported.Execution, reported.Workflow, reported.Task
	}
	return l, true
}

// Unregistered are the timers that stand in a stream of another key scheme and
// are yet to come, but that nobody has set: so nobody will fire them. The newest
// events of the stream are looked at, about so many.
func (s *Store) Unregistered(ctx context.Context, other OtherStream, most int) ([]Pending, error) {
	now, err := s.Now(ctx)
	if err != nil {
		return nil, err
	}
	var found []Pending
	known := map[string]bool{} // what has become of timers, told by later events
	for q := (DeadLetterQuery{Count: 1000}); most > 0; most -= q.Count {
		entries, err := s.entries(ctx, other.Key, q)
		if err != nil {
			return nil, failed("read "+other.Key, err)
		}
		for _, e := range entries {
			p, ok := s.waiting(e, other, known, now)
			if !ok {
				continue
			}
			if set, err := s.isSet(ctx, p.Timer); err != nil {
				return nil, err
			} else if !set {
				found = append(found, p)
			}
		}
		if len(entries) < q.Count {
			break
		}
		q.To = neighbour(entries[len(entries)-1].id, false)
	}
	return found, nil
}

// waiting reads a timer that is yet to come from an entry.
func (s *Store) waiting(e entry, other OtherStream, known map[string]bool, now time.Time) (Pending, bool) {
	reported, err := s.eventOf(e)
	switch reported.Type {
	case event.TimerScheduled, event.TimerFired, event.TimerCancelled:
	default:
		return Pending{}, false
	}
	var t event.Timer
	if err != nil || json.Unmarshal(reported.Data, &t) != nil {
		return Pending{}, false
	}
	t.Tenant = other.Tenant
	t.Workflow, t.Execution = cmp.Or(t.Workflow, reported.Workflow), cmp.Or(t.Execution, reported.Execution)
	t.TaskID, t.Kind = cmp.Or(t.TaskID, reported.Task), cmp.Or(t.Kind, event.WaitTimer)
	if t.FireAt.IsZero() {
		t.FireAt = reported.Time.Add(time.Duration(t.DurationMS) * time.Millisecond)
	}
	name := t.Execution + " " + tombstone(t)
	if known[name] {
		return Pending{}, false
	}
	known[name] = true
	p := Pending{Due: Due{Timer: t, now: now}, Stream: other.Key, Entry: e.id}
	return p, reported.Type == event.TimerScheduled && t.FireAt.After(now)
}

// isSet reports whether a timer is among those that will fire.
func (s *Store) isSet(ctx context.Context, t event.Timer) (bool, error) {
	low, high := scoresOf(micros(t.FireAt))
	by := &redis.ZRangeBy{
		Min: strconv.FormatFloat(low, 'g', -1, 64), Max: strconv.FormatFloat(high, 'g', -1, 64), Count: 1000,
	}
	entries, err := s.rdb.ZRangeByScoreWithScores(ctx, s.keys.Timers(t.Tenant), by).Result()
	if err != nil {
		return false, failed("look for a timer", err)
	}
	return slices.ContainsFunc(entries, func(entry redis.Z) bool {
		d := dueOf(entry, time.Time{})
		return d.Tenant == t.Tenant && d.Execution == t.Execution && d.TaskID == t.TaskID && d.Key == t.Key
	}), nil
}

// neighbour is the id next to one of an entry, behind it or before it.
func neighbour(id string, behind bool) string {
	ms, seq, _ := strings.Cut(id, "-")
	m, err := strconv.ParseUint(ms, 10, 64)
	n, wrong := strconv.ParseUint(seq, 10, 64)
	if err != nil || wrong != nil {
		return id
	}
	switch {
	case behind && n == math.MaxUint64:
		m, n = m+1, 0
	case behind:
		n++
	case n > 0:
		n--
	case m > 0:
		m, n = m-1, math.MaxUint64
	}
	return fmt.Sprintf("%d-%d", m, n)
}
