package store

import (
	"context"
	"embed"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
)

//go:embed scripts/*.lua
var scriptFiles embed.FS

// The scripts of this package. Each is a file that names its keys, its arguments and what it
// returns, behind the files with the functions that it calls.
//
//nolint:gochecknoglobals // constants that go-redis wraps
var (
	defineScript          = script("define")
	startScript           = script("start")
	commitScript          = script("mine", "moved", "event", "commit")
	forgetScript          = script("forget")
	unlistScript          = script("unlist")
	writeEvenIfFullScript = script("even_if_full", "write_even_if_full")
)

// all are the scripts that packages have made.
var all []*redis.Script //nolint:gochecknoglobals // filled while packages are initialised

// script joins files of scripts/ to one script. Packages make theirs while they are
// initialised, so that Scripts knows them all.
func script(names ...string) *redis.Script {
	var source strings.Builder
	for _, name := range names {
		text, err := scriptFiles.ReadFile("scripts/" + name + ".lua")
		if err != nil {
			panic(err) // the file is embedded
		}
		source.Write(text)
	}
	out := redis.NewScript(source.String())
	all = append(all, out)
	return out
}

// Scripts returns the scripts of this package and of those in the program that are built on it.
// Loading them in advance saves each the round trip to a Redis that does not know it yet.
func Scripts() []*redis.Script { return slices.Clone(all) }

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
