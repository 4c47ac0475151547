package store

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"flunq.io/flunq/engine/event"
)

// Glance is how a tenant stands at a moment, as far as one command can tell.
type Glance struct {
	Now                                 time.Time
	Open, Completed, Faulted, Cancelled int64 // executions
	Dead                                int64 // letters
	Timers, Overdue                     int64 // of all tenants, unless each has its own set

	Added  int64     // entries that the stream has ever had; negative where Redis does not say
	Last   string    // id of its newest entry, "" if there is none
	Sample int64     // the newest entries, behind the one that was asked for …
	Oldest time.Time // … the oldest of them; zero if there are none
	More   bool      // … and whether there are others between it and that one
	Fired  int64     // those of the sample that a timer fired
	Failed []string  // executions that failed, by the sample, the newest first
}

// The newest entries of a stream that a glance looks at: so many, or so many bytes.
const (
	glanceEntries = 128
	glanceBytes   = 256 << 10
)

// Glance looks at a tenant, and at what its stream has got since an entry; "" is none.
func (s View) Glance(ctx context.Context, tenant, since string) (Glance, error) {
	if err := CheckTenant(tenant); err != nil {
		return Glance{}, err
	}
	if since == "" {
		since = "0"
	}
	keys := []string{s.store.keys.Stream(tenant), s.store.keys.DeadLetters(tenant), s.store.keys.Timers(tenant)}
	for _, name := range []string{openIndex, completedIndex, faultedIndex, cancelledIndex} {
		keys = append(keys, s.store.keys.Executions(tenant, name))
	}
	reply, err := glanceScript.Run(ctx, s.store.rdb, keys, since, glanceEntries, glanceBytes,
		string(event.TimerFired), string(event.WorkflowFailed)).Slice()
	if err != nil {
		return Glance{}, failed("look at tenant "+tenant, err)
	}
	l := list(reply)
	seconds, _ := strconv.ParseInt(l.text(0), 10, 64) // TIME has no other form
	micros, _ := strconv.ParseInt(l.text(1), 10, 64)
	g := Glance{
		Now:  time.Unix(seconds, micros*1000).UTC(),
		Open: l.number(2), Completed: l.number(3), Faulted: l.number(4), Cancelled: l.number(5),
		Dead: l.number(6), Timers: l.number(7), Overdue: l.number(8),
		Added: l.number(9), Last: l.text(10), Sample: l.number(11), Oldest: idTime(l.text(12)), More: l.number(13) == 1, Fired: l.number(14),
	}
	for i := range l.list(15) {
		g.Failed = append(g.Failed, l.list(15).text(i))
	}
	return g, nil
}

// PendingEntry is an entry of the stream that a consumer has at hand.
type PendingEntry struct {
	Delivery

	Event event.Event // without its source and time, and without data that is long
	Since time.Time   // when the entry was written
}

// PendingEntries are the first entries that the consumers of a group have at hand, the oldest
// first; none if there is no such group.
func (s View) PendingEntries(ctx context.Context, tenant, group string, count int) ([]PendingEntry, error) {
	if err := CheckTenant(tenant); err != nil {
		return nil, err
	}
	reply, err := pendingScript.Run(ctx, s.store.rdb, []string{s.store.keys.Stream(tenant)}, group, count, longData).Slice()
	if err != nil {
		return nil, failed("look at what is pending", err)
	}
	var out []PendingEntry
	list(reply).each(func(l list) {
		h := PendingEntry{Delivery: Delivery{ID: l.text(0), Consumer: l.text(1), Idle: l.ms(2), Count: l.number(3)}, Since: idTime(l.text(0))}
		h.Event = event.Event{Type: event.Type(l.text(4)), Tenant: tenant, Execution: l.text(5), Workflow: l.text(6), Task: l.text(7), Data: s.store.unsealed(l.text(8))}
		out = append(out, h)
	})
	return out, nil
}

// Latest are the newest events of the histories of executions, the oldest of them first;
// long data is left out. An execution that is not there has none.
func (s View) Latest(ctx context.Context, tenant string, count int, ids ...string) ([][]event.Event, error) {
	if err := CheckTenant(tenant); err != nil || len(ids) == 0 {
		return nil, err
	}
	keys := make([]string, len(ids))
	for i, id := range ids {
		keys[i] = s.store.keys.history(tenant, id)
	}
	reply, err := latestScript.Run(ctx, s.store.rdb, keys, count, longData).Slice()
	if err != nil {
		return nil, failed("read the ends of histories", err)
	}
	out := make([][]event.Event, len(ids))
	for i := range out {
		entries := list(reply).list(i)
		for n := range slices.Backward(entries) {
			e, err := s.store.attributes(texts(entries.list(n)))
			if err != nil {
				return nil, fmt.Errorf("history of execution %s: %w", ids[i], err)
			}
			out[i] = append(out[i], e)
		}
	}
	return out, nil
}

// texts are the values of a list.
func texts(l list) []string {
	out := make([]string, len(l))
	for i := range l {
		out[i] = l.text(i)
	}
	return out
}

