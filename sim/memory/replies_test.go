package memory_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"flunq.io/flunq/engine/store/redistest"
	"flunq.io/flunq/engine/store/wire"
)

// conversation holds commands that the engine sends to Redis, and some mistakes. No reply
// depends on the server's clock or version.
const conversation = `
PING
ECHO hello
XADD s 1-0 type a data {"x":1}
XADD s 2-0 type b data {"x":2}
XADD s 2-1 type c data x
XADD s 3-0 a b c d e f
XADD s 3-0 a b
XADD s 0-0 a b
XADD s 9-0 a
XADD nope NOMKSTREAM 1-0 a b
XADD nope NOMKSTREAM * a b
XLEN s
XLEN missing
XRANGE s - +
XRANGE s 2 +
XRANGE s 2 2
XRANGE s - + COUNT 2
XRANGE s (2-0 +
XRANGE s - (2-1
XRANGE s (2-1 3-0 COUNT 1
XRANGE s 5 +
XRANGE s + -
XRANGE s 2-1 2-1
XRANGE missing - +
XRANGE missing - + COUNT 0
XRANGE s x +
XRANGE s - + COUNT 0
XRANGE s - + COUNT -1
XRANGE s - +  NOSUCH 1
XREVRANGE s + -
XREVRANGE s + - COUNT 1
XREVRANGE s 2 1
XREVRANGE s (3-0 (1-0
XREVRANGE missing + - COUNT 1
XGROUP CREATE s g 0
XGROUP CREATE s g 0
XGROUP CREATE fresh g $ MKSTREAM
XGROUP CREATE absent g $
XLEN fresh
XREADGROUP GROUP g c1 COUNT 2 STREAMS s >
XREADGROUP GROUP g c2 COUNT 10 STREAMS s >
XREADGROUP GROUP g c2 COUNT 10 STREAMS s >
XREADGROUP GROUP nope c1 STREAMS s >
XREADGROUP GROUP g c1 STREAMS absent >
XREADGROUP GROUP g c1 COUNT 1 STREAMS s fresh > >
XPENDING s g
XPENDING s g IDLE 9999999 - + 10
XPENDING s nope
XINFO GROUPS fresh
XINFO GROUPS absent
XACK s g 1-0
XACK s g 1-0
XACK s g 2-0 2-1 3-0
XACK missing g 1-0
XPENDING s g
XADD s 4-0 a b
XREADGROUP GROUP g c1 COUNT 10 STREAMS s >
XAUTOCLAIM s g c2 9999999 0-0 COUNT 10
XAUTOCLAIM s g c2 0 0-0 COUNT 10
XPENDING s g
XACK s g 4-0
XCLAIM s nope c1 x 1-0
XDEL absent x
XDEL s 1-0
XDEL s 1-0 77-0
XLEN s
XTRIM s MINID 4
XRANGE s - +
XLEN s
XGROUP DELCONSUMER s g c9
HSET h a 1 b 2
HSET h a 3
HSET h a
HGET h a
HGET h zz
HMGET h a zz b
HGETALL h
HGETALL missing
HINCRBY h a 4
HINCRBY h new -1
HEXISTS h a
HEXISTS h zz
HLEN h
HDEL h new zz
HKEYS h
ZADD z 1 one 2 two 3.5 three
ZADD z 1.25 one
ZADD z NX 9 one
ZADD z x one
ZADD z 1e400 one
ZSCORE z one
ZSCORE z none
ZMSCORE z one none
ZCARD z
ZADD big 1767323045.678901 exact 1e20 huge 1732100000123456 micro
ZRANGE big 0 -1 WITHSCORES
ZRANGE z 0 -1
ZRANGEBYSCORE z -inf +inf WITHSCORES LIMIT 0 2
ZRANGEBYSCORE z -inf 3.5 WITHSCORES
ZRANGEBYSCORE z (3.5 +inf
ZRANGEBYSCORE none -inf +inf
ZCOUNT z -inf 5
ZREM z one zz
ZREM none zz
SADD set b a c
SADD set a
SREM set a c zz
SMEMBERS set
SISMEMBER set b
SCARD set
SET str value
SET str value NX
GET str
GET none
GETRANGE str 1 2
GETRANGE str -9 -9
GETRANGE str 0 -9
GETRANGE str -1 -2
GETRANGE none 0 9
XSETID str x
HGET str a
XADD str * a b
ZADD str 1 a
XRANGE str - +
XLEN set
SADD str a
EXISTS str none h
TYPE s
TYPE h
TYPE z
TYPE set
TYPE str
TYPE none
EXPIRE str 100
PERSIST str
SET temp v EX 200
DEL str none
DEL h
EXISTS h
SCAN 0 MATCH set* COUNT 1000
NOSUCHCOMMAND a b
GET
`

// converse sends the conversation and records every reply.
func converse(ctx context.Context, send func(ctx context.Context, args []any) (any, error)) []string {
	var replies []string
	for line := range strings.Lines(conversation) {
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		args := make([]any, len(words))
		for i, word := range words {
			args[i] = word
		}
		reply, err := send(ctx, args)
		text := fmt.Sprintf("%s\n\t%v", strings.Join(words, " "), reply)
		if err != nil && !errors.Is(err, redis.Nil) {
			text = fmt.Sprintf("%s\n\terror: %v", strings.Join(words, " "), errorPrefix(err))
		}
		replies = append(replies, text)
	}
	return replies
}

// errorPrefix returns the prefix of an error, on which programs rely: the rest of the message
// differs between the servers.
func errorPrefix(err error) string {
	prefix, _, _ := strings.Cut(err.Error(), " ")
	return prefix
}

// directly sends each command unchanged.
func directly(client wire.Redis) func(context.Context, []any) (any, error) {
	return func(ctx context.Context, args []any) (any, error) { return client.Do(ctx, args...).Result() }
}

// inScript sends each command through a script.
func inScript(client wire.Redis) func(context.Context, []any) (any, error) {
	script := redis.NewScript("return redis.call(unpack(ARGV))")
	return func(ctx context.Context, args []any) (any, error) {
		return script.Run(ctx, client, nil, args...).Result()
	}
}

// The in-memory Redis replies like a real one, to clients and to scripts.
func TestMemoryRepliesLikeRedis(t *testing.T) {
	t.Parallel()
	for name, way := range map[string]func(wire.Redis) func(context.Context, []any) (any, error){
		"directly": directly, "in a script": inScript,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			options := redistest.Options(t)
			options.Protocol = 2
			options.DisableIdentity = true
			server := redis.NewClient(options)
			defer server.Close()
			_, client := openMemory(t)
			want := converse(t.Context(), way(server))
			got := converse(t.Context(), way(client))
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("redis-server (-), in memory (+):\n%s", diff)
			}
		})
	}
}
