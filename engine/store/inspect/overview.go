package inspect

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/timers"
	"flunq.io/flunq/engine/store/wire"
)

// Overview describes a tenant at one moment. It is read by one script.
type Overview struct {
	Now                                 time.Time
	Open, Completed, Faulted, Cancelled int64 // executions
	Dead                                int64 // dead letters
	Timers, Overdue                     int64 // of all tenants on a single server, of the tenant on a cluster

	Added  int64     // entries ever added to the stream; negative if Redis does not report it
	Last   string    // id of the newest entry, "" if there is none
	Sample int64     // number of sampled entries: the newest ones after since
	Oldest time.Time // when the oldest sampled entry was written; zero if there is none
	More   bool      // there may be entries between since and the oldest sampled one
	Fired  int64     // timers fired in the sample
	Failed []string  // executions that failed in the sample, newest first
}

// Limits of the sample in an Overview.
const (
	overviewEntries = 128
	overviewBytes   = 256 << 10
)

// Overview reads the counts of a tenant and samples the entries that were added to its stream
// after the entry since; "" samples from the beginning.
func (v View) Overview(ctx context.Context, tenant, since string) (Overview, error) {
	if err := store.CheckTenant(tenant); err != nil {
		return Overview{}, err
	}
	if since == "" {
		since = "0"
	}
	keys := []string{v.keys.Stream(tenant), v.keys.DeadLetters(tenant), v.keys.Timers(tenant)}
	for _, index := range []string{"open", "completed", "faulted", "cancelled"} {
		keys = append(keys, v.keys.Executions(tenant, index))
	}
	reply, err := overviewScript().Run(ctx, v.rdb, keys, since, overviewEntries, overviewBytes,
		string(event.TimerFired), string(event.WorkflowFailed)).Slice()
	if err != nil {
		return Overview{}, store.Failed("read tenant "+tenant, err)
	}
	l := wire.List(reply)
	seconds, _ := strconv.ParseInt(l.Text(0), 10, 64) // TIME returns integers
	micros, _ := strconv.ParseInt(l.Text(1), 10, 64)
	out := Overview{
		Now:  time.Unix(seconds, micros*1000).UTC(),
		Open: l.Number(2), Completed: l.Number(3), Faulted: l.Number(4), Cancelled: l.Number(5),
		Dead: l.Number(6), Timers: l.Number(7), Overdue: l.Number(8),
		Added: l.Number(9), Last: l.Text(10), Sample: l.Number(11), Oldest: store.IDTime(l.Text(12)), More: l.Number(13) == 1, Fired: l.Number(14),
		Failed: l.List(15).Texts(),
	}
	return out, nil
}

// PendingEntry is an entry of the stream that a consumer has read and not acknowledged.
type PendingEntry struct {
	Delivery

	Event event.Event // without source and time; long data is left out
	Since time.Time   // when the entry was written
}

// PendingEntries returns the oldest pending entries of a group, oldest first. It returns none if
// the group does not exist.
func (v View) PendingEntries(ctx context.Context, tenant, group string, count int) ([]PendingEntry, error) {
	if err := store.CheckTenant(tenant); err != nil {
		return nil, err
	}
	reply, err := pendingScript().Run(ctx, v.rdb, []string{v.keys.Stream(tenant)}, group, count, store.LongData).Slice()
	if err != nil {
		return nil, store.Failed("read the pending entries", err)
	}
	var out []PendingEntry
	wire.List(reply).Each(func(l wire.List) {
		out = append(out, PendingEntry{
			Delivery: Delivery{ID: l.Text(0), Consumer: l.Text(1), Idle: l.Milliseconds(2), Count: l.Number(3)},
			Event: event.Event{
				Type: event.Type(l.Text(4)), Tenant: tenant, Execution: l.Text(5), Workflow: l.Text(6), Task: l.Text(7), Data: v.store.Unseal(l.Text(8)),
			},
			Since: store.IDTime(l.Text(0)),
		})
	})
	return out, nil
}

// Latest returns the newest events of the histories of executions, oldest first, without long data.
// An execution that does not exist has no events.
func (v View) Latest(ctx context.Context, tenant string, count int, ids ...string) ([][]event.Event, error) {
	if err := store.CheckTenant(tenant); err != nil || len(ids) == 0 {
		return nil, err
	}
	keys := make([]string, len(ids))
	for i, id := range ids {
		keys[i] = v.keys.History(tenant, id)
	}
	reply, err := latestScript().Run(ctx, v.rdb, keys, count, store.LongData).Slice()
	if err != nil {
		return nil, store.Failed("read the ends of histories", err)
	}
	out := make([][]event.Event, len(ids))
	for i := range out {
		entries := wire.List(reply).List(i)
		for n := range slices.Backward(entries) {
			e, err := v.store.Attributes(entries.List(n).Texts())
			if err != nil {
				return nil, fmt.Errorf("history of execution %s: %w", ids[i], err)
			}
			out[i] = append(out[i], e)
		}
	}
	return out, nil
}

