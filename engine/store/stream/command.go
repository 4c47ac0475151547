package stream

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/scripts"
)

//nolint:gochecknoglobals // a constant that go-redis wraps
var takeCommandsScript = scripts.New("even_if_full", "stream_info", "take_commands")

const (
	commandsTaken    = 100 // maximum for one tenant per call
	commandsExamined = 1000
)

// TakeCommands delivers to the reader the operators' commands that are queued behind other entries
// in the streams of tenants. They become pending for the reader like messages that it has read.
func (s Streams) TakeCommands(ctx context.Context, r Reader, tenants []string) (out []store.Message, err error) {
	tenants, err = s.withCommands(ctx, tenants)
	if err != nil || len(tenants) == 0 {
		return nil, store.Failed("find commands", err)
	}
	var now time.Time
	for i, tenant := range tenants {
		if i == 0 || s.keys.Clustered() {
			if now, err = s.store.NowOf(ctx, tenant); err != nil {
				return out, err
			}
		}
		reply, err := takeCommandsScript().Run(ctx, s.rdb, []string{s.keys.Stream(tenant), s.keys.Commands(tenant)},
			r.Group, r.Consumer, s.keys.Execution(tenant, ""), commandsTaken, commandsExamined).Slice()
		if err != nil {
			return out, store.Failed("take commands", err)
		}
		out = append(out, s.claimed(r, tenant, reply, now)...)
	}
	return out, nil
}

// withCommands returns the tenants that may have such commands.
func (s Streams) withCommands(ctx context.Context, tenants []string) (some []string, err error) {
	if !s.keys.Clustered() {
		keys := make([]string, 0, len(tenants))
		for _, tenant := range tenants {
			keys = append(keys, s.keys.Commands(tenant))
		}
		if n, err := s.rdb.Exists(ctx, keys...).Result(); err != nil || n == 0 {
			return nil, err
		}
		return tenants, nil
	}
	pipe, found := s.rdb.Pipeline(), make([]*redis.IntCmd, len(tenants))
	for i, tenant := range tenants {
		found[i] = pipe.Exists(ctx, s.keys.Commands(tenant))
	}
	if len(tenants) > 0 {
		_, err = pipe.Exec(ctx)
	}
	for i, tenant := range tenants {
		if found[i].Val() > 0 {
			some = append(some, tenant)
		}
	}
	return some, err
}
