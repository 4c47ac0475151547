package memory_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"flunq.io/flunq/engine/store/wire"
	"flunq.io/flunq/sim/memory"
	"flunq.io/flunq/sim/resp"
)

// memoryStart has millisecond precision, as Redis does.
var memoryStart = time.Date(2026, 1, 2, 3, 4, 5, 678_000_000, time.UTC)

// openMemory returns an in-memory Redis and a client of it.
func openMemory(tb testing.TB) (*memory.Server, wire.Redis) {
	tb.Helper()
	m := memory.New(memoryStart)
	tb.Cleanup(m.Close)
	client := wire.Passive(m.Dial)
	tb.Cleanup(func() { _ = client.Close() })
	return m, client
}

// Everything that depends on the time uses the virtual clock.
func TestMemoryFollowsItsClock(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	m, client := openMemory(t)
	if got := client.Time(ctx).Val(); !got.Equal(memoryStart) {
		t.Errorf("TIME = %v, want %v", got, memoryStart)
	}
	id := client.XAdd(ctx, &redis.XAddArgs{Stream: "s", Values: []string{"a", "b"}}).Val()
	if want := fmt.Sprintf("%d-0", memoryStart.UnixMilli()); id != want {
		t.Errorf("XADD = %s, want %s", id, want)
	}
	client.XGroupCreate(ctx, "s", "g", "0")
	client.XReadGroup(ctx, &redis.XReadGroupArgs{Group: "g", Consumer: "c", Streams: []string{"s", ">"}, Block: -1})
	client.Set(ctx, "short", "v", time.Minute)
	client.HSet(ctx, "hash", "a", "b")
	client.Expire(ctx, "hash", 2*time.Minute)

	later := memoryStart.Add(90*time.Second + 123*time.Microsecond)
	m.SetTime(later)
	if got := m.Now(); !got.Equal(later) {
		t.Errorf("now = %v, want %v", got, later)
	}
	if n := client.Exists(ctx, "short", "hash").Val(); n != 1 {
		t.Errorf("%d keys are left, want only the hash", n)
	}
	pending := client.XPendingExt(ctx, &redis.XPendingExtArgs{Stream: "s", Group: "g", Start: "-", End: "+", Count: 1}).Val()
	if len(pending) != 1 || pending[0].Idle != 90*time.Second {
		t.Errorf("XPENDING = %v, want one entry, idle for 90s", pending)
	}
	claim := func(idle time.Duration) int {
		messages, _ := client.XAutoClaim(ctx, &redis.XAutoClaimArgs{
			Stream: "s", Group: "g", Consumer: "d", Start: "0", MinIdle: idle,
		}).Val()
		return len(messages)
	}
	if early, due := claim(91*time.Second), claim(90*time.Second); early != 0 || due != 1 {
		t.Errorf("XAUTOCLAIM took %d after 91s and %d after 90s, want 0 and 1", early, due)
	}
	reply := client.Eval(ctx, "return redis.call('TIME')", nil).Val()
	if want := []any{strconv.FormatInt(later.Unix(), 10), "678123"}; !cmp.Equal(reply, want) {
		t.Errorf("TIME in a script = %v, want %v", reply, want)
	}
	script := "return redis.call('XADD', 's', '*', 'a', 'b')"
	if id, want := client.Eval(ctx, script, nil).Val(), fmt.Sprintf("%d-0", later.UnixMilli()); id != want {
		t.Errorf("XADD in a script = %v, want %s", id, want)
	}
}

// However a pipeline is split into writes, each of its commands is executed once.
func TestMemoryConnTakesCutCommands(t *testing.T) {
	t.Parallel()
	m, client := openMemory(t)
	var stream strings.Builder
	for i := range 50 {
		value := strings.Repeat("x\r\n", i)
		fmt.Fprintf(&stream, "*3\r\n$3\r\nSET\r\n$3\r\nk%02d\r\n$%d\r\n%s\r\n", i, len(value), value)
	}
	conn := m.Dial()
	random := rand.New(rand.NewPCG(1, 2))
	for rest := stream.String(); rest != ""; {
		n := min(len(rest), 1+random.IntN(60))
		if _, err := conn.Write([]byte(rest[:n])); err != nil {
			t.Fatal(err)
		}
		rest = rest[n:]
	}
	for i := range 50 {
		value, err := client.Get(t.Context(), fmt.Sprintf("k%02d", i)).Result()
		if want := strings.Repeat("x\r\n", i); value != want || err != nil {
			t.Fatalf("value %d is %q, %v, want %q", i, value, err, want)
		}
	}
}

