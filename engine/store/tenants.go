package store

import (
	"context"
	"maps"
	"math"
	"slices"
	"strings"
)

// Tenants are those that somebody has started, defined or prepared something for,
// sorted.
func (s *Store) Tenants(ctx context.Context) ([]string, error) {
	names, err := s.members(ctx, s.keys.Tenants())
	if err != nil {
		return nil, Failed("read the tenants", err)
	}
	return slices.DeleteFunc(names, func(name string) bool { return CheckTenant(name) != nil }), nil
}

// TenantCount is how many there are of them, about: it differs when one has come.
func (s *Store) TenantCount(ctx context.Context) (int64, error) {
	n, err := s.rdb.SCard(ctx, s.keys.Tenants()).Result()
	return n, Failed("count the tenants", err)
}

// FindTenants looks through all keys for streams of tenants, also of those that
// nobody has made known: producers need not.
func (s *Store) FindTenants(ctx context.Context) ([]string, error) {
	return s.TenantsWith(ctx, s.keys.Stream)
}

// TenantsWith looks through all keys for the tenants that have a stream of one kind, of which
// key is the name.
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

// AddTenant notes that there is a tenant, before something is written for it.
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

// RemoveTenant removes all keys of a tenant, but for its timers: they must have gone before, since
// one that fires writes the stream again. Nothing may work for the tenant any more: what is written
// meanwhile may stay.
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

// compacted sorts strings and drops those that are there twice.
func compacted(in []string) []string {
	slices.Sort(in)
	return slices.Compact(in)
}

// ScanCount is about how many keys, or members of one, Redis looks at in one step of a scan.
const ScanCount = 1000

// FindStreams finds the streams whose names match a pattern, sorted, in at most looks steps of
// a scan; complete says whether that was enough.
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
