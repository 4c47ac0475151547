package store

import (
	"context"
	"time"

	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/store/scripts"
	"flunq.io/flunq/engine/store/wire"
)

var commandScript = scripts.New("even_if_full", "command") //nolint:gochecknoglobals // a constant that go-redis wraps

// commandsKept is how long the list of a tenant's commands is kept. A command that no worker has
// read by then takes effect when it is read from the stream.
const commandsKept = time.Hour

// mayOvertake reports whether workers may handle a command before the entries that precede it in
// the stream. When the stream delivers it again at its position, it has no effect.
func mayOvertake(t event.Type) bool {
	return t == event.ExecutionCancelled || t == event.ExecutionSuspended
}

// command appends an operator's command to the stream, even if Redis is full.
func (s *Store) command(ctx context.Context, e event.Event) error {
	keys := []string{s.keys.Stream(e.Tenant), s.keys.Commands(e.Tenant)}
	args := append([]any{e.Execution, int(commandsKept.Seconds())}, wire.Args(s.Fields(e))...)
	return Failed("publish", commandScript.Run(ctx, s.rdb, keys, args...).Err())
}
