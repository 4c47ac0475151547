package inspect

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/timers"
	"flunq.io/flunq/engine/store/wire"
)

// Stuck lists the executions of a tenant that seem to have no next step.
type Stuck struct {
	Examined int      // open executions that were examined, oldest first
	Open     int64    // all open executions
	Found    []string // ids of the stuck executions
	Unsure   string   // why stuck executions cannot be determined; "" if they were
}

// maxInFlight is the number of unread events and pending entries of each group, and of timers of each
// set, that are read to find their executions.
const maxInFlight = 1000

// StuckQuery selects the executions that Stuck examines.
type StuckQuery struct {
	Limit int           // open executions to examine
	Quiet time.Duration // time without a new history entry
	Next  TimerOwners
}

// TimerOwners is the set of executions that own one of the next timers.
type TimerOwners map[executionKey]bool

// executionKey identifies an execution.
type executionKey struct{ tenant, id string }

// TimerOwners reads the next timers of tenants and returns their executions.
func (v View) TimerOwners(ctx context.Context, tenants []string) (TimerOwners, error) {
	out := TimerOwners{}
	for _, tenant := range timers.New(v.store).Indexes(tenants) {
		next, err := v.rdb.ZRangeWithScores(ctx, v.keys.Timers(tenant), 0, maxInFlight-1).Result()
		if err != nil {
			return nil, store.Failed("read the timers", err)
		}
		for _, entry := range next {
			d := timers.DueOf(entry, time.Time{})
			out[executionKey{d.Tenant, d.Execution}] = true
		}
	}
	return out, nil
}

