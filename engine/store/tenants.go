package store

import (
	"context"
	"maps"
	"math"
	"slices"
	"strings"
)

// Tenants returns the registered tenants, sorted: those for which something was started,
// defined or prepared.
func (s *Store) Tenants(ctx context.Context) ([]string, error) {
	names, err := s.members(ctx, s.keys.Tenants())
	if err != nil {
		return nil, Failed("read the tenants", err)
	}
	return slices.DeleteFunc(names, func(name string) bool { return CheckTenant(name) != nil }), nil
}

// TenantCount returns about how many registered tenants there are. It changes with each new one.
func (s *Store) TenantCount(ctx context.Context) (int64, error) {
	n, err := s.rdb.SCard(ctx, s.keys.Tenants()).Result()
	return n, Failed("count the tenants", err)
}

// FindTenants scans all keys for streams of tenants. It also finds tenants that are not
// registered: producers need not do so.
func (s *Store) FindTenants(ctx context.Context) ([]string, error) {
	return s.TenantsWith(ctx, s.keys.Stream)
}

// TenantsWith scans all keys for the tenants that have a stream of one kind, which key names.
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
	h := s.TenantKeys(tenant)
	if h.known.Load() {
		return nil
	}
	if err := s.rdb.SAdd(ctx, s.keys.Tenants(), tenant).Err(); err != nil {
		return Failed("make a tenant known", err)
	}
	h.known.Store(true)
	return nil
}

// RemoveTenant removes all keys of a tenant except its timers. These must be removed before,
// since a timer that fires writes to the stream. No process may work for the tenant any more:
// what it writes meanwhile may stay.
func (s *Store) RemoveTenant(ctx context.Context, tenant string) error {
	if err := CheckTenant(tenant); err != nil {
		return err
	}
	for cursor := uint64(0); ; {
		keys, next, err := s.rdb.Scan(ctx, cursor, s.keys.Tenant(tenant)+":*", ScanCount).Result()
		if err == nil && len(keys) > 0 {
			err = s.rdb.Unlink(ctx, keys...).Err()
		}
		if err != nil {
			return Failed("remove the keys of tenant "+tenant, err)
		}
		if cursor = next; cursor == 0 {
			break
		}
	}
	s.TenantKeys(tenant).known.Store(false)
	return Failed("remove tenant "+tenant, s.rdb.SRem(ctx, s.keys.Tenants(), tenant).Err())
}

// compacted sorts strings and removes duplicates.
func compacted(in []string) []string {
	slices.Sort(in)
	return slices.Compact(in)
}

// ScanCount is about how many keys, or members of a key, Redis examines in one step of a scan.
const ScanCount = 1000

// FindStreams returns the streams whose names match a pattern, sorted, in at most looks steps
// of a scan; complete reports whether that was enough.
func (s *Store) FindStreams(ctx context.Context, pattern string, looks int) (found []string, complete bool, err error) {
	seen := map[string]bool{}
	for cursor := uint64(0); looks > 0; looks-- {
		keys, next, err := s.rdb.ScanType(ctx, cursor, pattern, ScanCount, "stream").Result()
		if err != nil {
			return nil, false, Failed("look for streams", err)
		}
		for _, key := range keys {
			seen[key] = true
		}
		if cursor = next; cursor == 0 {
			complete = true
			break
		}
	}
	return slices.Sorted(maps.Keys(seen)), complete, nil
}
