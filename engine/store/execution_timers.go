package store

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"flunq.io/flunq/engine/event"
)

// asSet is how a timer stands in the ZSET until somebody moves it.
func asSet(t event.Timer) string {
	t.MovedTo = time.Time{}
	return member(t)
}

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
		scores[i] = pipe.ZScore(ctx, s.keys.Timers(t.Tenant), asSet(t))
		moved[i] = pipe.HMGet(ctx, s.keys.Execution(t.Tenant, t.Execution), "moved:"+tombstone(t))
	}
	clock := pipe.Time(ctx)
	// A timer that is not there is redis.Nil.
	if _, err := pipe.Exec(ctx); err != nil && clock.Err() != nil {
		return nil, failed("read the timers of an execution", err)
	}
	out := make([]Pending, len(timers))
	var elsewhere []int // those that were moved
	for i, t := range timers {
		out[i] = Pending{Due: Due{Timer: t, Member: asSet(t), now: clock.Val().UTC()}}
		text, _ := moved[i].Val()[0].(string) // nil where it was not moved
		if scores[i].Err() == nil {
			out[i] = pendingOf(redis.Z{Score: scores[i].Val(), Member: out[i].Member}, out[i].now)
		} else if text != "" {
			out[i].Member = text
			elsewhere = append(elsewhere, i)
		}
	}
	if len(elsewhere) == 0 {
		return out, nil
	}
	for _, i := range elsewhere {
		scores[i] = pipe.ZScore(ctx, s.keys.Timers(timers[i].Tenant), out[i].Member)
	}
	clock = pipe.Time(ctx)
	if _, err := pipe.Exec(ctx); err != nil && clock.Err() != nil {
		return nil, failed("read the moved timers of an execution", err)
	}
	for _, i := range elsewhere {
		if scores[i].Err() == nil {
			out[i] = pendingOf(redis.Z{Score: scores[i].Val(), Member: out[i].Member}, out[i].now)
		}
	}
	return out, nil
}