// Problems are the errors that executions have ended with, in a line each; "" of one
// that has none.
func (s View) Problems(ctx context.Context, tenant string, ids ...string) ([]string, error) {
	if err := CheckTenant(tenant); err != nil || len(ids) == 0 {
		return nil, err
	}
	pipe := s.store.rdb.Pipeline()
	replies := make([]*redis.SliceCmd, len(ids))
	for i, id := range ids {
		replies[i] = pipe.HMGet(ctx, s.store.keys.Execution(tenant, id), "error")
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, failed("read the errors of executions", err)
	}
	out := make([]string, len(ids))
	for i, reply := range replies {
		text := list(reply.Val()).text(0)
		var p event.Problem
		switch {
		case text == "":
		case json.Unmarshal(s.store.unsealed(text), &p) == nil:
			out[i] = p.Error()
		default:
			out[i] = text
		}
	}
	return out, nil
}

// Published is an entry of a tenant's stream.
type Published struct {
	ID    string
	At    time.Time // when it was written
	Event event.Event
	Err   error // why the entry is no event, if so
}

// longData is from how many bytes on data is left out where that was asked for.
const longData = 2048

// Events are a page of the entries of a tenant's stream, the newest first; long data
// is left out. The id at which to go on comes with them, "" at the end.
func (s View) Events(ctx context.Context, q DeadLetterQuery) (found []Published, next string, err error) {
	if err := CheckTenant(q.Tenant); err != nil {
		return nil, "", err
	}
	q.Brief = true
	entries, err := NewStreams(s.store).entries(ctx, s.store.keys.Stream(q.Tenant), q)
	if err != nil {
		return nil, "", failed("read the events", err)
	}
	for _, e := range entries {
		found = append(found, s.published(e))
	}
	if n := len(entries); n > 0 && n == q.Count {
		next = neighbour(entries[n-1].id, q.Oldest)
	}
	return found, next, nil
}

// Event is an entry of a tenant's stream with all of its data; ErrNotFound if the
// stream does not have it any more.
func (s View) Event(ctx context.Context, tenant, id string) (Published, error) {
	if err := CheckTenant(tenant); err != nil {
		return Published{}, err
	}
	if idTime(id).IsZero() {
		return Published{}, fmt.Errorf("%w: event %q, want an id such as 1767225600000-0", ErrName, id)
	}
	entries, err := NewStreams(s.store).entries(ctx, s.store.keys.Stream(tenant), DeadLetterQuery{From: id, To: id, Count: 1})
	if err != nil {
		return Published{}, failed("read an event", err)
	}
	if len(entries) == 0 {
		return Published{}, fmt.Errorf("event %s of tenant %s: %w: the stream was shortened", id, tenant, ErrNotFound)
	}
	return s.published(entries[0]), nil
}

func (s View) published(e entry) Published {
	p := Published{ID: e.id, At: idTime(e.id)}
	p.Event, p.Err = s.store.decode(e.fields)
	return p
}

// OtherStream is a stream of a flunq.io deployment of another key scheme, which
// has one for each workflow.
type OtherStream struct{ Key, Tenant, Workflow string }

// OtherStreams finds the streams of another key scheme, of a tenant or of all
// ("*"). It looks at all keys, but at most so many times at a thousand; complete
// says whether that was enough.
func (s View) OtherStreams(ctx context.Context, tenant string, looks int) (found []OtherStream, complete bool, err error) {
	keys, complete, err := s.store.streams(ctx, "tenant:"+tenant+":workflow:*"+otherSuffix, looks)
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
func (s View) DeadTenants(ctx context.Context) ([]string, error) {
	const all = 1 << 30
	keys, _, err := s.store.streams(ctx, "tenant:*"+deadSuffix, all)
	var tenants []string
	for _, key := range keys {
		name := strings.Trim(strings.TrimSuffix(strings.TrimPrefix(key, "tenant:"), deadSuffix), "{}")
		if CheckTenant(name) == nil && key == s.store.keys.DeadLetters(name) {
			tenants = append(tenants, name)
		}
	}
	return tenants, err
}

// Unregistered are the timers that stand in a stream of another key scheme and
// are yet to come, but that nobody has set: so nobody will fire them. The newest
// events of the stream are looked at, about so many.
func (s View) Unregistered(ctx context.Context, other OtherStream, most int) ([]Pending, error) {
	now, err := s.store.Now(ctx)
	if err != nil {
		return nil, err
	}
	var found []Pending
	known := map[string]bool{} // what has become of timers, told by later events
	for q := (DeadLetterQuery{Count: 1000}); most > 0; most -= q.Count {
		entries, err := NewStreams(s.store).entries(ctx, other.Key, q)
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
func (s View) waiting(e entry, other OtherStream, known map[string]bool, now time.Time) (Pending, bool) {
	reported, err := NewStreams(s.store).eventOf(e)
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
func (s View) isSet(ctx context.Context, t event.Timer) (bool, error) {
	low, high := scoresOf(micros(t.FireAt))
	by := &redis.ZRangeBy{
		Min: strconv.FormatFloat(low, 'g', -1, 64), Max: strconv.FormatFloat(high, 'g', -1, 64), Count: 1000,
	}
	entries, err := s.store.rdb.ZRangeByScoreWithScores(ctx, s.store.keys.Timers(t.Tenant), by).Result()
	if err != nil {
		return false, failed("look for a timer", err)
	}
	return slices.ContainsFunc(entries, func(entry redis.Z) bool {
		d := dueOf(entry, time.Time{})
		return d.Tenant == t.Tenant && d.Execution == t.Execution && d.TaskID == t.TaskID && d.Key == t.Key
	}), nil
}
