package sim

import (
	"context"
	"slices"

	"github.com/redis/go-redis/v9"
)

// bug is a mistake of the engine that the simulator's own tests plant, to see
// whether it is found: what becomes of a script, and commands that are sent before
// one, each of which is a point where something can go wrong.
type bug struct {
	script func(source string) string
	ahead  func(source string, args []any) [][]any
}

// misbehave sends what a planted bug sends ahead of a script.
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

// spelled are arguments with the texts themselves where they are given by their addresses.
func spelled(args []any) []any {
	out := slices.Clone(args)
	for i, arg := range out {
		if text, ok := arg.(*string); ok {
			out[i] = *text
		}
	}
	return out
}
