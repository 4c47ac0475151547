package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// Stalled are executions that seem to have no next step.
type Stalled struct {
	Looked int      // how many of the open ones were looked at, the oldest
	Open   int64    // how many there are
	Found  []string // their ids
	Unsure string   // why it cannot be told; "" if it can
}

// mostBusy is how many events and timers are looked through for the executions
// that they belong to, of each group and set.
const mostBusy = 1000

// Stalled looks for executions that are at work, by their status, but for which
// nothing is under way: no event is unread or pending in any group and none of the
// next timers is theirs, and their history has said nothing for so long. Those
// that wait are not judged: they may wait for an event that anybody may send.
func (s *Store) Stalled(ctx context.Context, tenant string, most int, quiet time.Duration) (Stalled, error) {
	if err := CheckTenant(tenant); err != nil {
		return Stalled{}, err
	}
	pipe := s.rdb.Pipeline()
	open := s.keys.executions(tenant, openShelf)
	clock, count := pipe.Time(ctx), pipe.ZCard(ctx, open)
	oldest := pipe.ZRange(ctx, open, 0, int64(most)-1)
	if _, err := pipe.Exec(ctx); err != nil {
		return Stalled{}, failed("list open executions", err)
	}
	out := Stalled{Looked: len(oldest.Val()), Open: count.Val()}
	busy, err := s.busy(ctx, tenant)
	if errors.Is(err, errBusy) {
		out.Unsure = err.Error()
		return out, nil
	}
	if err != nil {
		return out, err
	}
	var idle []string
	for _, id := range oldest.Val() {
		if !busy[id] {
			idle = append(idle, id)
		}
	}
	out.Found, err = s.silent(ctx, tenant, idle, clock.Val().Add(-quiet))
	return out, err
}

var errBusy = errors.New("the services have much to do")

// busy are the executions for which something is under way.
func (s *Store) busy(ctx context.Context, tenant string) (map[string]bool, error) {
	out := map[string]bool{}
	timers, err := s.rdb.ZRangeWithScores(ctx, s.keys.timers(tenant), 0, mostBusy-1).Result()
	if err != nil {
		return nil, failed("look at the timers", err)
	}
	for _, entry := range timers {
		if d := dueOf(entry, time.Time{}); d.Tenant == tenant {
			out[d.Execution] = true
		}
	}
	streams, err := s.Streams(ctx, []string{tenant})
	if err != nil {
		return nil, err
	}
	for _, group := range streams[0].Groups {
		if group.Lag >= mostBusy || group.Pending > mostBusy {
			return nil, fmt.Errorf("%w: %s has %d events unread and %d pending, too many to look through",
				errBusy, group.Name, group.Lag, group.Pending)
		}
		if err := s.underWay(ctx, tenant, group, out); err != nil {
			return nil, failed("look at what is under way", err)
		}
	}
	return out, nil
}

// underWay adds the executions of a group's unread and pending events.
func (s *Store) underWay(ctx context.Context, tenant string, group Group, out map[string]bool) error {
	key := s.keys.stream(tenant)
	pipe := s.rdb.Pipeline()
	var entries []*redis.XMessageSliceCmd
	if group.Lag > 0 {
		entries = append(entries, pipe.XRangeN(ctx, key, "("+group.Delivered, "+", mostBusy))
	}
	if group.Pending > 0 {
		args := &redis.XPendingExtArgs{Stream: key, Group: group.Name, Start: "-", End: "+", Count: mostBusy}
		pending, err := s.rdb.XPendingExt(ctx, args).Result()
		if err != nil {
			return err
		}
		for _, p := range pending {
			entries = append(entries, pipe.XRange(ctx, key, p.ID, p.ID))
		}
	}
	if len(entries) == 0 {
		return nil
	}
	_, err := pipe.Exec(ctx)
	for _, reply := range entries {
		for _, entry := range reply.Val() {
			id, _ := entry.Values["executionid"].(string)
			out[id] = true
		}
	}
	return err
}

// silent are those of some executions that are at work and whose history has said
// nothing since a moment.
func (s *Store) silent(ctx context.Context, tenant string, ids []string, since time.Time) (out []string, err error) {
	if len(ids) == 0 {
		return nil, nil
	}
	pipe := s.rdb.Pipeline()
	known := make([]*redis.SliceCmd, len(ids))
	for i, id := range ids {
		known[i] = pipe.HMGet(ctx, s.keys.execution(tenant, id), "status", "created")
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, failed("look at open executions", err)
	}
	for i, id := range ids {
		fields := list(known[i].Val())
		if status := fields.text(0); status != "pending" && status != "running" {
			continue
		}
		last := moment(fields.text(1))
		entries, err := s.rdb.XRevRangeN(ctx, s.keys.history(tenant, id), "+", "-", 1).Result()
		if err != nil {
			return nil, failed("look at the history of "+id, err)
		}
		if len(entries) > 0 {
			text, _ := entries[0].Values["time"].(string)
			last = moment(text)
		}
		if last.Before(since) {
			out = append(out, id)
		}
	}
	return out, nil
}

// Unlisted are executions that stand in no list, as those of old deployments: they
// are carried on when something happens to them, but nobody sees them. It looks at
// all keys, at most so many times at a thousand; complete says whether that was enough.
func (s *Store) Unlisted(ctx context.Context, tenant string, looks int) (found []string, complete bool, err error) {
	if err := CheckTenant(tenant); err != nil {
		return nil, false, err
	}
	prefix := s.keys.execution(tenant, "")
	for cursor := uint64(0); looks > 0; looks-- {
		names, next, err := s.rdb.ScanType(ctx, cursor, prefix+"*", scanCount, "hash").Result()
		if err != nil {
			return nil, false, failed("look for executions", err)
		}
		for i, name := range names {
			names[i] = strings.TrimPrefix(name, prefix)
		}
		missing, err := s.unlisted(ctx, tenant, names)
		if err != nil {
			return nil, false, err
		}
		found = append(found, missing...)
		if cursor = next; cursor == 0 {
			complete = true
			break
		}
	}
	return slices.Compact(sorted(found)), complete, nil
}

// unlisted are those of some executions that do not stand where their status belongs.
func (s *Store) unlisted(ctx context.Context, tenant string, ids []string) (out []string, err error) {
	if len(ids) == 0 {
		return nil, nil
	}
	known, err := s.Outlines(ctx, tenant, ids...)
	if err != nil {
		return nil, err
	}
	pipe := s.rdb.Pipeline()
	listed := make([]*redis.FloatCmd, len(known))
	for i, x := range known {
		listed[i] = pipe.ZScore(ctx, s.keys.executions(tenant, shelfOf(x.Status)), x.ID)
	}
	if _, err := pipe.Exec(ctx); err != nil && !errors.Is(err, redis.Nil) {
		return nil, failed("look for executions", err)
	}
	for i, x := range known {
		if x.Status != "" && errors.Is(listed[i].Err(), redis.Nil) {
			out = append(out, x.ID)
		}
	}
	return out, nil
}
