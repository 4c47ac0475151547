package store

import (
	"context"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
)

// Tenants are those that somebody has started, defined or prepared something for,
// sorted.
func (s *Store) Tenants(ctx context.Context) ([]string, error) {
	names, err := s.members(ctx, s.keys.Tenants())
	if err != nil {
		return nil, failed("read the tenants", err)
	}
	return slices.DeleteFunc(names, func(name string) bool { return CheckTenant(name) != nil }), nil
}

// TenantCount is how many there are of them, about: it differs when one has come.
func (s *Store) TenantCount(ctx context.Context) (int64, error) {
	n, err := s.rdb.SCard(ctx, s.keys.Tenants()).Result()
	return n, failed("count the tenants", err)
}

// FindTenants looks through all keys for streams of tenants, also of those that
// nobody has made known: producers need not.
func (s *Store) FindTenants(ctx context.Context) ([]string, error) {
	keys, _, err := s.streams(ctx, "tenant:*"+otherSuffix, math.MaxInt)
	var tenants []string
	for _, key := range keys {
		name := strings.Trim(strings.TrimSuffix(strings.TrimPrefix(key, "tenant:"), otherSuffix), "{}")
		if CheckTenant(name) == nil && key == s.keys.Stream(name) {
			tenants = append(tenants, name)
		}
	}
	return tenants, err
}

// know notes that there is a tenant, before something is written for it.
func (s *Store) know(ctx context.Context, tenant string) error {
	h := s.keysFor(tenant)
	if h.known.Load() {
		return nil
	}
	if err := s.rdb.SAdd(ctx, s.keys.Tenants(), tenant).Err(); err != nil {
		return failed("make a tenant known", err)
	}
	h.known.Store(true)
	return nil
}

// RemoveTenant removes all keys of a tenant, but for its timers: they must have gone before, since
// one that fires writes the stream again. Nothing may work for the tenant any more: what is written
// meanwhile may stay.
func (s *Store) RemoveTenant(ctx context.Context, tenant string) error {
	if err := CheckTenant(tenant); err != nil {
		return err
	}
	for cursor := uint64(0); ; {
		keys, next, err := s.rdb.Scan(ctx, cursor, s.keys.Tenant(tenant)+":*", scanCount).Result()
		if err == nil && len(keys) > 0 {
			err = s.rdb.Unlink(ctx, keys...).Err()
		}
		if err != nil {
			return failed("remove the keys of tenant "+tenant, err)
		}
		if cursor = next; cursor == 0 {
			break
		}
	}
	s.keysFor(tenant).known.Store(false)
	return failed("remove tenant "+tenant, s.rdb.SRem(ctx, s.keys.Tenants(), tenant).Err())
}

// nobody reports whether Redis says that there is no group, or no stream.
func nobody(err redis.Error) bool {
	return strings.HasPrefix(err.Error(), "NOGROUP") || strings.Contains(err.Error(), "no such key")
}

func sorted(in []string) []string {
	slices.Sort(in)
	return in
}

// The ends of the names of keys that are looked for.
const (
	otherSuffix = ":events"
	deadSuffix  = ":events:dlq"
)

// scanCount is about how many keys one look takes in.
const scanCount = 1000

// streams finds the streams whose names match a pattern, sorted.
func (s *Store) streams(ctx context.Context, pattern string, looks int) (found []string, complete bool, err error) {
	seen := map[string]bool{}
	for cursor := uint64(0); looks > 0; looks-- {
		keys, next, err := s.rdb.ScanType(ctx, cursor, pattern, scanCount, "stream").Result()
		if err != nil {
			return nil, false, failed("look for streams", err)
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
