package memory_test

import (
	"errors"
	"fmt"
	"strconv"
	"testing"

	"github.com/redis/go-redis/v9"

	"flunq.io/flunq/engine/store/wire"
	"flunq.io/flunq/sim/memory"
)

// The cost of a command for a simulated service.
func BenchmarkMemoryPing(b *testing.B) {
	_, client := openMemory(b)
	for b.Loop() {
		if err := client.Ping(b.Context()).Err(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkMemoryZAdd(b *testing.B) {
	_, client := openMemory(b)
	for i := 0; b.Loop(); i++ {
		member := redis.Z{Score: float64(i), Member: "timer" + strconv.Itoa(i%1000)}
		if err := client.ZAdd(b.Context(), "timers", member).Err(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkMemoryEvalSha5Calls(b *testing.B) {
	_, client := openMemory(b)
	script := redis.NewScript(`local h = redis.call('HMGET', KEYS[1], 'status', 'version')
		redis.call('HSET', KEYS[1], 'status', ARGV[1], 'version', ARGV[2])
		redis.call('ZADD', KEYS[2], ARGV[2], ARGV[1])
		redis.call('ZREM', KEYS[2], ARGV[1])
		return redis.call('EXISTS', KEYS[1])`)
	for i := 0; b.Loop(); i++ {
		if err := script.Run(b.Context(), client, []string{"h", "z"}, "running", i).Err(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkMemoryEvalShaXAdd20(b *testing.B) {
	_, client := openMemory(b)
	script := redis.NewScript(`return redis.call('XADD', KEYS[1], '*', unpack(ARGV))`)
	args := make([]any, 20)
	for i := range args {
		args[i] = "argument" + strconv.Itoa(i)
	}
	for b.Loop() {
		if err := script.Run(b.Context(), client, []string{"s"}, args...).Err(); err != nil {
			b.Fatal(err)
		}
	}
}

// A cost that is linear in the length of a stream shows as a difference between sizes.
func BenchmarkMemoryStream(b *testing.B) {
	for _, size := range []int{100, 10_000} {
		for name, step := range streamSteps() {
			b.Run(fmt.Sprintf("%s/%d", name, size), func(b *testing.B) {
				_, client := longStream(b, size)
				for i := 0; b.Loop(); i++ {
					if err := client.Do(b.Context(), step(i, size)...).Err(); err != nil && !errors.Is(err, redis.Nil) {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// longStream returns a stream with all entries pending in the group all and none in the
// group none.
func longStream(b *testing.B, size int) (*memory.Server, wire.Redis) {
	b.Helper()
	m, client := openMemory(b)
	ctx := b.Context()
	pipe := client.Pipeline()
	for i := range size {
		pipe.Do(ctx, "XADD", "s", fmt.Sprintf("%d-0", i+1), "type", "t", "data", "d")
	}
	pipe.Do(ctx, "XGROUP", "CREATE", "s", "all", "0")
	pipe.Do(ctx, "XGROUP", "CREATE", "s", "none", "0")
	pipe.Do(ctx, "XGROUP", "CREATE", "s", "end", "$")
	pipe.Do(ctx, "XREADGROUP", "GROUP", "all", "c", "STREAMS", "s", ">")
	if _, err := pipe.Exec(ctx); err != nil {
		b.Fatal(err)
	}
	return m, client
}

// streamSteps returns the commands to measure.
func streamSteps() map[string]func(i, size int) []any {
	return map[string]func(i, size int) []any{
		"XADD":        func(int, int) []any { return []any{"XADD", "s", "*", "a", "b"} },
		"XRANGE-tail": func(_, size int) []any { return []any{"XRANGE", "s", size - 10, "+", "COUNT", 5} },
		"XREVRANGE-1": func(int, int) []any { return []any{"XREVRANGE", "s", "+", "-", "COUNT", 1} },
		"XREADGROUP-new": func(int, int) []any {
			return []any{"XREADGROUP", "GROUP", "end", "c", "COUNT", 10, "STREAMS", "s", ">"}
		},
		"XREADGROUP-1": func(int, int) []any {
			return []any{"XREADGROUP", "GROUP", "none", "c", "COUNT", 1, "STREAMS", "s", ">"}
		},
		"XACK-first":      func(i, _ int) []any { return []any{"XACK", "s", "all", fmt.Sprintf("%d-0", i+1)} },
		"XPENDING":        func(int, int) []any { return []any{"XPENDING", "s", "all"} },
		"XPENDING-none":   func(int, int) []any { return []any{"XPENDING", "s", "end"} },
		"XPENDING-idle":   func(int, int) []any { return []any{"XPENDING", "s", "all", "IDLE", 1000, "-", "+", 10} },
		"XAUTOCLAIM-idle": func(int, int) []any { return []any{"XAUTOCLAIM", "s", "all", "d", 1000, "0", "COUNT", 10} },
		"XINFO-GROUPS":    func(int, int) []any { return []any{"XINFO", "GROUPS", "s"} },
		"XDEL-first":      func(i, _ int) []any { return []any{"XDEL", "s", fmt.Sprintf("%d-0", i+1)} },
		"XTRIM":           func(i, _ int) []any { return []any{"XTRIM", "s", "MINID", i} },
	}
}
