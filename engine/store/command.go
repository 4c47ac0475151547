package store

import (
	"context"
	"time"

	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/store/scripts"
	"flunq.io/flunq/engine/store/wire"
)

var commandScript = scripts.New("even_if_full", "command") //nolint:gochecknoglobals // a constant that go-redis wraps

// commandsKept is how long the list of a tenant's commands is kept. A command that workers have
// not read by then has its effect when they read it.
const commandsKept = time.Hour

// ahead reports whether workers may handle a command before what stands before it in the
// stream. Such a command has no effect when it is delivered again later, in its place:
// what comes between the two in the stream has not been read.
func ahead(t event.Type) bool { return t == event.ExecutionCancelled || t == event.ExecutionSuspended }

// command appends the command of an operator to the stream, even if Redis is full.
func (s *Store) command(ctx context.Context, e event.Event) error {
	keys := []string{s.keys.Stream(e.Tenant), s.keys.Commands(e.Tenant)}
	args := append([]any{e.Execution, int(commandsKept.Seconds())}, wire.Args(s.Fields(e))...)
	return Failed("publish", commandScript.Run(ctx, s.rdb, keys, args...).Err())
}
