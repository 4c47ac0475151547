package inspect

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/timers"
	"flunq.io/flunq/engine/store/wire"
)

// Stuck is a report about executions that seem to have no next step.
type Stuck struct {
	Examined int      // how many open ones were examined, the oldest first
	Open     int64    // how many there are
	Found    []string // their ids
	Unsure   string   // why there is no answer; "" if there is
}

// mostInFlight is how many events and timers are looked through for the executions
// that they belong to, of each group and set.
const mostInFlight = 1000

// StuckQuery says how to look for executions without a next step.
type StuckQuery struct {
	Most  int           // how many are examined of each tenant
	Quiet time.Duration // how long nothing was added to their history
	Next  TimerOwners
}

// TimerOwners are the executions that the next timers belong to.
type TimerOwners map[executionKey]bool

// executionKey names an execution.
type executionKey struct{ tenant, id string }

// TimerOwners reads the next timers of tenants.
func (s View) TimerOwners(ctx context.Context, tenants []string) (TimerOwners, error) {
	out := TimerOwners{}
	for _, tenant := range timers.New(s.store).Indexes(tenants) {
		next, err := s.rdb.ZRangeWithScores(ctx, s.keys.Timers(tenant), 0, mostInFlight-1).Result()
		if err != nil {
			return nil, store.Failed("look at the timers", err)
		}
		for _, entry := range next {
			d := timers.DueOf(entry, time.Time{})
			out[executionKey{d.Tenant, d.Execution}] = true
		}
	}
	return out, nil
}

// Stuck looks for executions that are at work, by their status, but for which
// nothing is under way: no event is unread or pending in any group, none of the
// next timers is theirs, and nothing was added to their history for how.Quiet. Those
// that wait are left out: they may wait for an event that anybody may send.
func (s View) Stuck(ctx context.Context, tenant string, how StuckQuery) (Stuck, error) {
	if err := store.CheckTenant(tenant); err != nil {
		return Stuck{}, err
	}
	pipe := s.rdb.Pipeline()
	open := s.store.TenantKeys(tenant).Open
	clock, count := pipe.Time(ctx), pipe.ZCard(ctx, open)
	oldest := pipe.ZRange(ctx, open, 0, int64(how.Most)-1)
	if _, err := pipe.Exec(ctx); err != nil {
		return Stuck{}, store.Failed("list open executions", err)
	}
	out := Stuck{Examined: len(oldest.Val()), Open: count.Val()}
	if out.Open == 0 {
		return out, nil
	}
	busy, err := s.inFlightInAll(ctx, tenant)
	if errors.Is(err, errBacklog) {
		out.Unsure = err.Error()
		return out, nil
	}
	if err != nil {
		return out, err
	}
	var idle []string
	for _, id := range oldest.Val() {
		if !busy[id] && !how.Next[executionKey{tenant, id}] {
			idle = append(idle, id)
		}
	}
	out.Found, err = s.unchangedSince(ctx, tenant, idle, clock.Val().Add(-how.Quiet))
	return out, err
}

var errBacklog = errors.New("the services have much to do")

// inFlightInAll are the executions for which something is under way.
func (s View) inFlightInAll(ctx context.Context, tenant string) (map[string]bool, error) {
	out := map[string]bool{}
	streams, err := s.Streams(ctx, []string{tenant})
	if err != nil {
		return nil, err
	}
	for _, group := range streams[0].Groups {
		if group.Lag >= mostInFlight || group.Pending > mostInFlight {
			return nil, fmt.Errorf("%w: %s has %d events unread and %d pending, too many to look through",
				errBacklog, group.Name, group.Lag, group.Pending)
		}
		if err := s.addInFlight(ctx, tenant, group, out); err != nil {
			return nil, store.Failed("look at what is under way", err)
		}
	}
	return out, nil
}

