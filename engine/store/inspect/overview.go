package inspect

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
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/timers"
	"flunq.io/flunq/engine/store/wire"
)

// Overview is an overview of a tenant at a moment, as far as one script can tell.
type Overview struct {
	Now                                 time.Time
	Open, Completed, Faulted, Cancelled int64 // executions
	Dead                                int64 // dead letters
	Timers, Overdue                     int64 // of all tenants, unless each has its own set

	Added  int64     // entries that the stream has ever had; negative where Redis does not say
	Last   string    // id of its newest entry, "" if there is none
	Sample int64     // the newest entries, behind the one that was asked for …
	Oldest time.Time // … the oldest of them; zero if there are none
	More   bool      // … and whether there are others between it and that one
	Fired  int64     // those of the sample that a timer fired
	Failed []string  // executions that failed, by the sample, the newest first
}

// A glance reads the newest entries of a stream, up to this number and this many bytes.
const (
	overviewEntries = 128
	overviewBytes   = 256 << 10
)

// Overview reads an overview of a tenant, and what was added to its stream since an entry; "" is none.
func (s View) Overview(ctx context.Context, tenant, since string) (Overview, error) {
	if err := store.CheckTenant(tenant); err != nil {
		return Overview{}, err
	}
	if since == "" {
		since = "0"
	}
	h := s.store.TenantKeys(tenant)
	keys := []string{h.Stream, s.keys.DeadLetters(tenant), h.Timers, h.Open, h.Completed, h.Faulted, h.Cancelled}
	reply, err := overviewScript.Run(ctx, s.rdb, keys, since, overviewEntries, overviewBytes,
		string(event.TimerFired), string(event.WorkflowFailed)).Slice()
	if err != nil {
		return Overview{}, store.Failed("look at tenant "+tenant, err)
	}
	l := wire.List(reply)
	seconds, _ := strconv.ParseInt(l.Text(0), 10, 64) // TIME has no other form
	micros, _ := strconv.ParseInt(l.Text(1), 10, 64)
	g := Overview{
		Now:  time.Unix(seconds, micros*1000).UTC(),
		Open: l.Number(2), Completed: l.Number(3), Faulted: l.Number(4), Cancelled: l.Number(5),
		Dead: l.Number(6), Timers: l.Number(7), Overdue: l.Number(8),
		Added: l.Number(9), Last: l.Text(10), Sample: l.Number(11), Oldest: store.IDTime(l.Text(12)), More: l.Number(13) == 1, Fired: l.Number(14),
	}
	for i := range l.List(15) {
		g.Failed = append(g.Failed, l.List(15).Text(i))
	}
	return g, nil
}

// PendingEntry is an entry of the stream that a consumer has read and not acknowledged.
type PendingEntry struct {
	Delivery

	Event event.Event // without its source and time, and without data that is long
	Since time.Time   // when the Entry was written
}

// PendingEntries returns the first pending entries of a group, the oldest first; none if there is
// no such group.
func (s View) PendingEntries(ctx context.Context, tenant, group string, count int) ([]PendingEntry, error) {
	if err := store.CheckTenant(tenant); err != nil {
		return nil, err
	}
	reply, err := pendingScript.Run(ctx, s.rdb, []string{s.keys.Stream(tenant)}, group, count, store.LongData).Slice()
	if err != nil {
		return nil, store.Failed("look at what is pending", err)
	}
	var out []PendingEntry
	wire.List(reply).Each(func(l wire.List) {
		h := PendingEntry{Delivery: Delivery{ID: l.Text(0), Consumer: l.Text(1), Idle: l.Milliseconds(2), Count: l.Number(3)}, Since: store.IDTime(l.Text(0))}
		h.Event = event.Event{Type: event.Type(l.Text(4)), Tenant: tenant, Execution: l.Text(5), Workflow: l.Text(6), Task: l.Text(7), Data: s.store.Unseal(l.Text(8))}
		out = append(out, h)
	})
	return out, nil
}

// Latest are the newest events of the histories of executions, the oldest of them first;
// long data is left out. An execution that is not there has none.
func (s View) Latest(ctx context.Context, tenant string, count int, ids ...string) ([][]event.Event, error) {
	if err := store.CheckTenant(tenant); err != nil || len(ids) == 0 {
		return nil, err
	}
	keys := make([]string, len(ids))
	for i, id := range ids {
		keys[i] = s.keys.History(tenant, id)
	}
	reply, err := latestScript.Run(ctx, s.rdb, keys, count, store.LongData).Slice()
	if err != nil {
		return nil, store.Failed("read the ends of histories", err)
	}
	out := make([][]event.Event, len(ids))
	for i := range out {
		entries := wire.List(reply).List(i)
		for n := range slices.Backward(entries) {
			e, err := s.store.Attributes(entries.List(n).Texts())
			if err != nil {
				return nil, fmt.Errorf("history of execution %s: %w", ids[i], err)
			}
			out[i] = append(out[i], e)
		}
	}
	return out, nil
}

