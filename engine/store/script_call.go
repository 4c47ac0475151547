package store

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// beforeKeys is how many arguments of a call stand before its keys: the command, the
// script, and how many keys there are.
const beforeKeys = 3

// call runs a script whose keys and arguments are one list, the keys first, behind
// room for what stands before them. go-redis would copy all of them otherwise, and
// each key by itself.
func (s *Store) call(ctx context.Context, script *redis.Script, keys int, list []any) *redis.Cmd {
	cmd := callOf(ctx, script, keys, list)
	if err := s.rdb.Process(ctx, cmd); !redis.HasErrorPrefix(err, "NOSCRIPT") {
		return cmd
	}
	names := make([]string, keys)
	for i, key := range list[beforeKeys : beforeKeys+keys] {
		names[i] = *key.(*string) //nolint:errcheck,forcetypeassert // so they are given
	}
	return script.Eval(ctx, s.rdb, names, list[beforeKeys+keys:]...)
}

// callOf is the call of a script that Redis knows. Keys are given by their addresses.
func callOf(ctx context.Context, script *redis.Script, keys int, list []any) *redis.Cmd {
	list[0], list[1], list[2] = "evalsha", script.Hash(), keys
	cmd := redis.NewCmd(ctx, list...)
	cmd.SetFirstKeyPos(beforeKeys)
	return cmd
}
