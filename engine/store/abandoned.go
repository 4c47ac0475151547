package store

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"
)

// ClaimAbandoned looks at what was delivered and not acknowledged: what its consumer
// has left alone for a lease is delivered to this one. If there is nothing to
// take, wake says when there may be; zero means that nothing is pending at all.
func (s *Store) ClaimAbandoned(ctx context.Context, r Reader, lease time.Duration, count int, now time.Time) (out []Message, wake time.Time, err error) {
	var errs []error
	for tenants := range slices.Chunk(r.Tenants, together) {
		looks, err := s.pending(ctx, tenants, r.Group)
		if err != nil {
			return out, wake, errors.Join(append(errs, err)...)
		}
		for i, w := range looks {
			first, oldest, err := s.firstAbandoned(ctx, w, lease)
			if first != "" {
				var msgs []Message
				msgs, err = s.claim(ctx, r, claim{tenants[i], first, lease, count}, now)
				out = append(out, msgs...)
			} else if at := now.Add(lease - oldest); err == nil && oldest >= 0 && (wake.IsZero() || at.Before(wake)) {
				wake = at
			}
			if errs = append(errs, err); Temporary(err) {
				return out, wake, errors.Join(errs...)
			}
		}
	}
	return out, wake, errors.Join(errs...)
}

// together is how many tenants are looked at in one round trip.
const together = 100

// waiting is the beginning of what is pending of a stream.
type waiting struct {
	args    redis.XPendingExtArgs
	entries *redis.XPendingExtCmd
}

// pendingLook is how much of what is pending is looked at.
const pendingLook = 100

// pending looks at what is pending of some tenants. What is wrong with one of them
// is told by leftAlone.
func (s *Store) pending(ctx context.Context, tenants []string, group string) ([]waiting, error) {
	out := make([]waiting, len(tenants))
	pipe := s.rdb.Pipeline()
	for i, tenant := range tenants {
		out[i].args = redis.XPendingExtArgs{Stream: s.keys.Stream(tenant), Group: group, Start: "-", End: "+", Count: pendingLook}
		out[i].entries = pipe.XPendingExt(ctx, &out[i].args)
	}
	_, err := pipe.Exec(ctx)
	reported := func(w waiting) bool { return w.entries.Err() != nil }
	if err != nil && !slices.ContainsFunc(out, reported) {
		return nil, failed("look at what is pending", err) // it went out to nobody
	}
	return out, nil
}

// firstAbandoned finds the first entry that nobody has touched for a lease; "" if
// there is none. Then oldest says for how long one has been left alone, negative
// if nothing is pending.
func (s *Store) firstAbandoned(ctx context.Context, w waiting, lease time.Duration) (first string, oldest time.Duration, err error) {
	entries, err := w.entries.Result()
	if err != nil {
		return "", 0, failed("look at what is pending", err)
	}
	oldest = -1
	for _, entry := range entries {
		if entry.Idle >= lease {
			return entry.ID, entry.Idle, nil
		}
		oldest = max(oldest, entry.Idle)
	}
	if len(entries) < pendingLook {
		return "", oldest, nil
	}
	// These are at work. Redis itself looks through those behind them.
	w.args.Idle, w.args.Count = lease, 1
	if entries, err = s.rdb.XPendingExt(ctx, &w.args).Result(); err != nil || len(entries) == 0 {
		return "", oldest, failed("look at what is pending", err)
	}
	return entries[0].ID, entries[0].Idle, nil
}