// Problems are the errors that executions have ended with, in a line each; "" of one
// that has none.
func (s View) Problems(ctx context.Context, tenant string, ids ...string) ([]string, error) {
	if err := store.CheckTenant(tenant); err != nil || len(ids) == 0 {
		return nil, err
	}
	pipe := s.rdb.Pipeline()
	replies := make([]*redis.SliceCmd, len(ids))
	for i, id := range ids {
		replies[i] = pipe.HMGet(ctx, s.keys.Execution(tenant, id), "error")
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, store.Failed("read the errors of executions", err)
	}
	out := make([]string, len(ids))
	for i, reply := range replies {
		text := wire.List(reply.Val()).Text(0)
		var p event.Problem
		switch {
		case text == "":
		case json.Unmarshal(s.store.Unseal(text), &p) == nil:
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
	Err   error // why the Entry is no event, if so
}

// Events are a page of the entries of a tenant's stream, the newest first; long data
// is left out. The id at which to go on comes with them, "" at the end.
func (s View) Events(ctx context.Context, tenant string, r store.Range) (found []Published, next string, err error) {
	if err := store.CheckTenant(tenant); err != nil {
		return nil, "", err
	}
	r.Brief = true
	entries, err := s.store.Entries(ctx, s.keys.Stream(tenant), r)
	if err != nil {
		return nil, "", store.Failed("read the events", err)
	}
	for _, e := range entries {
		found = append(found, s.published(e))
	}
	return found, r.Next(entries), nil
}

// Event is an entry of a tenant's stream with all of its data; ErrNotFound if the
// stream does not have it any more.
func (s View) Event(ctx context.Context, tenant, id string) (Published, error) {
	if err := store.CheckTenant(tenant); err != nil {
		return Published{}, err
	}
	if store.IDTime(id).IsZero() {
		return Published{}, fmt.Errorf("%w: event %q, want an id such as 1767225600000-0", store.ErrName, id)
	}
	entries, err := s.store.Entries(ctx, s.keys.Stream(tenant), store.Range{From: id, To: id, Count: 1})
	if err != nil {
		return Published{}, store.Failed("read an event", err)
	}
	if len(entries) == 0 {
		return Published{}, fmt.Errorf("event %s of tenant %s: %w: the stream was shortened", id, tenant, store.ErrNotFound)
	}
	return s.published(entries[0]), nil
}

func (s View) published(e store.Entry) Published {
	p := Published{ID: e.ID, At: store.IDTime(e.ID)}
	p.Event, p.Err = s.store.Decode(e.Fields)
	return p
}

// OtherStream is a stream of a flunq.io deployment of another key scheme, which
// has one for each workflow.
type OtherStream struct{ Key, Tenant, Workflow string }

// streamSuffix ends the names of streams.
const streamSuffix = ":events"

// OtherStreams finds the streams of another key scheme, of a tenant or of all
// ("*"). It looks at all keys, but at most so many times at a thousand; complete
// says whether that was enough.
func (s View) OtherStreams(ctx context.Context, tenant string, looks int) (found []OtherStream, complete bool, err error) {
	keys, complete, err := s.store.FindStreams(ctx, "tenant:"+tenant+":workflow:*"+streamSuffix, looks)
	for _, key := range keys {
		rest := strings.TrimSuffix(strings.TrimPrefix(key, "tenant:"), streamSuffix)
		name, workflow, ok := strings.Cut(rest, ":workflow:")
		if ok && store.CheckTenant(name) == nil {
			found = append(found, OtherStream{Key: key, Tenant: name, Workflow: workflow})
		}
	}
	return found, complete, err
}

// DeadTenants are the tenants that have dead letters.
func (s View) DeadTenants(ctx context.Context) ([]string, error) {
	return s.store.TenantsWith(ctx, s.keys.DeadLetters)
}

// Unregistered are the timers that stand in a stream of another key scheme and
// are yet to come, but that nobody has set: so nobody will fire them. The newest
// events of the stream are looked at, about so many.
func (s View) Unregistered(ctx context.Context, other OtherStream, most int) ([]timers.Pending, error) {
	now, err := s.store.Now(ctx)
	if err != nil {
		return nil, err
	}
	var found []timers.Pending
	known := map[string]bool{} // what has become of timers, told by later events
	for r := (store.Range{Count: 1000}); most > 0; most -= r.Count {
		entries, err := s.store.Entries(ctx, other.Key, r)
		if err != nil {
			return nil, store.Failed("read "+other.Key, err)
		}
		for _, e := range entries {
			p, ok := s.unfiredTimer(e, other, known, now)
			if !ok {
				continue
			}
			if set, err := timers.New(s.store).IsSet(ctx, p.Timer); err != nil {
				return nil, err
			} else if !set {
				found = append(found, p)
			}
		}
		next := r.Next(entries)
		if next == "" {
			break
		}
		r = r.At(next)
	}
	return found, nil
}

// unfiredTimer reads a timer that is yet to come from an entry.
func (s View) unfiredTimer(e store.Entry, other OtherStream, known map[string]bool, now time.Time) (timers.Pending, bool) {
	reported, err := s.store.AnyEvent(e)
	switch reported.Type {
	case event.TimerScheduled, event.TimerFired, event.TimerCancelled:
	default:
		return timers.Pending{}, false
	}
	var t event.Timer
	if err != nil || json.Unmarshal(reported.Data, &t) != nil {
		return timers.Pending{}, false
	}
	t.Tenant = other.Tenant
	t.Workflow, t.Execution = cmp.Or(t.Workflow, reported.Workflow), cmp.Or(t.Execution, reported.Execution)
	t.TaskID, t.Kind = cmp.Or(t.TaskID, reported.Task), cmp.Or(t.Kind, event.WaitTimer)
	if t.FireAt.IsZero() {
		t.FireAt = reported.Time.Add(time.Duration(t.DurationMS) * time.Millisecond)
	}
	name := t.Execution + " " + store.Tombstone(t)
	if known[name] {
		return timers.Pending{}, false
	}
	known[name] = true
	p := timers.Pending{Due: timers.Due{Timer: t, Now: now}, Stream: other.Key, Entry: e.ID}
	return p, reported.Type == event.TimerScheduled && t.FireAt.After(now)
}
