package store

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// Kept is what is kept of a tenant's finished executions, as who removes the others
// has said within some minutes; without bounds if nobody has.
func (s *Store) Kept(ctx context.Context, tenant string) (Keep, error) {
	if err := CheckTenant(tenant); err != nil {
		return Keep{}, err
	}
	text, err := s.rdb.Get(ctx, s.keys.kept(tenant)).Result()
	if errors.Is(err, redis.Nil) {
		return Keep{}, nil
	}
	if err != nil {
		return Keep{}, failed("read what is kept", err)
	}
	age, count, _ := strings.Cut(text, " ")
	var keep Keep
	keep.Age, err = time.ParseDuration(age)
	if err == nil {
		keep.Count, err = strconv.ParseInt(count, 10, 64)
	}
	if err != nil {
		return Keep{}, fmt.Errorf("what is kept of tenant %s is %q, want a duration and a number", tenant, text)
	}
	return keep, nil
}

// weighed is how many executions of each index are weighed, at most; entrance
// what the name of one takes in a list, beside its text, about.
const (
	weighed  = 8
	entrance = 90
)

// Weight is how many bytes of Redis' memory a finished execution of a tenant takes
// with its history, about: the mean of some, old and young. It is 0 if there are
// none, or where Redis does not tell.
func (s *Store) Weight(ctx context.Context, tenant string) (int64, error) {
	if err := CheckTenant(tenant); err != nil {
		return 0, err
	}
	pipe := s.rdb.Pipeline()
	var samples []*redis.StringSliceCmd
	for _, name := range finishedIndexes() {
		key := s.keys.Executions(tenant, name)
		samples = append(samples, pipe.ZRange(ctx, key, 0, weighed/2-1), pipe.ZRange(ctx, key, -weighed/2, -1))
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return 0, failed("look at finished executions", err)
	}
	pipe = s.rdb.Pipeline()
	var sizes []*redis.IntCmd
	text := 0
	for _, sample := range samples {
		for _, id := range sample.Val() {
			text += len(id)
			sizes = append(sizes, pipe.MemoryUsage(ctx, s.keys.Execution(tenant, id)), pipe.MemoryUsage(ctx, s.keys.history(tenant, id)))
		}
	}
	if len(sizes) == 0 {
		return 0, nil
	}
	if _, err := pipe.Exec(ctx); err != nil && Temporary(failed("", err)) {
		return 0, failed("weigh finished executions", err)
	}
	sum, all := int64(0), int64(len(sizes)/2)
	for _, size := range sizes {
		sum += size.Val() // 0 of one that has gone, or is not told
	}
	if sum == 0 {
		return 0, nil
	}
	return sum/all + int64(text)/all + entrance, nil
}
