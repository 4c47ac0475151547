// Package transfer moves a tenant from one Redis to another, such as a Redis Cluster. It compares all
// keys and timers that it has copied before it deletes anything.
package transfer

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/processes"
	"flunq.io/flunq/engine/store/timers"
	"flunq.io/flunq/engine/store/wire"
)

// Move moves one tenant. No process may serve the tenant at its source.
type Move struct {
	Tenant   string
	From, To *store.Store

	Keys   int // of the tenant that were found
	Timers int // that are set

	copied bool     // an earlier attempt has copied everything
	keys   []string // after the name of the tenant
	timers []redis.Z
	fields map[string]string // of the hash of timer keys
	gone   []redis.Z         // of the set of forgotten timer keys
	asked  []redis.Z
}

// Errors that say why a tenant cannot be moved.
var (
	ErrServed  = errors.New("a process serves it")
	ErrThere   = errors.New("it exists at the destination already")
	ErrChanged = errors.New("it was changed meanwhile")
)

// The suffixes of a tenant's keys at the destination. Until the move is done, the stream and the timers
// have other names, so that no service begins with a part of the tenant.
const (
	streamSuffix   = ":events"
	arriving       = ":events:arriving"
	arrivingTimers = ":timers:arriving"
	arrived        = ":events:arrived" // holds the state of the move: copying or copied
)

// The states of a move.
const (
	copying = "0"
	copied  = "1" // and compared
)

// Find examines the tenant without changing anything. It fails if a process serves the tenant, or if
// the tenant exists at its destination, except as an empty stream.
func (m *Move) Find(ctx context.Context) error {
	if err := store.CheckTenant(m.Tenant); err != nil {
		return err
	}
	served := Unserved(ctx, m.From, m.Tenant) // before the keys are read, which such a process could add to
	if served != nil && !errors.Is(served, ErrServed) {
		return served
	}
	var err error
	if m.keys, err = suffixes(ctx, m.From, m.Tenant); err != nil {
		return err
	}
	m.Keys = len(m.keys)
	there, err := suffixes(ctx, m.To, m.Tenant)
	if err != nil {
		return err
	}
	state, err := m.To.Redis().Get(ctx, m.To.Keys().Tenant(m.Tenant)+arrived).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return store.Failed("look for an earlier attempt", err)
	}
	m.copied = state == copied
	if served != nil && (m.Keys > 0 || m.copied) { // if the tenant does not exist, this says nothing
		return served
	}
	if m.Keys > 0 && (state == "" && len(there) > 0 || slices.Contains(there, streamSuffix)) {
		if err := m.unused(ctx, there, state == copying); err != nil {
			return err
		}
	}
	switch {
	case m.Keys > 0 || m.copied:
	case len(there) > 0:
		return fmt.Errorf("tenant %s: %w at the source; the destination has it, as after a completed move", m.Tenant, store.ErrNotFound)
	default:
		return fmt.Errorf("tenant %s: %w", m.Tenant, store.ErrNotFound)
	}
	if err := m.findTimers(ctx); err != nil || !m.copied {
		return err
	}
	return m.countArrived(ctx, there)
}

// countArrived counts what an earlier attempt has copied, since it may have deleted a part at the source.
func (m *Move) countArrived(ctx context.Context, there []string) error {
	m.Keys = len(slices.DeleteFunc(there, func(suffix string) bool { return suffix == arrived || suffix == arrivingTimers }))
	found := map[any]bool{} // a timer is in both sets if the attempt ended in between
	for _, key := range []string{m.To.Keys().Tenant(m.Tenant) + arrivingTimers, m.To.Keys().Timers(m.Tenant)} {
		some, err := m.scan(ctx, m.To, key, m.owns)
		if err != nil {
			return store.Failed("read the timers that have arrived", err)
		}
		for _, entry := range some {
			found[entry.Member] = true
		}
	}
	m.Timers = len(found)
	return nil
}

// owns reports whether an entry is a timer of the tenant.
func (m *Move) owns(entry redis.Z) bool { return timers.DueOf(entry, time.Time{}).Tenant == m.Tenant }

// unused returns an error unless the tenant at its destination is only an empty stream, which a service
// has created there, beside what an earlier attempt has left, and no process serves it.
func (m *Move) unused(ctx context.Context, there []string, begun bool) error {
	entries, err := m.To.Redis().XLen(ctx, m.To.Keys().Stream(m.Tenant)).Result()
	switch {
	case err != nil:
		return store.Failed("look for events at the destination", err)
	case entries > 0 || !begun && !slices.Equal(there, []string{streamSuffix}):
		return fmt.Errorf("tenant %s: %w: that is the same Redis, or one with data of its own, which 'flunq tenants rm' would remove", m.Tenant, ErrThere)
	}
	if err := Unserved(ctx, m.To, m.Tenant); err != nil {
		return fmt.Errorf("at the destination: %w", err)
	}
	return nil
}

