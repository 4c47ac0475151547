package store

import (
	"context"
	"math"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
)

// Tenants are those that somebody has started, defined or prepared something for,
// sorted.
func (s *Store) Tenants(ctx context.Context) ([]string, error) {
	names, err := s.members(ctx, s.keys.tenants())
	if err != nil {
		return nil, failed("read the tenants", err)
	}
	return slices.DeleteFunc(names, func(name string) bool { return CheckTenant(name) != nil }), nil
}

// TenantCount is how many there are of them, about: it differs when one has come.
func (s *Store) TenantCount(ctx context.Context) (int64, error) {
	n, err := s.rdb.SCard(ctx, s.keys.tenants()).Result()
	return n, failed("count the tenants", err)
}

// FindTenants looks through all keys for streams of tenants, also of those that
// nobody has made known: producers need not.
func (s *Store) FindTenants(ctx context.Context) ([]string, error) {
	keys, _, err := s.streams(ctx, "tenant:*"+otherSuffix, math.MaxInt)
	var tenants []string
	for _, key := range keys {
		name := strings.Trim(strings.TrimSuffix(strings.TrimPrefix(key, "tenant:"), otherSuffix), "{}")
		if CheckTenant(name) == nil && key == s.keys.stream(name) {
			tenants = append(tenants, name)
		}
	}
	return tenants, err
}

// know notes that there is a tenant, before something is written for it.
func (s *Store) know(ctx context.Context, tenant string) error {
	h := s.home(tenant)
	if h.known.Load() {
		return nil
	}
	if err := s.rdb.SAdd(ctx, s.keys.tenants(), tenant).Err(); err != nil {
		return failed("make a tenant known", err)
	}
	h.known.Store(true)
	return nil
}

// nobody reports whether Redis says that there is no group, or no stream.
func nobody(err redis.Error) bool {
	return strings.HasPrefix(err.Error(), "NOGROUP") || strings.Contains(err.Error(), "no such key")
}
