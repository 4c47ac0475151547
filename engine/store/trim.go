package store

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"
)

// Trim shortens a tenant's stream to about keep entries, and never to less. An
// entry goes when it is older than age by Redis' clock and when every group, also
// one that is not of ours, has read and acknowledged it and all before it. Nothing
// goes unless all of the groups are there; without names these are the services' own.
func (s *Store) Trim(ctx context.Context, tenant string, keep int, age time.Duration, groups ...string) (removed int64, err error) {
	return s.TrimAll(ctx, []string{tenant}, keep, age, groups...)
}

// TrimAll does that for many tenants, each as if it were alone.
func (s *Store) TrimAll(ctx context.Context, tenants []string, keep int, age time.Duration, groups ...string) (removed int64, err error) {
	if len(groups) == 0 {
		groups = []string{WorkerGroup, ExecutorGroup, TimerGroup}
	}
	args := append([]any{max(keep, 0), max(age, 0).Milliseconds()}, anys(groups)...)
	var streams []string
	for _, tenant := range tenants {
		if err := CheckTenant(tenant); err != nil {
			return 0, err
		}
		streams = append(streams, s.keys.Stream(tenant))
	}
	err = s.onEach(ctx, trimScript, streams, args, func(stream string, reply *redis.Cmd) error {
		n, err := reply.Int64()
		removed += n
		return failed("trim "+stream, err)
	})
	return removed, err
}

// onEach runs a script on each of many keys, a number of them in one round trip, and
// shows done what became of each. All errors come together.
func (s *Store) onEach(ctx context.Context, script *redis.Script, keys []string, args []any, done func(key string, reply *redis.Cmd) error) error {
	var errs []error
	for page := range slices.Chunk(keys, together) {
		replies, err := s.each(ctx, script, page, args)
		if err != nil {
			return errors.Join(append(errs, err)...)
		}
		for i, key := range page {
			err := done(key, replies[i])
			if errs = append(errs, err); Temporary(err) {
				return errors.Join(errs...)
			}
		}
	}
	return errors.Join(errs...)
}

// each runs a script on each of some keys in one round trip, or in a second one if
// Redis does not know it yet. An error is that it cannot get to know it.
func (s *Store) each(ctx context.Context, script *redis.Script, keys []string, args []any) ([]*redis.Cmd, error) {
	replies := make([]*redis.Cmd, len(keys))
	for known := false; ; known = true {
		pipe := s.rdb.Pipeline()
		for i, key := range keys {
			replies[i] = script.EvalSha(ctx, pipe, []string{key}, args...)
		}
		if _, err := pipe.Exec(ctx); !redis.HasErrorPrefix(err, "NOSCRIPT") || known {
			return replies, nil // each says what is wrong with it
		}
		if err := script.Load(ctx, s.rdb).Err(); err != nil {
			return nil, failed("load a script", err)
		}
	}
}

// SweepConsumers removes the consumers of a group that have nothing pending and
// have not asked for anything for so long: processes that are gone. One that comes
// back after all is made again by its next read.
func (s *Store) SweepConsumers(ctx context.Context, tenants []string, group string, idle time.Duration) error {
	var streams []string
	for _, tenant := range tenants {
		if err := CheckTenant(tenant); err != nil {
			return err
		}
		streams = append(streams, s.keys.Stream(tenant))
	}
	args := []any{group, max(idle, 0).Milliseconds()}
	return s.onEach(ctx, sweepScript, streams, args, func(stream string, reply *redis.Cmd) error {
		return failed("remove consumers of "+group+" of "+stream, reply.Err())
	})
}
