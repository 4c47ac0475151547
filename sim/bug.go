package sim

import (
	"context"
	"slices"

	"github.com/redis/go-redis/v9"
)

// bug is a deliberate engine bug that the simulator's own tests plant to see whether the
// simulator finds it. script rewrites the source of a Lua script; ahead returns commands
// to send before a script runs, each of which is a point where a fault can strike.
type bug struct {
	script func(source string) string
	ahead  func(source string, args []any) [][]any
}

// misbehave sends the commands that a planted bug puts ahead of a script.
func (w *simulation) misbehave(ctx context.Context, cmd redis.Cmder) error {
	if w.cfg.bug == nil || w.cfg.bug.ahead == nil || w.current == nil {
		return nil
	}
	args := spelled(cmd.Args())
	if cmd.Name() != "evalsha" && cmd.Name() != "eval" || len(args) < 3 {
		return nil
	}
	source, _ := args[1].(string)
	if known := w.memory.Source(source); known != "" {
		source = known
	}
	for _, one := range w.cfg.bug.ahead(source, args[3:]) {
		if err := w.client.Do(ctx, one...).Err(); err != nil {
			return err
		}
	}
	return nil
}

// spelled returns args with each *string replaced by the string it points to.
func spelled(args []any) []any {
	out := slices.Clone(args)
	for i, arg := range out {
		if text, ok := arg.(*string); ok {
			out[i] = *text
		}
	}
	return out
}
