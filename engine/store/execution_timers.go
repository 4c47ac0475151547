package store

import (
	"context"

	"github.com/redis/go-redis/v9"

	"flunq.io/flunq/engine/event"
)

// Armed finds timers that an execution has set among those that will fire, wherever
// they were moved to; those that are not there, or not yet, have no ID.
func (s *Store) Armed(ctx context.Context, timers []event.Timer) ([]Pending, error) {
	if len(timers) == 0 {
		return nil, nil
	}
	pipe := s.rdb.Pipeline()
	scores, moved := make([]*redis.FloatCmd, len(timers)), make([]*redis.SliceCmd, len(timers))
	for i, t := range timers {
		if err := CheckTenant(t.Tenant); err != nil {
			return nil, err
		}
		scores[i] = pipe.ZScore(ctx, s.keys.timers(t.Tenant), member(t))
		moved[i] = pipe.HMGet(ctx, s.keys.execution(t.Tenant, t.Execution), "moved:"+tombstone(t))
	}
	clock := pipe.Time(ctx)
	// A timer that is not there is redis.Nil.
	if _, err := pipe.Exec(ctx); err != nil && clock.Err() != nil {
		return nil, failed("read the timers of an execution", err)
	}
	out := make([]Pending, len(timers))
	for i, t := range timers {
		out[i] = Pending{Due: Due{Timer: t, Member: member(t), now: clock.Val().UTC()}}
		text, _ := moved[i].Val()[0].(string) // nil where it was not moved
		if text != "" {
			other := dueOf(redis.Z{Member: text}, out[i].now)
			out[i] = pendingOf(redis.Z{Score: score(other.Due()), Member: text}, out[i].now)
		} else if scores[i].Err() == nil {
			out[i] = pendingOf(redis.Z{Score: scores[i].Val(), Member: out[i].Member}, out[i].now)
		}
	}
	return out, nil
}
