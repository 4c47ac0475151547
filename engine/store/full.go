package store

import (
	"context"
	"errors"

	"github.com/redis/go-redis/v9"

	"flunq.io/flunq/engine/event"
)

// A Redis that has reached its maxmemory refuses what may take memory. What ends an
// execution, what operators ask for and what says that a process lives is written all
// the same: it is little, and without it nobody could free any memory.

// Full reports whether an error says that Redis has no memory left for what was asked.
func Full(err error) bool {
	f, ok := errors.AsType[*failure](err)
	return ok && redis.IsOOMError(f.err)
}

// writeEvenIfFull carries out a command of which the key is the first argument.
func (s *Store) writeEvenIfFull(ctx context.Context, command, key string, args ...any) error {
	err := s.rdb.Do(ctx, append([]any{command, key}, args...)...).Err()
	if redis.IsOOMError(err) {
		err = writeEvenIfFullScript.Run(ctx, s.rdb, []string{key}, append([]any{command}, args...)...).Err()
	}
	return err //nolint:wrapcheck // the caller says what it was for
}

// operated reports whether events of a type are commands of operators.
func operated(t event.Type) bool {
	switch t {
	case event.ExecutionCancelled, event.ExecutionSuspended, event.ExecutionResumed, event.ExecutionRetried:
		return true
	default:
		return false
	}
}

// evenIfFull reports whether a transition is written although Redis is full: one that
// ends its execution or does what an operator wants. One that refuses to begin is not,
// since there may be any number of these.
func (c *Commit) evenIfFull() bool {
	return c.Version > 0 && (c.Ended || c.Message != nil && operated(c.Message.Event.Type))
}