// addInFlight adds the executions of a group's unread and pending events.
func (s View) addInFlight(ctx context.Context, tenant string, group Group, out map[string]bool) error {
	key := s.keys.Stream(tenant)
	pipe := s.rdb.Pipeline()
	var entries []*redis.XMessageSliceCmd
	if group.Lag > 0 {
		entries = append(entries, pipe.XRangeN(ctx, key, "("+group.Delivered, "+", mostInFlight))
	}
	if group.Pending > 0 {
		args := &redis.XPendingExtArgs{Stream: key, Group: group.Name, Start: "-", End: "+", Count: mostInFlight}
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

// unchangedSince are those of some executions that are at work and whose history has said
// nothing since a moment.
func (s View) unchangedSince(ctx context.Context, tenant string, ids []string, since time.Time) (out []string, err error) {
	if len(ids) == 0 {
		return nil, nil
	}
	pipe := s.rdb.Pipeline()
	known := make([]*redis.SliceCmd, len(ids))
	for i, id := range ids {
		known[i] = pipe.HMGet(ctx, s.keys.Execution(tenant, id), "status", "created")
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, store.Failed("look at open executions", err)
	}
	for i, id := range ids {
		fields := wire.List(known[i].Val())
		if status := fields.Text(0); status != "pending" && status != "running" {
			continue
		}
		last := wire.Time(fields.Text(1))
		entries, err := s.rdb.XRevRangeN(ctx, s.keys.History(tenant, id), "+", "-", 1).Result()
		if err != nil {
			return nil, store.Failed("look at the history of "+id, err)
		}
		if len(entries) > 0 {
			text, _ := entries[0].Values["time"].(string)
			last = wire.Time(text)
		}
		if last.Before(since) {
			out = append(out, id)
		}
	}
	return out, nil
}

// ErrUnsure is wrapped by errors that say why it cannot be told what is under way.
var ErrUnsure = errors.New("it cannot be told what is under way")

// Postponed returns the executions of which an event is put off, however many timers there are
// before it: it looks at all of them.
func (s View) Postponed(ctx context.Context, tenant string) (map[string]bool, error) {
	out := map[string]bool{}
	match := "*\"kind\":\"" + string(event.DeliveryTimer) + "\"*"
	for cursor, more := uint64(0), true; more; more = cursor != 0 {
		found, next, err := s.rdb.ZScan(ctx, s.keys.Timers(tenant), cursor, match, store.ScanCount).Result()
		if err != nil {
			return nil, store.Failed("look at the timers", err)
		}
		for i := 0; i+1 < len(found); i += 2 { // members and scores
			if d := timers.DueOf(redis.Z{Member: found[i]}, time.Time{}); d.Kind == event.DeliveryTimer && d.Tenant == tenant {
				out[d.Execution] = true
			}
		}
		cursor = next
	}
	return out, nil
}

// InFlight returns the executions for which the services still have an event to handle:
// one that is unread, pending, or put off. An execution that needs something which is not
// there, before and after a look at this, has lost it. The error wraps ErrUnsure where
// there is too much to look through, or where a service has never read here.
func (s View) InFlight(ctx context.Context, tenant string) (map[string]bool, error) {
	streams, err := s.Streams(ctx, []string{tenant})
	if err != nil {
		return nil, err
	}
	own := []string{store.WorkerGroup, store.ExecutorGroup, store.TimerGroup}
	out, found := map[string]bool{}, 0
	groups := streams[0].Groups
	if named := slices.ContainsFunc(groups, func(g Group) bool { return slices.Contains(own, g.Name) }); named {
		groups = slices.DeleteFunc(slices.Clone(groups), func(g Group) bool { return !slices.Contains(own, g.Name) })
	}
	for _, group := range groups {
		if group.Lag >= mostInFlight || group.Pending > mostInFlight {
			return nil, fmt.Errorf("%w: %s has %d events unread and %d pending", ErrUnsure, group.Name, group.Lag, group.Pending)
		}
		if err := s.addInFlight(ctx, tenant, group, out); err != nil {
			return nil, store.Failed("look at what is under way", err)
		}
		found++
	}
	if found < len(own) {
		return nil, fmt.Errorf("%w: not every service has read the events of tenant %s", ErrUnsure, tenant)
	}
	next, err := s.rdb.ZRangeWithScores(ctx, s.keys.Timers(tenant), 0, mostInFlight-1).Result()
	if err != nil {
		return nil, store.Failed("look at the timers", err)
	}
	for _, entry := range next {
		if d := timers.DueOf(entry, time.Time{}); d.Kind == event.DeliveryTimer && d.Tenant == tenant {
			out[d.Execution] = true
		}
	}
	return out, nil
}

// Unlisted are the executions of tenants that stand in no list, as those of old
// deployments: they are carried on when something happens to them, but nobody sees
// them. It looks at all keys, at most so many times at a thousand; complete says
// whether that was enough.
func (s View) Unlisted(ctx context.Context, tenants []string, looks int) (found map[string][]string, complete bool, err error) {
	if len(tenants) == 0 {
		return nil, true, nil
	}
	wanted := map[string]bool{}
	for _, tenant := range tenants {
		if err := store.CheckTenant(tenant); err != nil {
			return nil, false, err
		}
		wanted[tenant] = true
	}
	pattern := s.keys.Execution("*", "*")
	if len(tenants) == 1 {
		pattern = s.keys.Execution(tenants[0], "*")
	}
	found = map[string][]string{}
	for cursor := uint64(0); looks > 0; looks-- {
		names, next, err := s.rdb.ScanType(ctx, cursor, pattern, store.ScanCount, "hash").Result()
		if err != nil {
			return nil, false, store.Failed("look for executions", err)
		}
		if err := s.unlisted(ctx, s.executionsOf(names, wanted), found); err != nil {
			return nil, false, store.Failed("look for executions", err)
		}
		if cursor = next; cursor == 0 {
			complete = true
			break
		}
	}
	for tenant, ids := range found {
		slices.Sort(ids)
		found[tenant] = slices.Compact(ids)
	}
	return found, complete, nil
}

// executionsOf are the executions that keys are of, as far as they are of tenants that matter.
func (s View) executionsOf(names []string, wanted map[string]bool) (out []executionKey) {
	for _, name := range names {
		tenant, id, _ := strings.Cut(strings.TrimPrefix(name, "tenant:"), ":execution:")
		if tenant = strings.Trim(tenant, "{}"); wanted[tenant] && name == s.keys.Execution(tenant, id) {
			out = append(out, executionKey{tenant, id})
		}
	}
	return out
}

// unlisted adds those of some executions that do not stand where their status belongs.
func (s View) unlisted(ctx context.Context, all []executionKey, found map[string][]string) error {
	if len(all) == 0 {
		return nil
	}
	pipe := s.rdb.Pipeline()
	statuses := make([]*redis.StringCmd, len(all))
	for i, x := range all {
		statuses[i] = pipe.HGet(ctx, s.keys.Execution(x.tenant, x.id), "status")
	}
	if _, err := pipe.Exec(ctx); err != nil && !errors.Is(err, redis.Nil) {
		return err
	}
	listed := make([]*redis.FloatCmd, len(all))
	for i, x := range all {
		listed[i] = pipe.ZScore(ctx, s.keys.Index(x.tenant, statuses[i].Val()), x.id)
	}
	if _, err := pipe.Exec(ctx); err != nil && !errors.Is(err, redis.Nil) {
		return err
	}
	for i, x := range all {
		if statuses[i].Val() != "" && errors.Is(listed[i].Err(), redis.Nil) {
			found[x.tenant] = append(found[x.tenant], x.id)
		}
	}
	return nil
}
