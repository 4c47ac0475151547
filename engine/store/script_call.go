package store

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// beforeKeys is how many arguments of a call stand before its keys: the command, the
// script, and how many keys there are.
const beforeKeys = 3

// call runs a script. The list holds beforeKeys free places, the keys and the arguments:
// go-redis sends it as it is, without a copy.
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

// callOf calls a script that Redis knows. Keys are pointers to strings.
func callOf(ctx context.Context, script *redis.Script, keys int, list []any) *redis.Cmd {
	list[0], list[1], list[2] = "evalsha", script.Hash(), keys
	cmd := redis.NewCmd(ctx, list...)
	cmd.SetFirstKeyPos(beforeKeys)
	return cmd
}

// textList is the list of a call that owns many of its strings: the list points to them,
// which saves an allocation for each.
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