// Unserved returns an ErrServed if a process serves a tenant.
func Unserved(ctx context.Context, s *store.Store, tenant string) error {
	all, now, err := processes.In(s).All(ctx)
	if err != nil {
		return err
	}
	for _, p := range all {
		if !p.Alive(now) || !p.Serves(tenant) {
			continue
		}
		advice := "stop it, or let it serve other tenants (--tenant)"
		if !p.Embedded {
			advice += fmt.Sprintf("; its last heartbeat was %s ago, and a process that was killed counts as dead after %s",
				max(now.Sub(p.Heartbeat), 0).Round(time.Second), processes.DeadAfter)
		}
		return fmt.Errorf("tenant %s: %w: %s on %s; %s", tenant, ErrServed, p.Name, p.Host, advice)
	}
	return nil
}

// suffixes returns the keys of a tenant without their prefix, sorted.
func suffixes(ctx context.Context, s *store.Store, tenant string) (out []string, err error) {
	err = store.EachTenantKey(ctx, s, tenant, func(keys []string) error {
		for _, key := range keys {
			out = append(out, strings.TrimPrefix(key, s.Keys().Tenant(tenant)))
		}
		return nil
	})
	slices.Sort(out)
	return slices.Compact(out), store.Failed("look for keys", err)
}

// findTimers picks the timers of the tenant, and what belongs to them, from the keys that all tenants
// of a single Redis share. It scans these keys, since other tenants keep running.
func (m *Move) findTimers(ctx context.Context) (err error) {
	keys := m.From.Keys()
	if m.timers, err = m.scan(ctx, m.From, keys.Timers(m.Tenant), m.owns); err != nil {
		return store.Failed("read the timers", err)
	}
	m.Timers = len(m.timers)
	named := func(entry redis.Z) bool { name, _ := entry.Member.(string); return tenantOf(name) == m.Tenant }
	if m.gone, err = m.scan(ctx, m.From, keys.ForgottenKeys(m.Tenant), named); err != nil {
		return store.Failed("read the forgotten timer keys", err)
	}
	every := func(redis.Z) bool { return true }
	if m.asked, err = m.scan(ctx, m.From, keys.AskedTimers(m.Tenant), every); err != nil {
		return store.Failed("read the requested timers", err)
	}
	m.fields = map[string]string{}
	fields := m.From.Redis().HScan(ctx, keys.TimerKeys(m.Tenant), 0, "", store.ScanCount)
	err = wire.EachPair(ctx, fields, func(identity, kept string) error {
		if tenantOf(identity) == m.Tenant {
			m.fields[identity] = kept
		}
		return nil
	})
	return store.Failed("read the timer keys", err)
}

// scan returns the wanted members of a sorted set, in order.
func (m *Move) scan(ctx context.Context, from *store.Store, key string, wanted func(redis.Z) bool) ([]redis.Z, error) {
	found := map[string]redis.Z{} // a scan may return a member twice
	err := wire.EachPair(ctx, from.Redis().ZScan(ctx, key, 0, "", store.ScanCount), func(member, text string) error {
		score, _ := strconv.ParseFloat(text, 64) // Redis writes numbers
		if entry := (redis.Z{Member: member, Score: score}); wanted(entry) {
			found[member] = entry
		}
		return nil
	})
	var out []redis.Z
	for _, member := range slices.Sorted(maps.Keys(found)) {
		out = append(out, found[member])
	}
	slices.SortStableFunc(out, func(a, b redis.Z) int { return cmp.Compare(a.Score, b.Score) })
	return out, err
}

// tenantOf returns the tenant in the identity of a timer.
func tenantOf(identity string) string {
	var parts []string
	if len(identity) < 1 || json.Unmarshal([]byte(identity[1:]), &parts) != nil || len(parts) == 0 {
		return ""
	}
	return parts[0]
}

// Run moves the tenant that Find has found. Until everything is copied and compared, the source is
// unchanged. If Run fails, it can be called again after Find, and continues.
func (m *Move) Run(ctx context.Context) error {
	if !m.copied {
		if err := m.copyAll(ctx); err != nil {
			return err
		}
	} else if err := m.compare(ctx); errors.Is(err, ErrChanged) { // what is left at the source
		return fmt.Errorf("%w; the destination has everything as it was copied: discard the rest with 'flunq tenants rm %s' at the source, then run this command again", err, m.Tenant)
	} else if err != nil {
		return err
	}
	if err := m.remove(ctx); err != nil {
		return err
	}
	return m.handOver(ctx)
}

