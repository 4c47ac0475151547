package mini_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"flunq.io/flunq/engine/store/wire"
	"flunq.io/flunq/sim/memory"
	"flunq.io/flunq/sim/mini"
	"flunq.io/flunq/sim/resp"
)

func open(t *testing.T) *mini.Server {
	t.Helper()
	m, err := mini.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	return m
}

// connect returns a client that has a connection of its own and, like others, a goroutine that
// serves it.
func connect(t *testing.T, m *mini.Server, opts redis.Options) *redis.Client {
	t.Helper()
	opts.Dialer = func(context.Context, string, string) (net.Conn, error) { return m.Dial() }
	opts.PoolSize, opts.MaxRetries = 1, -1
	// Otherwise the client looks up its host, and two bubbles of synctest cannot share a look-up.
	opts.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	client := redis.NewClient(&opts)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// within returns a client whose commands are executed on the goroutine of the caller.
func within(t *testing.T, m *mini.Server) wire.Redis {
	t.Helper()
	client := wire.Passive(func() net.Conn { return resp.NewConn(m.Execute) })
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// A script is one step: no other client sees or changes anything meanwhile.
func TestScriptsAreAtomic(t *testing.T) {
	t.Parallel()
	m := open(t)
	const clients, each = 8, 50
	increase := redis.NewScript("local n = tonumber(redis.call('GET', KEYS[1]) or 0) redis.call('SET', KEYS[1], n + 1) return n + 1")
	var wg sync.WaitGroup
	for range clients {
		client := connect(t, m, redis.Options{})
		wg.Go(func() {
			for range each {
				if err := increase.Run(t.Context(), client, []string{"n"}).Err(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if n, err := m.Get("n"); n != strconv.Itoa(clients*each) {
		t.Errorf("n = %s, %v, want %d", n, err, clients*each)
	}
}

// Scripts in a transaction and in another database run there, by source and by name.
func TestScriptsInTransactionsAndDatabases(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	m := open(t)
	for _, database := range []int{0, 3} {
		for _, protocol := range []int{2, 3} {
			client := connect(t, m, redis.Options{DB: database, Protocol: protocol})
			key := fmt.Sprintf("key%d", protocol)
			sha := client.ScriptLoad(ctx, "return {redis.call('INCR', KEYS[1]), false, 'text', {1}}").Val()
			want := func(n int64) []any { return []any{n, nil, "text", []any{int64(1)}} }
			if diff := cmp.Diff(want(1), client.EvalSha(ctx, sha, []string{key}).Val()); diff != "" {
				t.Errorf("database %d, RESP %d, -want +got:\n%s", database, protocol, diff)
			}
			var second, third *redis.Cmd
			before := ""
			if _, err := client.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
				second = pipe.EvalSha(ctx, sha, []string{key})
				third = pipe.Eval(ctx, "return redis.call('INCR', KEYS[1])", []string{key})
				before, _ = m.DB(database).Get(key)
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want(2), second.Val()); diff != "" || before != "1" || third.Val() != int64(3) {
				t.Errorf("database %d, RESP %d: %s before the transaction, then %v and %v", database, protocol, before, second.Val(), third.Val())
			}
			if n, err := m.DB(database).Get(key); n != "3" {
				t.Errorf("%s of database %d = %s, %v, want 3", key, database, n, err)
			}
		}
	}
}

// An entry that a script adds to a stream wakes blocked readers.
func TestScriptsWakeReaders(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		m := open(t)
		reader, writer := connect(t, m, redis.Options{}), connect(t, m, redis.Options{})
		if err := writer.XGroupCreateMkStream(ctx, "s", "g", "0").Err(); err != nil {
			t.Fatal(err)
		}
		began, got := time.Now(), []redis.XStream(nil)
		go func() {
			got = reader.XReadGroup(ctx, &redis.XReadGroupArgs{Group: "g", Consumer: "c", Streams: []string{"s", ">"}, Block: time.Minute}).Val()
		}()
		synctest.Wait()
		if err := writer.Eval(ctx, "return redis.call('XADD', 's', '*', 'a', 'b')", nil).Err(); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if len(got) != 1 || len(got[0].Messages) != 1 || time.Since(began) != 0 {
			t.Errorf("read %v after %v, want one entry at once", got, time.Since(began))
		}
	})
}

// Everything that depends on the time uses the time that was set.
func TestVirtualTime(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	m := open(t)
	client := within(t, m)
	start := time.Date(2026, 1, 2, 3, 4, 5, 678_901_000, time.UTC)
	m.SetTime(start)
	client.XGroupCreateMkStream(ctx, "s", "g", "0")
	first := client.XAdd(ctx, &redis.XAddArgs{Stream: "s", Values: []string{"a", "b"}}).Val()
	client.XReadGroup(ctx, &redis.XReadGroupArgs{Group: "g", Consumer: "c", Streams: []string{"s", ">"}, Block: -1})
	later := start.Add(90 * time.Second)
	m.SetTime(later)
	second := client.Eval(ctx, "return redis.call('XADD', 's', '*', 'a', 'b')", nil).Val()
	script := client.Eval(ctx, "return redis.call('TIME')", nil).Val()
	pending := client.XPendingExt(ctx, &redis.XPendingExtArgs{Stream: "s", Group: "g", Start: "-", End: "+", Count: 9}).Val()
	got := []any{first, second, client.Time(ctx).Val().UTC(), script, pending[0].Idle}
	want := []any{
		fmt.Sprintf("%d-0", start.UnixMilli()), fmt.Sprintf("%d-0", later.UnixMilli()), later,
		[]any{strconv.FormatInt(later.Unix(), 10), "678901"},
		90 * time.Second,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("ids, TIME and idle time, -want +got:\n%s", diff)
	}
}

// Before sees the commands of clients, not those of their scripts.
func TestBefore(t *testing.T) {
	t.Parallel()
	m := open(t)
	var seen []string
	m.Before = func(name string, args []string) { seen = append(seen, name+" "+strings.Join(args, " ")) }
	client := within(t, m)
	client.Set(t.Context(), "a", "b", 0)
	client.Eval(t.Context(), "return redis.call('GET', 'a')", nil)
	if want := []string{"SET a b", "EVAL return redis.call('GET', 'a') 0"}; !cmp.Equal(seen[len(seen)-2:], want) {
		t.Errorf("saw %q, want %q at the end", seen, want)
	}
}

// stream holds the commands that move a group, and templates of their arguments.
const stream = `
XADD s * type a
XADD s * type b
XADD s NOMKSTREAM * type a
EVAL return+redis.call('XADD','s','*','type','a') 0
EVAL return+redis.call('ZADD','z',1,'m') 0
EVAL return+redis.pcall('XADD','z','*','type','a') 0
ZADD z 1 m
ZADD s 1 m
XREADGROUP GROUP g c1 COUNT 1 STREAMS s >
XREADGROUP GROUP g c2 COUNT 3 STREAMS s >
XREADGROUP GROUP h c1 COUNT 2 STREAMS s t > >
XACK s g FIRST
XDEL s FIRST
XADD t * type a
`

// Open and Added report the same as those of the simulator's own Redis.
func TestLikeMemory(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for seed := range uint64(8) {
		chance := rand.New(rand.NewPCG(seed, 0))
		m, own := open(t), memory.New(start)
		defer own.Close()
		m.SetTime(start)
		var added, want []string
		m.Added = func(key string, fields []string) { added = append(added, fmt.Sprint(key, fields)) }
		own.Added = func(key string, fields []string) { want = append(want, fmt.Sprint(key, fields)) }
		execute := func(args ...string) {
			for _, on := range []interface {
				Execute(args []string, replies []byte) ([]byte, error)
			}{m, own} {
				if _, err := on.Execute(args, nil); err != nil {
					t.Fatal(err)
				}
			}
		}
		execute("XGROUP", "CREATE", "s", "g", "$", "MKSTREAM")
		execute("XGROUP", "CREATE", "s", "h", "0")
		execute("XGROUP", "CREATE", "t", "h", "0", "MKSTREAM")
		lines := strings.Split(strings.TrimSpace(stream), "\n")
		for n := range 200 {
			line := lines[chance.IntN(len(lines))]
			if entries, _ := m.Stream("s"); len(entries) > 0 {
				line = strings.ReplaceAll(line, "FIRST", entries[chance.IntN(min(3, len(entries)))].ID)
			}
			args := strings.Fields(line)
			for i := range args {
				args[i] = strings.ReplaceAll(args[i], "+", " ")
			}
			execute(args...)
			for _, of := range [][3]string{{"s", "g", ""}, {"s", "g", "c1"}, {"s", "h", ""}, {"t", "h", ""}, {"t", "none", ""}} {
				isA := func(fields []string) bool { return fields[1] == "a" }
				unread, pending := m.Open(of[0], of[1], of[2], isA)
				if u, p := own.Open(of[0], of[1], of[2], isA); u != unread || p != pending {
					t.Fatalf("seed %d, command %d: after %q %v has %d unread and %d pending, want %d and %d", seed, n, args, of, unread, pending, u, p)
				}
			}
		}
		if diff := cmp.Diff(want, added); diff != "" {
			t.Fatalf("seed %d: added, -want +got:\n%s", seed, diff)
		}
	}
}