// Problems returns the error of each execution on one line; "" if it has none.
func (v View) Problems(ctx context.Context, tenant string, ids ...string) ([]string, error) {
	if err := store.CheckTenant(tenant); err != nil || len(ids) == 0 {
		return nil, err
	}
	pipe := v.rdb.Pipeline()
	replies := make([]*redis.SliceCmd, len(ids))
	for i, id := range ids {
		replies[i] = pipe.HMGet(ctx, v.keys.Execution(tenant, id), "error")
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
		case json.Unmarshal(v.store.Unseal(text), &p) == nil:
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
	Err   error // why the entry cannot be read as an event
}

// Events returns a page of the entries of a tenant's stream, newest first unless r says otherwise,
// without long data. next is the id at which the next page begins, "" at the end.
func (v View) Events(ctx context.Context, tenant string, r store.Range) (found []Published, next string, err error) {
	if err := store.CheckTenant(tenant); err != nil {
		return nil, "", err
	}
	r.Brief = true
	entries, err := v.store.Entries(ctx, v.keys.Stream(tenant), r)
	if err != nil {
		return nil, "", store.Failed("read the events", err)
	}
	for _, e := range entries {
		found = append(found, v.published(e))
	}
	return found, r.Next(entries), nil
}

// Event returns an entry of a tenant's stream with all its data, or ErrNotFound if the entry was
// trimmed.
func (v View) Event(ctx context.Context, tenant, id string) (Published, error) {
	if err := store.CheckTenant(tenant); err != nil {
		return Published{}, err
	}
	if store.IDTime(id).IsZero() {
		return Published{}, fmt.Errorf("%w: event %q, want an id such as 1767225600000-0", store.ErrName, id)
	}
	entries, err := v.store.Entries(ctx, v.keys.Stream(tenant), store.Range{From: id, To: id, Count: 1})
	if err != nil {
		return Published{}, store.Failed("read an event", err)
	}
	if len(entries) == 0 {
		return Published{}, fmt.Errorf("event %s of tenant %s: %w: the stream was shortened", id, tenant, store.ErrNotFound)
	}
	return v.published(entries[0]), nil
}

func (v View) published(e store.Entry) Published {
	p := Published{ID: e.ID, At: store.IDTime(e.ID)}
	p.Event, p.Err = v.store.Decode(e.Fields)
	return p
}

// OtherStream is a stream of a flunq.io deployment with another key scheme, in which each workflow
// has its own stream.
type OtherStream struct{ Key, Tenant string }

// OtherStreams finds the streams of a tenant, or of all tenants ("*"), that use the other key scheme.
// It scans the keys of Redis in at most maxPages pages of about a thousand keys. complete reports
// whether it has scanned all of them.
func (v View) OtherStreams(ctx context.Context, tenant string, maxPages int) (found []OtherStream, complete bool, err error) {
	keys, complete, err := v.store.FindStreams(ctx, store.OtherStreams(tenant), maxPages)
	for _, key := range keys {
		if name, ok := store.OtherStream(key); ok && store.CheckTenant(name) == nil {
			found = append(found, OtherStream{Key: key, Tenant: name})
		}
	}
	return found, complete, err
}

// DeadTenants returns the tenants that have dead letters.
func (v View) DeadTenants(ctx context.Context) ([]string, error) {
	return v.store.TenantsWith(ctx, v.keys.DeadLetters)
}

// Unregistered returns the timers that a stream of the other key scheme has scheduled for the future
// and that are not set, so no service will fire them. It reads about limit of the newest events.
func (v View) Unregistered(ctx context.Context, other OtherStream, limit int) ([]timers.Pending, error) {
	now, err := v.store.NowOf(ctx, other.Tenant)
	if err != nil {
		return nil, err
	}
	var found []timers.Pending
	known := map[string]bool{} // timers that a newer event has reported
	for r := (store.Range{Count: 1000}); limit > 0; limit -= r.Count {
		entries, err := v.store.Entries(ctx, other.Key, r)
		if err != nil {
			return nil, store.Failed("read "+other.Key, err)
		}
		for _, e := range entries {
			p, ok := v.unfiredTimer(e, other, known, now)
			if !ok {
				continue
			}
			if set, err := timers.New(v.store).IsSet(ctx, p.Timer); err != nil {
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

// unfiredTimer returns the timer of an entry that schedules one for the future. It ignores timers
// that a newer entry has already reported.
func (v View) unfiredTimer(e store.Entry, other OtherStream, known map[string]bool, now time.Time) (timers.Pending, bool) {
	reported, err := v.store.AnyEvent(e)
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
