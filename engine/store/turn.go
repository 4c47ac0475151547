package store

import (
	"context"
	"time"
)

// Turn reports whether the caller is the first of all processes to ask for something within
// a period: it does it then, and the others leave it.
func (s *Store) Turn(ctx context.Context, what string, period time.Duration) (bool, error) {
	mine, err := s.rdb.SetNX(ctx, s.keys.turn(what), "1", period).Result()
	return mine, failed("ask whose turn it is", err)
}

// Sizes are about how many bytes the histories of executions take in Redis; -1 where it
// does not say.
func (s *Store) Sizes(ctx context.Context, tenant string, ids []string) []int64 {
	const few = 1 // entries that Redis looks at
	pipe := s.rdb.Pipeline()
	out := make([]int64, len(ids))
	for _, id := range ids {
		pipe.MemoryUsage(ctx, s.keys.history(tenant, id), few)
	}
	replies, _ := pipe.Exec(ctx) // what was refused is unknown
	for i := range out {
		out[i] = -1
		if size, ok := replies[i].(interface{ Result() (int64, error) }); ok {
			if n, err := size.Result(); err == nil {
				out[i] = n
			}
		}
	}
	return out
}
