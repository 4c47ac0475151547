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
	if err := s.rdb.Process(ctx, cmd); err == nil || !redis.HasErrorPrefix(err, "NOSCRIPT") {
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

// textList is a list for a call, many of which are texts that are made for it: these
// stand in a list of their own, where each is found by its address.
type textList struct {
	list  []any
	texts []string
}

func (l *textList) add(texts ...string) {
	for _, text := range texts {
		l.texts = append(l.texts, text) // a text that moves on stays where it was, too
		l.list = append(l.list, &l.texts[len(l.texts)-1])
	}
}
