package stream

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/wire"
)

// claim selects the entries to claim.
type claim struct {
	tenant, first string
	lease         time.Duration
	count         int
}

// poisonCrashes is the crash count of a poison candidate. From then on, a crash counts only if the
// entry was handled in isolation.
const poisonCrashes = 2

// ReleasedIdle is the idle time that Release sets so that any consumer may claim the entry.
const ReleasedIdle = 24 * time.Hour

// claim claims entries that have been idle for a lease.
func (s Streams) claim(ctx context.Context, r Reader, c claim, now time.Time) ([]store.Message, error) {
	keys := []string{s.keys.Stream(c.tenant), s.keys.Crashes(c.tenant)}
	reply, err := claimScript().Run(ctx, s.rdb, keys, r.Group, r.Consumer, c.lease.Milliseconds(),
		ReleasedIdle.Milliseconds(), c.first, c.count, poisonCrashes, wire.LargeBudget, wire.MaxValue).Slice()
	if err != nil {
		return nil, store.Failed("claim", err)
	}
	out := s.claimed(r, c.tenant, reply, now)
	for i := range out {
		out[i].Claimed = true
	}
	return out, nil
}

// claimed reads the reply of claim.lua or take_commands.lua.
func (s Streams) claimed(r Reader, tenant string, reply wire.List, now time.Time) []store.Message {
	out := make([]store.Message, 0, len(reply))
	reply.Each(func(entry wire.List) {
		m := store.Message{
			Tenant: tenant, Group: r.Group, Consumer: r.Consumer, ID: entry.Text(0), Crashes: int(entry.Number(1)), Read: now,
		}
		s.store.ReadFields(&m, entry.List(2).Texts())
		if omitted := int(entry.Number(3)); omitted > 0 {
			m.Err = wire.TooLarge(omitted)
		}
		out = append(out, m)
	})
	return out
}

// MarkIsolated records that a poison candidate is about to be handled in isolation, so
// that a crash of its consumer counts against it.
func (s Streams) MarkIsolated(ctx context.Context, m store.Message) error {
	err := s.rdb.HSet(ctx, s.keys.Crashes(m.Tenant), "alone "+m.Group+" "+m.ID, "1").Err()
	return store.Failed("mark a poison candidate", err)
}

// Renew resets the idle time of messages, which keeps other consumers from claiming them for another
// lease. It calls lost, unless that is nil, with the messages that the consumer has lost: another
// consumer has claimed them, or they were acknowledged.
func (s Streams) Renew(ctx context.Context, msgs []store.Message, lost func([]store.Message)) error {
	return s.setIdle(ctx, 0, msgs, lost)
}

// Release hands messages back: any consumer of the group may claim them immediately.
func (s Streams) Release(ctx context.Context, msgs ...store.Message) error {
	return s.setIdle(ctx, ReleasedIdle, msgs, nil)
}

// byOwner groups messages by tenant, group and consumer. One command renews each part.
func byOwner(msgs []store.Message) (parts [][]store.Message) {
	type owner struct{ tenant, group, consumer string }
	places := map[owner]int{}
	for _, m := range msgs {
		o := owner{m.Tenant, m.Group, m.Consumer}
		at, known := places[o]
		if !known {
			at = len(parts)
			places[o], parts = at, append(parts, nil)
		}
		parts[at] = append(parts[at], m)
	}
	return parts
}

// setIdle sets the idle time of messages. It reports lost ones after each tenant instead of waiting for
// the replies about all tenants. A master that does not respond is asked once, not once for each tenant.
func (s Streams) setIdle(ctx context.Context, idle time.Duration, msgs []store.Message, report func(lost []store.Message)) error {
	var errs []error
	silent := map[string]bool{} // masters, by address
	for _, part := range byOwner(msgs) {
		stream := s.keys.Stream(part[0].Tenant)
		_, master, _ := wire.MasterOf(ctx, s.rdb.Redis, stream) // the script reports an error
		if silent[master] {
			continue
		}
		args := []any{part[0].Group, part[0].Consumer, idle.Milliseconds()}
		for _, m := range part {
			args = append(args, m.ID)
		}
		ids, err := renewScript().Run(ctx, s.rdb, []string{stream}, args...).StringSlice()
		if err != nil {
			err = store.Failed("renew or release a lease", err)
			errs, silent[master] = append(errs, err), store.Temporary(err)
			continue
		}
		lost := slices.DeleteFunc(part, func(m store.Message) bool { return !slices.Contains(ids, m.ID) })
		if len(lost) > 0 && report != nil {
			report(lost)
		}
	}
	return errors.Join(errs...)
}

// ClaimAbandoned claims pending entries that have been idle for a lease. If there are none, wake
// is when an entry may reach that idle time; zero means that nothing is pending.
func (s Streams) ClaimAbandoned(ctx context.Context, r Reader, lease time.Duration, count int, now time.Time) (out []store.Message, wake time.Time, err error) {
	var errs []error
	for tenants := range slices.Chunk(r.Tenants, tenantsAtOnce) {
		pages, err := s.pending(ctx, tenants, r.Group)
		if err != nil {
			return out, wake, errors.Join(append(errs, err)...)
		}
		for i, w := range pages {
			first, oldest, err := s.firstAbandoned(ctx, w, lease)
			err = errors.Join(err, s.restartLeases(ctx, tenants[i], w, lease, now))
			if first != "" {
				var msgs []store.Message
				at := now
				if s.keys.Clustered() {
					at, err = s.store.NowOf(ctx, tenants[i])
				}
				if err == nil {
					msgs, err = s.claim(ctx, r, claim{tenants[i], first, lease, count}, at)
				}
				out = append(out, msgs...)
			} else if err == nil && oldest >= 0 {
				wake = event.Earlier(wake, now.Add(lease-oldest))
			}
			if errs = append(errs, err); store.Down(s.store, err) {
				return out, wake, errors.Join(errs...)
			}
		}
	}
	return out, wake, errors.Join(errs...)
}

