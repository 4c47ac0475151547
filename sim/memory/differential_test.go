package memory_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"flunq.io/flunq/engine/store/redistest"
	"flunq.io/flunq/engine/store/wire"
)

// differentialVariable names the environment variable that sets the number of random commands;
// 6000 by default.
const differentialVariable = "FLUNQ_DIFFERENTIAL"

// commandsOf holds the templates of random commands: each word with choices stands for one of
// them.
const commandsOf = `
XADD S ID F V
XADD S ID F V F V
XADD S ID F V F LONG
XADD S ID F LONG
XADD S NOMKSTREAM ID F V
XADD S MAXLEN N ID F V
XLEN S
XRANGE S BOUND BOUND
XRANGE S BOUND BOUND COUNT N
XREVRANGE S BOUND BOUND COUNT N
XDEL S ID
XDEL S ID ID
XTRIM S MINID ID
XSETID S ID
XGROUP CREATE S G ID
XGROUP CREATE S G 0
XGROUP CREATE S G $ MKSTREAM
XGROUP SETID S G ID
XGROUP SETID S G ID ENTRIESREAD N
XGROUP SETID S G $
XGROUP DESTROY S G
XGROUP CREATECONSUMER S G C
XGROUP DELCONSUMER S G C
XREADGROUP GROUP G C COUNT N STREAMS S >
XREADGROUP GROUP G C COUNT N STREAMS S S > >
XACK S G ID
XACK S G ID ID
XPENDING S G
XPENDING S G BOUND BOUND N
XPENDING S G BOUND BOUND N C
XPENDING S G IDLE 0 - + N
XCLAIM S G C 0 ID
XCLAIM S G C 0 ID ID JUSTID
XCLAIM S G C 0 ID FORCE
XCLAIM S G C 0 ID FORCE JUSTID
XCLAIM S G C 9999999 ID
XCLAIM S G C 0 ID IDLE N
XAUTOCLAIM S G C 0 ID COUNT N
XAUTOCLAIM S G C 9999999 0 COUNT N
XINFO GROUPS S
XINFO STREAM S
XINFO CONSUMERS S G
COPY S S
COPY S S REPLACE
COPY K K
COPY K K REPLACE
COPY K S REPLACE
RENAME K K
RENAME S S
DEL S
DEL K
EXISTS K S K
TYPE S
TYPE K
HSET K F V
HSET K F V F V
HDEL K F F
HGET K F
HMGET K F F
HGETALL K
HKEYS K
HLEN K
HEXISTS K F
HINCRBY K F N
SADD K F V
SREM K F
SMEMBERS K
SCARD K
SISMEMBER K F
ZADD K SCORE F
ZADD K NX SCORE F
ZREM K F F
ZSCORE K F
ZMSCORE K F F
ZCARD K
ZRANK K F
ZCOUNT K EDGE EDGE
ZRANGE K INDEX INDEX
ZRANGE K INDEX INDEX WITHSCORES
ZRANGEBYSCORE K EDGE EDGE
ZRANGEBYSCORE K EDGE EDGE WITHSCORES LIMIT N N
ZREVRANGE K INDEX INDEX
ZREVRANGEBYSCORE K EDGE EDGE LIMIT N N
ZREMRANGEBYSCORE K EDGE EDGE
ZREMRANGEBYRANK K INDEX INDEX
SET K V
SET K V NX
MSET K V K V
GET K
GETRANGE K INDEX INDEX
MGET K K
PERSIST K
EXPIRE K 100000
PEXPIRE K 100000
PTTL none
`

// drawn returns a random command.
func drawn(r *rand.Rand, forms []string) []any {
	id := func() string { return fmt.Sprintf("%d-%d", r.IntN(12), r.IntN(4)) }
	of := func(words ...string) string { return words[r.IntN(len(words))] }
	var out []any
	for word := range strings.FieldsSeq(forms[r.IntN(len(forms))]) {
		switch word {
		case "S":
			word = of("s1", "s1", "s2", "s3", "k1")
		case "K":
			word = of("k1", "k2", "k3", "k4", "k5", "s1")
		case "G":
			word = of("g", "g", "h")
		case "C":
			word = of("c", "d", "e")
		case "F":
			word = of("a", "b", "c")
		case "V":
			word = of("x", "7", "-3", "300", "-70000", "12345678901", "no number", "")
		case "LONG":
			word = strings.Repeat("v", r.IntN(3000))
		case "N":
			word = strconv.Itoa(r.IntN(8))
		case "ID":
			if word = id(); r.IntN(2) == 0 {
				word = fmt.Sprintf("%d-%d", 8+r.IntN(40), r.IntN(4))
			}
		case "BOUND":
			word = of("-", "+", "("+id(), id(), strconv.Itoa(r.IntN(12)))
		case "SCORE":
			word = of("1", "2.5", "-1", "1e3", "inf", "0.1", "x")
		case "EDGE":
			word = of("-inf", "+inf", "1", "(1", "2.5", "(1e3", "y")
		case "INDEX":
			word = of("0", "1", "-1", "-2", "5")
		}
		if word == "" {
			word = " "
		}
		out = append(out, word)
	}
	return out
}

