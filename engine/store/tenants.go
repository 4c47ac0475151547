package store

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strings"

	"flunq.io/flunq/engine/store/wire"
)

// Tenants returns the registered tenants, sorted: those for which something was started,
// defined or prepared.
func (s *Store) Tenants(ctx context.Context) ([]string, error) {
	names, err := s.Members(ctx, s.keys.Tenants())
	if err != nil {
		return nil, Failed("read the tenants", err)
	}
	return slices.DeleteFunc(names, func(name string) bool { return CheckTenant(name) != nil }), nil
}

// TenantCount returns the approximate number of registered tenants. It changes with each new one.
func (s *Store) TenantCount(ctx context.Context) (int64, error) {
	n, err := s.rdb.SCard(ctx, s.keys.Tenants()).Result()
	return n, Failed("count the tenants", err)
}

// FindTenants scans all keys for streams of tenants. It also finds unregistered tenants, since
// producers need not register them.
func (s *Store) FindTenants(ctx context.Context) ([]string, error) {
	return s.TenantsWith(ctx, s.keys.Stream)
}

// TenantsWith scans all keys for the tenants that have a stream of one kind, whose key is key(tenant).
func (s *Store) TenantsWith(ctx context.Context, key func(tenant string) string) ([]string, error) {
	before, after, _ := strings.Cut(key("*"), "*")
	streams, _, err := s.FindStreams(ctx, before+"*"+after, math.MaxInt)
	var tenants []string
	for _, stream := range streams {
		name := strings.Trim(strings.TrimSuffix(strings.TrimPrefix(stream, before), after), "{}")
		if CheckTenant(name) == nil && stream == key(name) {
			tenants = append(tenants, name)
		}
	}
	return tenants, err
}

// AddTenant registers a tenant, before anything is written for it.
func (s *Store) AddTenant(ctx context.Context, tenant string) error {
	if _, known := s.registered.Load(tenant); known {
		return nil
	}
	_, err := s.WriteEvenIfFull(ctx, s.keys.Tenants(), "sadd", s.keys.Tenants(), tenant)
	if err != nil && s.Clustered() && s.rdb.Exists(ctx, s.keys.Stream(tenant)).Val() > 0 {
		return nil // it exists: only the master with the list of tenants is unavailable
	}
	if err == nil {
		s.registered.Store(tenant, true)
	}
	return Failed("register the tenant", err)
}

// RemoveTenant removes all keys of a tenant except its timers. Remove these first, since a timer that
// fires writes to the stream. No process may serve the tenant any more: anything that it writes in
// the meantime may stay.
func (s *Store) RemoveTenant(ctx context.Context, tenant string) error {
	if err := CheckTenant(tenant); err != nil {
		return err
	}
	err := EachTenantKey(ctx, s, tenant, func(keys []string) error { return s.rdb.Unlink(ctx, keys...).Err() })
	if err != nil {
		return Failed("remove the keys of tenant "+tenant, err)
	}
	s.registered.Delete(tenant)
	return Failed("remove tenant "+tenant, s.rdb.SRem(ctx, s.keys.Tenants(), tenant).Err())
}

// EachTenantKey calls do with the keys of a tenant except its timers, page by page. It may pass a key
// twice, and stops at the first error.
func EachTenantKey(ctx context.Context, s *Store, tenant string, do func(keys []string) error) error {
	node, _, err := wire.MasterOf(ctx, s.rdb.Redis, s.keys.Stream(tenant))
	if err != nil {
		return err
	}
	pages := math.MaxInt
	return eachPage(ctx, node, s.keys.Tenant(tenant)+":*", "", &pages, do)
}

// eachPage calls do with the keys of a node whose names match a pattern, page by page; kind "" stands for
// keys of any type. It subtracts the pages from those that are left, and stops when that is negative, or
// at the first error.
func eachPage(ctx context.Context, node wire.Redis, pattern, kind string, left *int, do func(keys []string) error) error {
	for cursor, more := uint64(0), true; more; more = cursor != 0 {
		if *left--; *left < 0 {
			break
		}
		keys, next, err := node.ScanType(ctx, cursor, pattern, ScanCount, kind).Result()
		if err == nil && len(keys) > 0 {
			err = do(keys)
		}
		if err != nil {
			return err
		}
		cursor = next
	}
	return nil
}

// RemainingKeys counts a tenant's keys except its timers, and returns at most a few of them.
func RemainingKeys(ctx context.Context, s *Store, tenant string) (some []string, n int, err error) {
	const few = 3
	if err := CheckTenant(tenant); err != nil {
		return nil, 0, err
	}
	err = EachTenantKey(ctx, s, tenant, func(keys []string) error {
		n += len(keys)
		some = append(some, keys[:min(len(keys), max(few-len(some), 0))]...)
		return nil
	})
	return some, n, Failed("look for the keys of tenant "+tenant, err)
}

// Members reads a set page by page, sorted.
func (s *Store) Members(ctx context.Context, key string) (all []string, err error) {
	members := s.rdb.SScan(ctx, key, 0, "", ScanCount).Iterator()
	for members.Next(ctx) {
		all = append(all, members.Val())
	}
	return compacted(all), members.Err()
}

// compacted sorts strings and removes duplicates.
func compacted(in []string) []string {
	slices.Sort(in)
	return slices.Compact(in)
}

// ScanCount is the approximate number of keys, or members of a key, that Redis examines in one step of
// a scan.
const ScanCount = 1000

// FindStreams returns the streams whose names match a pattern, sorted, in at most maxPages pages of a
// scan; complete reports whether that was enough. With an error it returns those of the masters of a
// cluster that could be scanned.
func (s *Store) FindStreams(ctx context.Context, pattern string, maxPages int) (found []string, complete bool, err error) {
	complete, err = s.EachKey(ctx, pattern, "stream", maxPages, func(keys []string) error {
		found = append(found, keys...)
		return nil
	})
	return compacted(found), complete, Failed("look for streams", err)
}

// EachKey scans the keys of one type whose names match a pattern, on all masters of a cluster, in at
// most maxPages pages, and calls do with each page. It may pass a key twice. complete reports whether it
// has scanned all of them. If it fails on a master, it continues with the others, and returns the first
// error at the end.
func (s *Store) EachKey(ctx context.Context, pattern, kind string, maxPages int, do func(keys []string) error) (complete bool, err error) {
	var first error
	err = wire.EachMaster(ctx, s.rdb.Redis, func(ctx context.Context, master wire.Redis, _ string) error {
		first = cmp.Or(first, eachPage(ctx, master, pattern, kind, &maxPages, do))
		return nil
	})
	err = cmp.Or(err, first)
	return err == nil && maxPages >= 0, err
}