// A read without a reply fails instead of blocking forever.
func TestMemoryConnNeverWaits(t *testing.T) {
	t.Parallel()
	m, client := openMemory(t)
	if _, err := m.Dial().Read(make([]byte, 1)); !errors.Is(err, resp.ErrNoReply) {
		t.Errorf("Read = %v, want %v", err, resp.ErrNoReply)
	}
	err := client.XReadGroup(t.Context(), &redis.XReadGroupArgs{Group: "g", Consumer: "c", Streams: []string{"s", ">"}, Block: 0}).Err()
	if err == nil || !strings.Contains(err.Error(), "cannot block") {
		t.Errorf("XREADGROUP BLOCK = %v, want an error", err)
	}
}

// A pipeline of any size works, and its commands fail one by one.
func TestMemoryPipelines(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	_, client := openMemory(t)
	_, err := client.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i := range 2000 {
			p.HSet(ctx, "hash", strconv.Itoa(i), strings.Repeat("v", i))
		}
		return nil
	})
	if err != nil || client.HLen(ctx, "hash").Val() != 2000 {
		t.Errorf("pipeline: %v, %d values, want 2000", err, client.HLen(ctx, "hash").Val())
	}
	_, err = client.Pipelined(ctx, func(p redis.Pipeliner) error {
		p.Do(ctx, "nosuchcommand")
		p.Set(ctx, "after", "v", 0)
		return nil
	})
	if err == nil || client.Exists(ctx, "after").Val() != 1 {
		t.Errorf("a pipeline with a mistake: %v, want an error and the rest done", err)
	}
}

// XINFO GROUPS is sorted, and counts what a group has not read.
func TestMemoryGroupsInOrder(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	_, client := openMemory(t)
	for range 5 {
		client.XAdd(ctx, &redis.XAddArgs{Stream: "s", Values: []string{"a", "b"}})
	}
	for _, name := range []string{"d", "b", "a", "c"} {
		client.XGroupCreate(ctx, "s", name, "0")
	}
	client.XReadGroup(ctx, &redis.XReadGroupArgs{Group: "b", Consumer: "x", Count: 2, Block: -1, Streams: []string{"s", ">"}})
	var got []string
	for _, group := range client.XInfoGroups(ctx, "s").Val() {
		got = append(got, fmt.Sprintf("%s %d %d", group.Name, group.Pending, group.Lag))
	}
	if diff := cmp.Diff([]string{"a 0 5", "b 2 3", "c 0 5", "d 0 5"}, got); diff != "" {
		t.Errorf("name, pending, lag (-want +got):\n%s", diff)
	}
}

// After Close a client gets errors and does not block.
func TestMemoryClose(t *testing.T) {
	t.Parallel()
	m, client := openMemory(t)
	m.Close()
	m.Close()
	if err := client.Ping(t.Context()).Err(); err == nil {
		t.Error("PING after close succeeded")
	}
}

// Goroutines may share a server: scripts are atomic.
func TestMemoryScriptsAreAtomic(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	_, client := openMemory(t)
	script := redis.NewScript(`local n = tonumber(redis.call('GET', KEYS[1]) or '0')
		redis.call('SET', KEYS[1], n + 1)`)
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 100 {
				if err := script.Run(ctx, client, []string{"n"}).Err(); err != nil && !errors.Is(err, redis.Nil) {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	if n := client.Get(ctx, "n").Val(); n != "800" {
		t.Errorf("counted to %s, want 800", n)
	}
}

// A cluster refuses commands and scripts that cross slots, even if a script has not declared the
// key.
func TestCrossSlot(t *testing.T) {
	t.Parallel()
	s := memory.New(time.Unix(0, 0))
	s.Cluster = true
	const script = "redis.call('SET', KEYS[1], 1) return redis.call('GET', ARGV[1])"
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"mget", "{a}1", "{a}2"}, ""},
		{[]string{"mget", "a", "b"}, "CROSSSLOT"},
		{[]string{"mset", "{a}1", "b", "{a}2", "b"}, ""},
		{[]string{"mset", "a", "1", "b", "1"}, "CROSSSLOT"},
		{[]string{"rename", "{a}1", "{b}1"}, "CROSSSLOT"},
		{[]string{"xreadgroup", "group", "g", "c", "streams", "{a}1", "{b}1", ">", ">"}, "CROSSSLOT"},
		{[]string{"eval", script, "2", "{a}1", "{b}1", "{a}2"}, "CROSSSLOT"},
		{[]string{"eval", script, "1", "{a}1", "{a}2"}, ""},
		{[]string{"eval", script, "1", "{a}1", "{b}2"}, "same slot"},
		{[]string{"eval", "return redis.call('GET', 'a')", "0"}, "non local key"},
		{[]string{"eval", "return redis.call('TIME')", "0"}, ""},
		{[]string{"get", "a"}, ""},
	} {
		got := s.Do(c.args...)
		if failed := got.Kind == resp.Error; failed != (c.want != "") || !strings.Contains(got.Text, c.want) {
			t.Errorf("%q: %v, want %q", c.args, got, c.want)
		}
	}
}
