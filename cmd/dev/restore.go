package dev

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"flunq.io/flunq/engine/store"
)

// restoredIdle is the idle time of restored pending entries: consumers may claim them
// immediately, and no crash is counted for them.
const restoredIdle = 25 * time.Hour

// restore fills an empty Redis.
func (r *Redis) restore(ctx context.Context, f file) error {
	for _, k := range f.Keys {
		if err := r.restoreKey(ctx, k); err != nil {
			return fmt.Errorf("%w (key %q: %w)", ErrBroken, string(k.Name), err)
		}
	}
	hash, err := sum(f.Keys)
	if f.Clock != nil || f.Format == 0 {
		hash = [32]byte{} // the first save must write the clock or create the file
	}
	r.saved = hash
	return err
}

func (r *Redis) restoreKey(ctx context.Context, k key) error {
	pipe := r.rdb.Pipeline()
	name := string(k.Name)
	values := anys(k.Values)
	switch {
	case k.Kind == "stream":
		r.restoreStream(ctx, pipe, k)
	case len(values) == 0:
		return errors.New("no values")
	case k.Kind == "string":
		pipe.Set(ctx, name, values[0], 0)
	case k.Kind == "hash" && len(values)%2 == 0:
		pipe.HSet(ctx, name, values...)
	case k.Kind == "list":
		pipe.RPush(ctx, name, values...)
	case k.Kind == "set":
		pipe.SAdd(ctx, name, values...)
	case k.Kind == "zset" && len(values)%2 == 0:
		for i := 0; i < len(k.Values); i += 2 {
			score, err := strconv.ParseFloat(string(k.Values[i+1]), 64)
			if err != nil {
				return fmt.Errorf("score %q: %w", string(k.Values[i+1]), err)
			}
			pipe.ZAdd(ctx, name, redis.Z{Score: score, Member: string(k.Values[i])})
		}
	default:
		return fmt.Errorf("type %q with %d values", k.Kind, len(values))
	}
	if k.Expires > 0 {
		pipe.PExpireAt(ctx, name, time.UnixMilli(k.Expires))
	}
	_, err := pipe.Exec(ctx)
	return err
}

// restoreStream restores a stream and its groups, each with its last delivered id and its
// pending entries.
func (r *Redis) restoreStream(ctx context.Context, pipe redis.Pipeliner, k key) {
	name := string(k.Name)
	add := func(id string, fields []any) {
		pipe.Do(ctx, append([]any{"XADD", name, id}, fields...)...)
	}
	last := "0-0"
	exists := map[string]bool{}
	for _, e := range k.Entries {
		add(e.ID, anys(e.Fields))
		exists[e.ID] = true
		last = e.ID
	}
	if k.Last != "" && store.CompareIDs(k.Last, last) > 0 { // the last entry was removed
		add(k.Last, []any{"gone", ""})
		pipe.XDel(ctx, name, k.Last)
	}
	for _, g := range k.Groups {
		pipe.XGroupCreateMkStream(ctx, name, string(g.Name), g.Last)
		for _, p := range g.Pending {
			if exists[p.ID] {
				pipe.Do(ctx, "XCLAIM", name, string(g.Name), string(p.Consumer), 0, p.ID,
					"IDLE", restoredIdle.Milliseconds(), "RETRYCOUNT", p.Count, "FORCE", "JUSTID")
			}
		}
	}
}

func anys(in []text) []any {
	out := make([]any, len(in))
	for i, t := range in {
		out[i] = string(t)
	}
	return out
}