// copyAll copies everything, compares it, and records that it did.
func (m *Move) copyAll(ctx context.Context) error {
	if err := m.clear(ctx); err != nil {
		return err
	}
	if err := m.To.Redis().Set(ctx, m.To.Keys().Tenant(m.Tenant)+arrived, copying, 0).Err(); err != nil {
		return store.Failed("note that copying begins", err)
	}
	for _, suffix := range m.keys {
		if err := m.copy(ctx, suffix); err != nil {
			return err
		}
	}
	if err := m.copyTimers(ctx); err != nil {
		return err
	}
	if err := m.compare(ctx); err != nil {
		return errors.Join(err, m.clear(ctx))
	}
	return store.Failed("note what was copied", m.To.Redis().Set(ctx, m.To.Keys().Tenant(m.Tenant)+arrived, copied, 0).Err())
}

// handOver lets the services of the destination begin.
func (m *Move) handOver(ctx context.Context) error {
	rdb, prefix := m.To.Redis(), m.To.Keys().Tenant(m.Tenant)
	there, err := rdb.Exists(ctx, prefix+arriving).Result()
	if err == nil && there > 0 {
		err = rdb.Rename(ctx, prefix+arriving, m.To.Keys().Stream(m.Tenant)).Err()
	}
	if err != nil {
		return store.Failed("hand tenant "+m.Tenant+" over", err)
	}
	for more := true; more; {
		page, err := rdb.ZRangeWithScores(ctx, prefix+arrivingTimers, 0, atOnce-1).Result()
		if more = len(page) > 0; err == nil && more {
			err = rdb.ZAdd(ctx, m.To.Keys().Timers(m.Tenant), page...).Err()
		}
		if err == nil && more {
			err = rdb.ZRemRangeByRank(ctx, prefix+arrivingTimers, 0, int64(len(page))-1).Err()
		}
		if err != nil {
			return store.Failed("hand the timers of tenant "+m.Tenant+" over", err)
		}
	}
	if err := m.To.AddTenant(ctx, m.Tenant); err != nil {
		return err
	}
	return store.Failed("hand tenant "+m.Tenant+" over", rdb.Del(ctx, prefix+arrived).Err())
}

// clear removes what an earlier attempt has left at the destination, last the key that says so.
func (m *Move) clear(ctx context.Context) error {
	there, err := suffixes(ctx, m.To, m.Tenant)
	if err != nil {
		return err
	}
	for _, suffix := range there {
		if suffix == arrived {
			continue
		}
		if err := m.To.Redis().Unlink(ctx, m.To.Keys().Tenant(m.Tenant)+suffix).Err(); err != nil {
			return store.Failed("remove what an earlier attempt has left", err)
		}
	}
	if err := m.To.RemoveTenant(ctx, m.Tenant); err != nil || !m.To.Keys().Clustered() {
		return err
	}
	return timers.New(m.To).RemoveTenant(ctx, m.Tenant)
}

// destination returns the name of a key at the destination, before the stream gets its own name.
func (m *Move) destination(suffix string) string {
	if suffix == streamSuffix {
		suffix = arriving
	}
	return m.To.Keys().Tenant(m.Tenant) + suffix
}

func (m *Move) copy(ctx context.Context, suffix string) error {
	key := m.From.Keys().Tenant(m.Tenant) + suffix
	text, err := m.From.Redis().Dump(ctx, key).Result()
	if errors.Is(err, redis.Nil) { // it has expired
		return nil
	}
	if err != nil {
		return store.Failed("read "+key, err)
	}
	left, err := m.From.Redis().PTTL(ctx, key).Result()
	if err != nil {
		return store.Failed("read "+key, err)
	}
	return store.Failed("write "+m.destination(suffix), m.To.Redis().Restore(ctx, m.destination(suffix), max(left, 0), text).Err())
}

// atOnce is the number of timers in one command.
const atOnce = 1000

func (m *Move) copyTimers(ctx context.Context) error {
	rdb, keys := m.To.Redis(), m.To.Keys()
	for key, entries := range map[string][]redis.Z{
		keys.Tenant(m.Tenant) + arrivingTimers: m.timers, keys.ForgottenKeys(m.Tenant): m.gone, keys.AskedTimers(m.Tenant): m.asked,
	} {
		for page := range slices.Chunk(entries, atOnce) {
			if err := rdb.ZAdd(ctx, key, page...).Err(); err != nil {
				return store.Failed("write the timers", err)
			}
		}
	}
	if len(m.fields) == 0 {
		return nil
	}
	return store.Failed("write the timer keys", rdb.HSet(ctx, keys.TimerKeys(m.Tenant), m.fields).Err())
}

