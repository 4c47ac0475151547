package store

import (
	"context"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
)

// ForgetCrashes drops what was noted of messages of tenants that are not pending any
// more.
func (s *Store) ForgetCrashes(ctx context.Context, tenants ...string) error {
	for page := range slices.Chunk(tenants, together) {
		notes := make([]*redis.IntCmd, len(page))
		pipe := s.rdb.Pipeline()
		for i, tenant := range page {
			notes[i] = pipe.HLen(ctx, s.keys.crashes(tenant))
		}
		if _, err := pipe.Exec(ctx); err != nil {
			return failed("count the deaths", err)
		}
		for i, tenant := range page {
			if notes[i].Val() == 0 {
				continue
			}
			if err := s.forgetCrashes(ctx, tenant); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *Store) forgetCrashes(ctx context.Context, tenant string) error {
	key := s.keys.crashes(tenant)
	for cursor, first := uint64(0), true; first || cursor != 0; first = false {
		var pairs []string
		var err error
		if pairs, cursor, err = s.rdb.HScan(ctx, key, cursor, "", scanCount).Result(); err != nil {
			return failed("read the deaths", err)
		}
		for i := 0; i < len(pairs); i += 2 { // a name, and then its value
			if err := s.forgetDeath(ctx, tenant, key, pairs[i]); err != nil {
				return failed("forget the deaths", err)
			}
		}
	}
	return nil
}

// forgetDeath drops what was noted under one name, if that message is not pending.
func (s *Store) forgetDeath(ctx context.Context, tenant, key, name string) error {
	parts := strings.Fields(strings.TrimPrefix(name, "alone "))
	if len(parts) != 2 {
		return nil
	}
	args := &redis.XPendingExtArgs{Stream: s.keys.Stream(tenant), Group: parts[0], Start: parts[1], End: parts[1], Count: 1}
	pending, err := s.rdb.XPendingExt(ctx, args).Result()
	if err == nil && len(pending) == 0 {
		err = s.rdb.HDel(ctx, key, name).Err()
	}
	return err //nolint:wrapcheck // forgetDeaths says what was being done
}
