package store

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
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
func (s *Store) Glance(ctx context.Context, tenant, since string) (Glance, error) {
	if err := CheckTenant(tenant); err != nil {
		return Glance{}, err
	}
	if since == "" {
		since = "0"
	}
	keys := []string{s.keys.Stream(tenant), s.keys.DeadLetters(tenant), s.keys.Timers(tenant)}
	for _, name := range []string{openIndex, completedIndex, faultedIndex, cancelledIndex} {
		keys = append(keys, s.keys.Executions(tenant, name))
	}
	reply, err := glanceScript.Run(ctx, s.rdb, keys, since, glanceEntries, glanceBytes,
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
func (s *Store) PendingEntries(ctx context.Context, tenant, group string, count int) ([]PendingEntry, error) {
	if err := CheckTenant(tenant); err != nil {
		return nil, err
	}
	reply, err := pendingScript.Run(ctx, s.rdb, []string{s.keys.Stream(tenant)}, group, count, longData).Slice()
	if err != nil {
		return nil, failed("look at what is pending", err)
	}
	var out []PendingEntry
	list(reply).each(func(l list) {
		h := PendingEntry{Delivery: Delivery{ID: l.text(0), Consumer: l.text(1), Idle: l.ms(2), Count: l.number(3)}, Since: idTime(l.text(0))}
		h.Event = event.Event{Type: event.Type(l.text(4)), Tenant: tenant, Execution: l.text(5), Workflow: l.text(6), Task: l.text(7), Data: s.unsealed(l.text(8))}
		out = append(out, h)
	})
	return out, nil
}

// Latest are the newest events of the histories of executions, the oldest of them first;
// long data is left out. An execution that is not there has none.
func (s *Store) Latest(ctx context.Context, tenant string, count int, ids ...string) ([][]event.Event, error) {
	if err := CheckTenant(tenant); err != nil || len(ids) == 0 {
		return nil, err
	}
	keys := make([]string, len(ids))
	for i, id := range ids {
		keys[i] = s.keys.history(tenant, id)
	}
	reply, err := latestScript.Run(ctx, s.rdb, keys, count, longData).Slice()
	if err != nil {
		return nil, failed("read the ends of histories", err)
	}
	out := make([][]event.Event, len(ids))
	for i := range out {
		entries := list(reply).list(i)
		for n := range slices.Backward(entries) {
			e, err := s.attributes(texts(entries.list(n)))
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
func (s *Store) Problems(ctx context.Context, tenant string, ids ...string) ([]string, error) {
	if err := CheckTenant(tenant); err != nil || len(ids) == 0 {
		return nil, err
	}
	pipe := s.rdb.Pipeline()
	replies := make([]*redis.SliceCmd, len(ids))
	for i, id := range ids {
		replies[i] = pipe.HMGet(ctx, s.keys.Execution(tenant, id), "error")
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
		case json.Unmarshal(s.unsealed(text), &p) == nil:
			out[i] = p.Error()
		default:
			out[i] = text
		}
	}
	return out, nil
}
