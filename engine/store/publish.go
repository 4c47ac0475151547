package store

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/store/wire"
)

// Publish appends an event to its tenant's stream. It writes an operator's command even if
// Redis is full.
func (s *Store) Publish(ctx context.Context, e event.Event) error {
	if err := CheckTenant(e.Tenant); err != nil {
		return err
	}
	stream, fields := s.keys.Stream(e.Tenant), wire.Args(s.Fields(e))
	var err error
	switch {
	case mayOvertake(e.Type):
		args := append([]any{e.Execution, int(commandsKept.Seconds())}, fields...)
		err = commandScript().Run(ctx, s.rdb, []string{stream, s.keys.Commands(e.Tenant)}, args...).Err()
	case isCommand(e.Type):
		_, err = s.WriteEvenIfFull(ctx, stream, append([]any{"xadd", stream, "*"}, fields...)...)
	default:
		err = s.rdb.XAdd(ctx, &redis.XAddArgs{Stream: stream, Values: fields}).Err()
	}
	return Failed("publish", err)
}

// commandsKept is how long the list of a tenant's commands is kept. A command that no worker has
// read by then takes effect when it is read from the stream.
const commandsKept = time.Hour

// mayOvertake reports whether workers may handle a command before the entries that precede it in
// the stream. When the stream delivers it again at its position, it has no effect.
func mayOvertake(t event.Type) bool {
	return t == event.ExecutionCancelled || t == event.ExecutionSuspended
}

// A Redis that has reached its maxmemory rejects writes. The ends of executions, operators'
// commands, and what a process needs to start are written nevertheless: they are small, and without
// them memory could not be freed.

// Full reports whether an error says that Redis has reached its maxmemory.
func Full(err error) bool {
	f, ok := errors.AsType[*failure](err)
	return ok && redis.IsOOMError(f.err)
}

// WriteEvenIfFull sends a command that has one key. It reports whether the reply is not null.
func (s *Store) WriteEvenIfFull(ctx context.Context, key string, command ...any) (done bool, err error) {
	write := redis.NewCmd(ctx, command...)
	write.SetFirstKeyPos(int8(slices.Index(command, any(key)))) // XGROUP CREATE has it third
	err = s.rdb.Process(ctx, write)
	if redis.IsOOMError(err) {
		err = writeEvenIfFullScript().Run(ctx, s.rdb, []string{key}, command...).Err()
	}
	if errors.Is(err, redis.Nil) {
		return false, nil
	}
	return err == nil, err
}

// isCommand reports whether events of a type are operators' commands.
func isCommand(t event.Type) bool {
	switch t {
	case event.ExecutionCancelled, event.ExecutionSuspended, event.ExecutionResumed, event.ExecutionRetried:
		return true
	default:
		return false
	}
}