// Stuck finds executions that are pending or running although nothing can advance them: none of
// their events is unread or pending in any group, they own none of the next timers, and their
// history has not grown for how.Quiet. It leaves out waiting executions, which may wait for an
// external event.
func (v View) Stuck(ctx context.Context, tenant string, how StuckQuery) (Stuck, error) {
	if err := store.CheckTenant(tenant); err != nil {
		return Stuck{}, err
	}
	pipe := v.rdb.Pipeline()
	open := v.keys.Executions(tenant, "open")
	clock, count := pipe.Time(ctx), pipe.ZCard(ctx, open)
	oldest := pipe.ZRange(ctx, open, 0, int64(how.Limit)-1)
	if _, err := pipe.Exec(ctx); err != nil {
		return Stuck{}, store.Failed("list open executions", err)
	}
	out := Stuck{Examined: len(oldest.Val()), Open: count.Val()}
	if out.Open == 0 {
		return out, nil
	}
	streams, err := v.Streams(ctx, []string{tenant})
	if err != nil {
		return out, err
	}
	busy, err := v.inFlight(ctx, tenant, streams[0].Groups, errBacklog)
	if errors.Is(err, errBacklog) {
		out.Unsure = err.Error() + ", too many to read"
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
	out.Found, err = v.unchangedSince(ctx, tenant, idle, clock.Val().Add(-how.Quiet))
	return out, err
}

var errBacklog = errors.New("the services have much to do")

// inFlight returns the executions that have an unread or pending event in a group. If a group has
// too many to read, the error wraps tooMany.
func (v View) inFlight(ctx context.Context, tenant string, groups []Group, tooMany error) (map[string]bool, error) {
	out := map[string]bool{}
	for _, group := range groups {
		if group.Lag >= maxInFlight || group.Pending > maxInFlight {
			return nil, fmt.Errorf("%w: %s has %d events unread and %d pending", tooMany, group.Name, group.Lag, group.Pending)
		}
		if err := v.addInFlight(ctx, tenant, group, out); err != nil {
			return nil, store.Failed("read the events in flight", err)
		}
	}
	return out, nil
}

// addInFlight adds the executions of a group's unread and pending events.
func (v View) addInFlight(ctx context.Context, tenant string, group Group, out map[string]bool) error {
	key := v.keys.Stream(tenant)
	pipe := v.rdb.Pipeline()
	var entries []*redis.XMessageSliceCmd
	if group.Lag > 0 {
		entries = append(entries, pipe.XRangeN(ctx, key, "("+group.Delivered, "+", maxInFlight))
	}
	if group.Pending > 0 {
		args := &redis.XPendingExtArgs{Stream: key, Group: group.Name, Start: "-", End: "+", Count: maxInFlight}
		pending, err := v.rdb.XPendingExt(ctx, args).Result()
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

// unchangedSince returns which of the executions are pending or running and have a history that has
// not grown since a given time.
func (v View) unchangedSince(ctx context.Context, tenant string, ids []string, since time.Time) (out []string, err error) {
	if len(ids) == 0 {
		return nil, nil
	}
	pipe := v.rdb.Pipeline()
	known := make([]*redis.SliceCmd, len(ids))
	for i, id := range ids {
		known[i] = pipe.HMGet(ctx, v.keys.Execution(tenant, id), "status", "created")
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, store.Failed("read open executions", err)
	}
	for i, id := range ids {
		fields := wire.List(known[i].Val())
		if status := fields.Text(0); status != "pending" && status != "running" {
			continue
		}
		last := wire.Time(fields.Text(1))
		entries, err := v.rdb.XRevRangeN(ctx, v.keys.History(tenant, id), "+", "-", 1).Result()
		if err != nil {
			return nil, store.Failed("read the history of "+id, err)
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

// ErrUnsure is wrapped by errors of InFlight that say why the events in flight are unknown.
var ErrUnsure = errors.New("the events in flight are unknown")

// Postponed returns the executions that have a postponed event. It scans all timers.
func (v View) Postponed(ctx context.Context, tenant string) (map[string]bool, error) {
	out := map[string]bool{}
	match := `*"kind":"` + string(event.DeliveryTimer) + `"*`
	err := wire.EachPair(ctx, v.rdb.ZScan(ctx, v.keys.Timers(tenant), 0, match, store.ScanCount), func(member, _ string) error {
		if d := timers.DueOf(redis.Z{Member: member}, time.Time{}); d.Kind == event.DeliveryTimer && d.Tenant == tenant {
			out[d.Execution] = true
		}
		return nil
	})
	if err != nil {
		return nil, store.Failed("read the timers", err)
	}
	return out, nil
}

// InFlight returns the executions that have an unread, pending or postponed event. It finds
// postponed events only among the next timers, see Postponed. Something that an execution needs is
// lost only if it is missing both before and after a call of InFlight that does not return the
// execution. The error wraps ErrUnsure if there are too many events to read, or if a service has
// never read the stream.
func (v View) InFlight(ctx context.Context, tenant string) (map[string]bool, error) {
	streams, err := v.Streams(ctx, []string{tenant})
	if err != nil {
		return nil, err
	}
	own := store.ServiceGroups()
	groups := streams[0].Groups
	if named := slices.ContainsFunc(groups, func(g Group) bool { return slices.Contains(own, g.Name) }); named {
		groups = slices.DeleteFunc(slices.Clone(groups), func(g Group) bool { return !slices.Contains(own, g.Name) })
	}
	out, err := v.inFlight(ctx, tenant, groups, ErrUnsure)
	if err != nil {
		return nil, err
	}
	if len(groups) < len(own) {
		return nil, fmt.Errorf("%w: not every service has read the events of tenant %s", ErrUnsure, tenant)
	}
	next, err := v.rdb.ZRangeWithScores(ctx, v.keys.Timers(tenant), 0, maxInFlight-1).Result()
	if err != nil {
		return nil, store.Failed("read the timers", err)
	}
	for _, entry := range next {
		if d := timers.DueOf(entry, time.Time{}); d.Kind == event.DeliveryTimer && d.Tenant == tenant {
			out[d.Execution] = true
		}
	}
	return out, nil
}

// Requests says which requests of an execution's tasks were read. The maps are keyed by task.
type Requests struct {
	Taken     map[string]PendingEntry // a consumer has read them
	Unread    map[string]bool         // those among the first unread events
	Delivered time.Time               // later events are unread; zero if nothing was read
	Lag       int64                   // unread events of all executions
}

// Requests reads which requests of an execution a group has not acknowledged.
func (v View) Requests(ctx context.Context, tenant, group, execution string) (Requests, error) {
	out := Requests{Taken: map[string]PendingEntry{}, Unread: map[string]bool{}}
	streams, err := v.Streams(ctx, []string{tenant})
	if err != nil {
		return out, err
	}
	after := "-"
	if i := slices.IndexFunc(streams[0].Groups, func(g Group) bool { return g.Name == group }); i >= 0 {
		g := streams[0].Groups[i]
		after, out.Delivered, out.Lag = "("+g.Delivered, store.IDTime(g.Delivered), g.Lag
	} else {
		out.Lag = streams[0].Length
	}
	pending, err := v.PendingEntries(ctx, tenant, group, maxInFlight)
	if err != nil {
		return out, err
	}
	for _, p := range pending {
		if p.Event.Type == event.TaskRequested && p.Event.Execution == execution {
			out.Taken[p.Event.Task] = p
		}
	}
	unread, err := v.rdb.XRangeN(ctx, v.keys.Stream(tenant), after, "+", maxInFlight).Result()
	if err != nil {
		return out, store.Failed("read the unread events", err)
	}
	for _, entry := range unread {
		text := func(name string) string { s, _ := entry.Values[name].(string); return s }
		if text("type") == string(event.TaskRequested) && text("executionid") == execution {
			out.Unread[text("taskid")] = true
		}
	}
	return out, nil
}

// Unlisted returns the executions of tenants that are missing from all indexes, such as those of old
// deployments: they still handle events, but no list shows them. It scans the keys of Redis in at
// most maxPages pages of about a thousand keys. complete reports whether it has scanned all.
func (v View) Unlisted(ctx context.Context, tenants []string, maxPages int) (found map[string][]string, complete bool, err error) {
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
	pattern := v.keys.Execution("*", "*")
	if len(tenants) == 1 {
		pattern = v.keys.Execution(tenants[0], "*")
	}
	found = map[string][]string{}
	complete, err = v.store.EachKey(ctx, pattern, "hash", maxPages, func(names []string) error {
		return v.unlisted(ctx, v.executionsOf(names, wanted), found)
	})
	if err != nil {
		return nil, false, store.Failed("look for executions", err)
	}
	for tenant, ids := range found {
		slices.Sort(ids)
		found[tenant] = slices.Compact(ids)
	}
	return found, complete, nil
}

// executionsOf returns the executions of keys that belong to a wanted tenant.
func (v View) executionsOf(names []string, wanted map[string]bool) (out []executionKey) {
	for _, name := range names {
		if tenant, id, ok := v.keys.ExecutionOf(name); ok && wanted[tenant] {
			out = append(out, executionKey{tenant, id})
		}
	}
	return out
}

// unlisted adds the executions that are missing from the index of their status.
func (v View) unlisted(ctx context.Context, all []executionKey, found map[string][]string) error {
	if len(all) == 0 {
		return nil
	}
	pipe := v.rdb.Pipeline()
	statuses := make([]*redis.StringCmd, len(all))
	for i, x := range all {
		statuses[i] = pipe.HGet(ctx, v.keys.Execution(x.tenant, x.id), "status")
	}
	if err := wire.ExceptNil(pipe.Exec(ctx)); err != nil {
		return err
	}
	listed := make([]*redis.FloatCmd, len(all))
	for i, x := range all {
		listed[i] = pipe.ZScore(ctx, v.keys.Index(x.tenant, statuses[i].Val()), x.id)
	}
	if err := wire.ExceptNil(pipe.Exec(ctx)); err != nil {
		return err
	}
	for i, x := range all {
		if statuses[i].Val() != "" && errors.Is(listed[i].Err(), redis.Nil) {
			found[x.tenant] = append(found[x.tenant], x.id)
		}
	}
	return nil
}
