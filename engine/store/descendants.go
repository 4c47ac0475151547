package store

import (
	"context"
	"errors"

	"github.com/redis/go-redis/v9"
)

// Descendants is how many executions are open below one that no other has begun. Where
// there are limit of them or more, those that are not open any more are looked for: one
// that was given up is still listed.
func (s *Store) Descendants(ctx context.Context, tenant, root string, limit int) (int, error) {
	if err := checkExecution(tenant, root); err != nil {
		return 0, err
	}
	key := s.keys.descendants(tenant, root)
	open, err := s.rdb.SCard(ctx, key).Result()
	if err != nil || open < int64(limit) {
		return int(open), failed("count the executions below "+root, err)
	}
	ids, err := s.rdb.SRandMemberN(ctx, key, looksWhenFull).Result()
	if err != nil {
		return int(open), failed("look at the executions below "+root, err)
	}
	pipe := s.rdb.Pipeline()
	statuses := make([]*redis.StringCmd, len(ids))
	for i, id := range ids {
		statuses[i] = pipe.HGet(ctx, s.keys.Execution(tenant, id), "status")
	}
	_, _ = pipe.Exec(ctx) // what is unknown is open
	var gone []any
	for i, status := range statuses {
		if errors.Is(status.Err(), redis.Nil) || status.Err() == nil && indexOf(status.Val()) != openIndex {
			gone = append(gone, ids[i])
		}
	}
	if len(gone) == 0 {
		return int(open), nil
	}
	err = s.rdb.SRem(ctx, key, gone...).Err()
	return int(open) - len(gone), failed("forget executions below "+root, err)
}

// MemoryUse is how many bytes Redis uses, and may use; 0 if it may use all there is, or
// does not say.
func (s *Store) MemoryUse(ctx context.Context) (used, most int64, err error) {
	info, err := s.rdb.Info(ctx, "memory").Result()
	if _, refused := errors.AsType[redis.Error](err); refused {
		return 0, 0, nil // one that does not say may use all
	}
	if err != nil {
		return 0, 0, failed("ask for the memory", err)
	}
	v := ReadServer(info, nil)
	return v.Used, max(v.Limit, 0), nil
}
