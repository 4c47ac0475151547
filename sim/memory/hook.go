package memory

import (
	"cmp"
	"context"

	"github.com/redis/go-redis/v9"
)

// Hook passes what a client sends to its functions. It implements redis.Hook.
type Hook struct {
	// Send is called for each command, and for each pipeline with all of its commands. It may call
	// perform, and returns the error that the client sees: that of perform, or another one if
	// there is no reply.
	Send func(ctx context.Context, cmds []redis.Cmder, perform func() error) error
	// Before is called before each command is performed. After an error there is no reply.
	Before func(cmd redis.Cmder) error
	// Answer is Server.Answer, or a function that returns false if commands must use a connection.
	Answer func(cmd redis.Cmder) bool
}

// DialHook implements redis.Hook.
func (Hook) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook implements redis.Hook.
func (h Hook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		return h.send(ctx, []redis.Cmder{cmd}, func(ctx context.Context, _ int) error { return next(ctx, cmd) })
	}
}

// ProcessPipelineHook implements redis.Hook.
func (h Hook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		return h.send(ctx, cmds, func(ctx context.Context, from int) error { return next(ctx, cmds[from:]) })
	}
}

// send sends commands; connected sends those from an index on through a connection.
func (h Hook) send(ctx context.Context, cmds []redis.Cmder, connected func(ctx context.Context, from int) error) error {
	var own error // the first error of the commands themselves
	err := h.Send(ctx, cmds, func() error {
		own = nil
		for i, cmd := range cmds {
			if err := h.Before(cmd); err != nil {
				return err
			}
			if !h.Answer(cmd) {
				own = cmp.Or(own, connected(context.WithoutCancel(ctx), i)) // performing takes no time, so nothing cancels it
				return own
			}
			own = cmp.Or(own, cmd.Err())
		}
		return own
	})
	if err != nil && err != own { //nolint:errorlint // identity: is it the commands' own error?
		for _, cmd := range cmds { // the client does the same if it has seen no replies
			cmd.SetErr(err)
		}
	}
	return err
}