// compare checks that both sides have the same contents.
func (m *Move) compare(ctx context.Context) error {
	now, err := suffixes(ctx, m.From, m.Tenant)
	if err != nil {
		return err
	}
	for _, suffix := range now {
		key := m.From.Keys().Tenant(m.Tenant) + suffix
		was, err := contents(ctx, m.From.Redis(), key)
		if err != nil {
			return err
		}
		is, err := contents(ctx, m.To.Redis(), m.destination(suffix))
		if err != nil {
			return err
		}
		if was != is {
			return fmt.Errorf("tenant %s: %w: %s is not what was copied", m.Tenant, ErrChanged, key)
		}
	}
	before := *m
	if err := m.findTimers(ctx); err != nil {
		return err
	}
	if !slices.Equal(before.timers, m.timers) {
		return fmt.Errorf("tenant %s: %w: its timers are not what was copied", m.Tenant, ErrChanged)
	}
	for _, entry := range m.timers {
		member, _ := entry.Member.(string) // go-redis always reads a string
		score, err := m.To.Redis().ZScore(ctx, m.To.Keys().Tenant(m.Tenant)+arrivingTimers, member).Result()
		if err != nil || score != entry.Score {
			return fmt.Errorf("tenant %s: the timer %s did not arrive", m.Tenant, member)
		}
	}
	return nil
}

// remove deletes the tenant at the source, its timers first.
func (m *Move) remove(ctx context.Context) error {
	if m.From.Keys().Clustered() {
		if err := timers.New(m.From).RemoveTenant(ctx, m.Tenant); err != nil {
			return err
		}
		return m.From.RemoveTenant(ctx, m.Tenant)
	}
	rdb, keys := m.From.Redis(), m.From.Keys()
	for page := range slices.Chunk(m.timers, atOnce) {
		members := make([]any, len(page))
		for i, entry := range page {
			members[i] = entry.Member
		}
		if err := rdb.ZRem(ctx, keys.Timers(m.Tenant), members...).Err(); err != nil {
			return store.Failed("remove the timers", err)
		}
	}
	for name := range m.fields {
		if err := rdb.HDel(ctx, keys.TimerKeys(m.Tenant), name).Err(); err != nil {
			return store.Failed("remove the timer keys", err)
		}
	}
	for _, entry := range m.gone {
		if err := rdb.ZRem(ctx, keys.ForgottenKeys(m.Tenant), entry.Member).Err(); err != nil {
			return store.Failed("remove the forgotten timer keys", err)
		}
	}
	return m.From.RemoveTenant(ctx, m.Tenant)
}

// contents returns a hash of what a key holds, independent of how Redis stores it.
func contents(ctx context.Context, rdb wire.Redis, key string) (string, error) {
	h := sha256.New()
	kind, err := rdb.Type(ctx, key).Result()
	if err != nil {
		return "", store.Failed("read "+key, err)
	}
	var value any
	switch kind {
	case "hash":
		value, err = rdb.HGetAll(ctx, key).Result() // printed by name
	case "set":
		var members []string
		members, err = rdb.SMembers(ctx, key).Result()
		slices.Sort(members)
		value = members
	case "zset":
		value, err = rdb.ZRangeWithScores(ctx, key, 0, -1).Result()
	case "stream":
		return stream(ctx, rdb, key)
	case "none":
		return "", nil
	default:
		value, err = rdb.Get(ctx, key).Result()
	}
	fmt.Fprintf(h, "%s %v", kind, value)
	return hex.EncodeToString(h.Sum(nil)), store.Failed("read "+key, err)
}

// stream is like contents for a stream: its entries and what its groups have read.
func stream(ctx context.Context, rdb wire.Redis, key string) (string, error) {
	h := sha256.New()
	for from := "-"; ; {
		entries, err := rdb.XRangeN(ctx, key, from, "+", store.ScanCount).Result()
		if err != nil {
			return "", store.Failed("read "+key, err)
		}
		for _, entry := range entries {
			fmt.Fprintln(h, entry.ID, entry.Values)
			from = "(" + entry.ID
		}
		if len(entries) < store.ScanCount {
			break
		}
	}
	groups, err := rdb.XInfoGroups(ctx, key).Result()
	if err != nil {
		return "", store.Failed("read "+key, err)
	}
	for _, g := range groups {
		fmt.Fprintln(h, g.Name, g.Pending, g.LastDeliveredID)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
