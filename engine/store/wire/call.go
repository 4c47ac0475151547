package wire

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// BeforeKeys is the number of arguments of a script call before its keys: the command, the script, and
// the number of keys.
const BeforeKeys = 3

// Call runs a script. The list holds BeforeKeys free places, the keys as pointers to strings, and the
// arguments. go-redis sends the list without copying it.
func (c *Client) Call(ctx context.Context, script *redis.Script, keys int, list []any) *redis.Cmd {
	cmd := ScriptCmd(ctx, script, keys, list)
	if err := c.Process(ctx, cmd); err == nil || !redis.HasErrorPrefix(err, "NOSCRIPT") {
		return cmd
	}
	names := make([]string, keys)
	for i, key := range list[BeforeKeys : BeforeKeys+keys] {
		names[i] = *key.(*string) //nolint:errcheck // so they are given
	}
	return script.Eval(ctx, c, names, list[BeforeKeys+keys:]...)
}

// ScriptCmd returns the command of a Call. It fails on a Redis that has not loaded the script.
func ScriptCmd(ctx context.Context, script *redis.Script, keys int, list []any) *redis.Cmd {
	list[0], list[1], list[2] = "evalsha", script.Hash(), keys
	cmd := redis.NewCmd(ctx, list...)
	cmd.SetFirstKeyPos(BeforeKeys)
	return cmd
}

// TextList is the list of a Call that owns many of its strings: List points into Texts, which saves an
// allocation for each.
type TextList struct {
	List  []any
	Texts []string
}

// Add appends strings.
func (l *TextList) Add(texts ...string) {
	for _, text := range texts {
		l.Texts = append(l.Texts, text) // where Texts moves, the old ones stay in place too
		l.List = append(l.List, &l.Texts[len(l.Texts)-1])
	}
}

// Args converts strings to arguments of a command.
func Args(texts []string) []any {
	out := make([]any, len(texts))
	for i, text := range texts {
		out[i] = text
	}
	return out
}