// formatted formats a reply without what depends on the machine's clock, on memory, or on an
// unspecified order.
func formatted(args []any, reply any, err error) string {
	if err != nil && !errors.Is(err, redis.Nil) {
		return "error: " + err.Error()
	}
	rows, _ := reply.([]any)
	switch args[0] {
	case "XPENDING":
		for _, row := range rows {
			if fields, ok := row.([]any); ok && len(fields) == 4 && len(args) > 3 {
				fields[2] = "some time"
			}
		}
	case "XINFO":
		if args[1] != "STREAM" {
			for _, row := range rows {
				withoutNames(row, "idle", "inactive")
			}
		}
		withoutNames(reply, "radix-tree-keys", "radix-tree-nodes")
	case "HGETALL", "HKEYS", "SMEMBERS":
		slices.SortFunc(rows, func(a, b any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	}
	return fmt.Sprint(reply)
}

// withoutNames removes the values of some names from a flat list of names and values.
func withoutNames(flat any, names ...string) {
	list, _ := flat.([]any)
	for i := 0; i+1 < len(list); i += 2 {
		if name, ok := list[i].(string); ok && slices.Contains(names, name) {
			list[i+1] = "something"
		}
	}
}

// The in-memory Redis replies to any command like a real one.
func TestMemoryEqualsRedis(t *testing.T) {
	t.Parallel()
	count := 6000
	if text := os.Getenv(differentialVariable); text != "" {
		var err error
		if count, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	options := redistest.Options(t)
	options.Protocol, options.DisableIdentity = 2, true
	server := redis.NewClient(options)
	defer server.Close()
	_, client := openMemory(t)
	forms := strings.Split(strings.TrimSpace(commandsOf), "\n")
	const together = 250 // number of commands between two flushes
	for round := range uint64(max(count/together, 1)) {
		r := rand.New(rand.NewPCG(round, 5))
		some := forms
		if round%2 == 0 { // streams only
			some = forms[:slices.Index(forms, "COPY K K")]
		}
		commands := make([][]any, together)
		for i := range commands {
			commands[i] = drawn(r, some)
		}
		want, got := answers(t.Context(), server, commands), answers(t.Context(), client, commands)
		for i := range commands {
			if want[i] == got[i] {
				continue
			}
			var before strings.Builder
			for _, args := range commands[:i+1] {
				if slices.ContainsFunc(args, func(arg any) bool { return slices.Contains(commands[i], arg) && len(fmt.Sprint(arg)) == 2 }) {
					fmt.Fprintln(&before, shown(args))
				}
			}
			t.Fatalf("round %d:\n%s\nredis-server: %s\nin memory:    %s", round, before.String(), want[i], got[i])
		}
	}
}

// shown formats a command, with long words shortened.
func shown(args []any) string {
	var out []string
	for _, arg := range args {
		if text := fmt.Sprint(arg); len(text) > 40 {
			out = append(out, fmt.Sprintf("<%d bytes>", len(text)))
		} else {
			out = append(out, text)
		}
	}
	return strings.Join(out, " ")
}

// answers returns the replies of an empty Redis to commands.
func answers(ctx context.Context, client wire.Redis, commands [][]any) []string {
	client.FlushAll(ctx)
	pipe := client.Pipeline()
	replies := make([]*redis.Cmd, len(commands))
	for i, args := range commands {
		replies[i] = pipe.Do(ctx, args...)
	}
	_, _ = pipe.Exec(ctx) // each reply has its own error
	out := make([]string, len(commands))
	for i, reply := range replies {
		value, err := reply.Result()
		out[i] = formatted(commands[i], value, err)
	}
	return out
}
