package store

import (
	"context"
	"time"

	"flunq.io/flunq/engine/event"
)

//nolint:gochecknoglobals // constants that go-redis wraps
var (
	commandScript      = script("even_if_full", "command")
	takeCommandsScript = script("even_if_full", "stream_info", "take_commands")
)

const (
	commandsKept     = time.Hour // a command that workers have not read by then has its effect when they do
	commandsTaken    = 100       // of one tenant at once
	commandsLookedAt = 1000
)

// ahead reports whether workers may handle a command before what stands before it in the
// stream. Such a command has no effect when it is delivered again later, in its place:
// what comes between the two in the stream has not been read.
func ahead(t event.Type) bool { return t == event.ExecutionCancelled || t == event.ExecutionSuspended }

// command appends the command of an operator to the stream, even if Redis is full.
func (s *Store) command(ctx context.Context, e event.Event) error {
	keys := []string{s.keys.Stream(e.Tenant), s.keys.commands(e.Tenant)}
	args := append([]any{e.Execution, int(commandsKept.Seconds())}, anys(s.fields(e))...)
	return failed("publish", commandScript.Run(ctx, s.rdb, keys, args...).Err())
}

// TakeCommands delivers operators' commands to the reader that wait behind other entries
// of the streams of tenants. They are the reader's like messages that it has read.
func (s Streams) TakeCommands(ctx context.Context, r Reader, tenants []string) (out []Message, err error) {
	keys := make([]string, 0, len(tenants))
	for _, tenant := range tenants {
		keys = append(keys, s.store.keys.commands(tenant))
	}
	if n, err := s.store.rdb.Exists(ctx, keys...).Result(); err != nil || n == 0 {
		return nil, failed("look for commands", err)
	}
	now, err := s.store.Now(ctx)
	if err != nil {
		return nil, err
	}
	for i, tenant := range tenants {
		names := s.store.keysFor(tenant)
		reply, err := takeCommandsScript.Run(ctx, s.store.rdb, []string{names.stream, keys[i]},
			r.Group, r.Consumer, names.executions, commandsTaken, commandsLookedAt).Slice()
		if err != nil {
			return out, failed("take commands", err)
		}
		for _, item := range reply {
			if id, fields, _, _, ok := claimed(item); ok {
				out = append(out, s.message(r, tenant, id, fields, now))
			}
		}
	}
	return out, nil
}