// tenantsAtOnce is the number of tenants covered by one round trip.
const tenantsAtOnce = 100

// pendingPage is an XPENDING of the first pending entries of a stream.
type pendingPage struct {
	args    redis.XPendingExtArgs
	entries *redis.XPendingExtCmd
}

// pendingPageSize is the number of pending entries in one page.
const pendingPageSize = 100

// pending reads the first pending entries of some tenants. firstAbandoned reports the error of a
// single tenant.
func (s Streams) pending(ctx context.Context, tenants []string, group string) ([]pendingPage, error) {
	out := make([]pendingPage, len(tenants))
	pipe := s.rdb.Pipeline()
	for i, tenant := range tenants {
		out[i].args = redis.XPendingExtArgs{Stream: s.keys.Stream(tenant), Group: group, Start: "-", End: "+", Count: pendingPageSize}
		out[i].entries = pipe.XPendingExt(ctx, &out[i].args)
	}
	_, err := pipe.Exec(ctx)
	reported := func(w pendingPage) bool { return w.entries.Err() != nil }
	if err != nil && !slices.ContainsFunc(out, reported) {
		return nil, store.Failed("read the pending entries", err) // no command has an error of its own: the pipeline failed
	}
	return out, nil
}

// firstAbandoned returns the first entry that has been idle for a lease. If there is none, first
// is "" and oldest is the longest idle time, negative if nothing is pending.
func (s Streams) firstAbandoned(ctx context.Context, w pendingPage, lease time.Duration) (first string, oldest time.Duration, err error) {
	entries, err := w.entries.Result()
	if err != nil {
		return "", 0, store.Failed("read the pending entries", err)
	}
	oldest = -1
	for _, entry := range entries {
		if entry.Idle >= lease {
			return entry.ID, entry.Idle, nil
		}
		oldest = max(oldest, entry.Idle)
	}
	if len(entries) < pendingPageSize {
		return "", oldest, nil
	}
	// All entries of this page are being handled. Let Redis search the rest.
	w.args.Idle, w.args.Count = lease, 1
	if entries, err = s.rdb.XPendingExt(ctx, &w.args).Result(); err != nil || len(entries) == 0 {
		return "", oldest, store.Failed("read the pending entries", err)
	}
	return entries[0].ID, entries[0].Idle, nil
}

// restartLeases renews, for their owners, entries whose idle time is 0 although they were not added within
// a lease from now. That changes nothing, unless the clock of Redis has gone back since they were delivered:
// then their idle time would stay 0 until the clock has caught up, however long their owner has been dead.
func (s Streams) restartLeases(ctx context.Context, tenant string, w pendingPage, lease time.Duration, now time.Time) error {
	var unaged []store.Message
	for _, entry := range w.entries.Val() {
		if entry.Idle == 0 && now.Sub(store.IDTime(entry.ID)).Abs() > lease {
			unaged = append(unaged, store.Message{Tenant: tenant, Group: w.args.Group, Consumer: entry.Consumer, ID: entry.ID})
		}
	}
	return s.setIdle(ctx, 0, unaged, nil)
}

// ForgetCrashes drops the crash counts of messages that are no longer pending.
func (s Streams) ForgetCrashes(ctx context.Context, tenants ...string) error {
	for page := range slices.Chunk(tenants, tenantsAtOnce) {
		notes := make([]*redis.IntCmd, len(page))
		pipe := s.rdb.Pipeline()
		for i, tenant := range page {
			notes[i] = pipe.HLen(ctx, s.keys.Crashes(tenant))
		}
		if _, err := pipe.Exec(ctx); err != nil {
			return store.Failed("count the crashes", err)
		}
		for i, tenant := range page {
			if notes[i].Val() == 0 {
				continue
			}
			counts := s.rdb.HScan(ctx, s.keys.Crashes(tenant), 0, "", store.ScanCount)
			err := wire.EachPair(ctx, counts, func(name, _ string) error { return s.forgetCrash(ctx, tenant, name) })
			if err != nil {
				return store.Failed("forget crash counts", err)
			}
		}
	}
	return nil
}

// forgetCrash drops a crash count, if its message is no longer pending.
func (s Streams) forgetCrash(ctx context.Context, tenant, name string) error {
	parts := strings.Fields(strings.TrimPrefix(name, "alone "))
	if len(parts) != 2 {
		return nil
	}
	args := &redis.XPendingExtArgs{Stream: s.keys.Stream(tenant), Group: parts[0], Start: parts[1], End: parts[1], Count: 1}
	pending, err := s.rdb.XPendingExt(ctx, args).Result()
	if err == nil && len(pending) == 0 {
		err = s.rdb.HDel(ctx, s.keys.Crashes(tenant), name).Err()
	}
	return err
}
