package store

import (
	"context"
	"errors"

	"github.com/redis/go-redis/v9"
)

// Descendants returns the number of open executions below a root, and whether the given parent has
// ended; parent may be "". If the number reaches limit, it first removes executions that are no longer
// open, such as aborted ones.
func (s *Store) Descendants(ctx context.Context, tenant, root, parent string, limit int) (count int, parentEnded bool, err error) {
	if err := CheckIDs(tenant, root); err != nil {
		return 0, false, err
	}
	ended := func(status *redis.StringCmd) bool { return status.Err() == nil && indexOf(status.Val()) != openIndex }
	key, pipe := s.keys.descendants(tenant, root), s.rdb.Pipeline()
	size, status := pipe.SCard(ctx, key), new(redis.StringCmd)
	if parent != "" {
		status = pipe.HGet(ctx, s.keys.Execution(tenant, parent), "status")
	}
	_, _ = pipe.Exec(ctx) // size has the error; a missing parent is none
	count, parentEnded = int(size.Val()), parent != "" && ended(status)
	if size.Err() != nil || count < limit {
		return count, parentEnded, Failed("count the executions below "+root, size.Err())
	}
	ids, err := s.rdb.SRandMemberN(ctx, key, scannedWhenFull).Result()
	if err != nil {
		return count, parentEnded, Failed("read the executions below "+root, err)
	}
	statuses := make([]*redis.StringCmd, len(ids))
	for i, id := range ids {
		statuses[i] = pipe.HGet(ctx, s.keys.Execution(tenant, id), "status")
	}
	_, _ = pipe.Exec(ctx) // an unknown status counts as open
	var gone []any
	for i, status := range statuses {
		if errors.Is(status.Err(), redis.Nil) || ended(status) {
			gone = append(gone, ids[i])
		}
	}
	if len(gone) == 0 {
		return count, parentEnded, nil
	}
	err = s.rdb.SRem(ctx, key, gone...).Err()
	return count - len(gone), parentEnded, Failed("forget executions below "+root, err)
}

// scannedWhenFull is the number of members of a full set to check.
const scannedWhenFull = 100

// Open returns the number of open executions of a tenant. If it reaches limit, Open first removes
// from the index executions whose keys were deleted.
func (s *Store) Open(ctx context.Context, tenant string, limit int) (int, error) {
	if err := CheckTenant(tenant); err != nil {
		return 0, err
	}
	index := s.keys.Executions(tenant, openIndex)
	open, err := s.rdb.ZCard(ctx, index).Result()
	if err != nil || open < int64(limit) {
		return int(open), Failed("count the open executions", err)
	}
	ids, err := s.rdb.ZRandMember(ctx, index, scannedWhenFull).Result()
	if err != nil {
		return int(open), Failed("read the open executions", err)
	}
	pipe := s.rdb.Pipeline()
	exist := make([]*redis.IntCmd, len(ids))
	for i, id := range ids {
		exist[i] = pipe.Exists(ctx, s.keys.Execution(tenant, id))
	}
	_, _ = pipe.Exec(ctx) // an execution that cannot be checked counts as open
	for i, id := range ids {
		if exist[i].Err() != nil || exist[i].Val() > 0 {
			continue
		}
		gone, err := unlistScript().Run(ctx, s.rdb, []string{index, s.keys.Execution(tenant, id)}, id).Int64()
		if err != nil {
			return int(open), Failed("remove "+id+" from the open executions", err)
		}
		open -= gone
	}
	return int(open), nil
}
