package store_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/stream"
	"flunq.io/flunq/engine/store/wire"
)

var serviceGroups = []string{store.WorkerGroup, store.ExecutorGroup, store.TimerGroup}

// entries adds entries of the year 1970, and has Redis keep few of them in a node.
func (w *environment) entries(t *testing.T, ids ...string) {
	t.Helper()
	if w.memory == nil && w.mini == nil {
		node, _, err := wire.MasterOf(t.Context(), w.Redis(), w.Keys().Stream(tenant))
		must(t, err)
		before := node.ConfigGet(t.Context(), "stream-node-max-entries").Val()["stream-node-max-entries"]
		must(t, node.ConfigSet(t.Context(), "stream-node-max-entries", "1").Err())
		defer node.ConfigSet(t.Context(), "stream-node-max-entries", before)
	}
	pipe := w.rdb.Pipeline()
	for _, id := range ids {
		pipe.XAdd(t.Context(), &redis.XAddArgs{Stream: streamKey, ID: id, Values: []string{"id", id}})
	}
	_, err := pipe.Exec(t.Context())
	must(t, err)
}

// numbered returns ids 1000-1 to 1000-n.
func numbered(n int) []string {
	ids := make([]string, n)
	for i := range ids {
		ids[i] = fmt.Sprintf("1000-%d", i+1)
	}
	return ids
}

// take reads entries for a group; done acknowledges them.
func (w *environment) take(t *testing.T, group string, count int) []string {
	t.Helper()
	args := &redis.XReadGroupArgs{Group: group, Consumer: "c", Streams: []string{streamKey, ">"}, Count: int64(count), Block: -1}
	streams, err := w.rdb.XReadGroup(t.Context(), args).Result()
	if errors.Is(err, redis.Nil) {
		return nil
	}
	must(t, err)
	var ids []string
	for _, m := range streams[0].Messages {
		ids = append(ids, m.ID)
	}
	return ids
}

func (w *environment) done(t *testing.T, group string, ids ...string) {
	t.Helper()
	if len(ids) > 0 {
		must(t, w.rdb.XAck(t.Context(), streamKey, group, ids...).Err())
	}
}

// readAll makes groups read and acknowledge everything.
func (w *environment) readAll(t *testing.T, groups ...string) {
	t.Helper()
	for _, group := range groups {
		w.done(t, group, w.take(t, group, 10_000)...)
	}
}

// left returns the ids in the stream.
func (w *environment) left(t *testing.T) []string {
	t.Helper()
	entries, err := w.rdb.XRange(t.Context(), streamKey, "-", "+").Result()
	must(t, err)
	var ids []string
	for _, e := range entries {
		ids = append(ids, e.ID)
	}
	return ids
}

// trim fails the test unless that many entries are removed and the newest ones stay.
func (w *environment) trim(t *testing.T, keep int, age time.Duration, want int, groups ...string) {
	t.Helper()
	before := w.left(t)
	n, err := stream.New(w.Store).Trim(t.Context(), []string{tenant}, keep, age, groups...)
	must(t, err)
	after := w.left(t)
	if int(n) != want || !slices.Equal(after, before[want:]) {
		t.Errorf("%d removed and %d of %d left, want %d removed", n, len(after), len(before), want)
	}
}

var trims = []check{
	{"entries that every group has acknowledged are trimmed", func(t *testing.T, w *environment) {
		w.entries(t, numbered(100)...)
		w.readAll(t, serviceGroups...)
		w.trim(t, 0, 0, 99) // the last that was read stays
		w.trim(t, 0, 0, 0)
	}},
	{"a slow group delays trimming", func(t *testing.T, w *environment) {
		w.entries(t, numbered(100)...)
		w.readAll(t, store.WorkerGroup, store.TimerGroup)
		w.done(t, store.ExecutorGroup, w.take(t, store.ExecutorGroup, 60)...)
		w.trim(t, 0, 0, 59)
		if rest := w.take(t, store.ExecutorGroup, 100); len(rest) != 40 {
			t.Errorf("%d left to read, want 40", len(rest))
		}
	}},
	{"pending entries stay, and all after them", func(t *testing.T, w *environment) {
		w.entries(t, numbered(100)...)
		w.readAll(t, store.WorkerGroup, store.TimerGroup)
		ids := w.take(t, store.ExecutorGroup, 100)
		w.done(t, store.ExecutorGroup, append(ids[:29:29], ids[30:]...)...)
		w.trim(t, 0, 0, 29)
		w.trim(t, 0, 0, 0)
		w.done(t, store.ExecutorGroup, ids[29])
		w.trim(t, 0, 0, 70)
	}},
	{"nothing is trimmed while a group has read nothing", func(t *testing.T, w *environment) {
		w.entries(t, numbered(100)...)
		w.readAll(t, store.WorkerGroup, store.TimerGroup)
		w.trim(t, 0, 0, 0)
	}},
	{"groups of other programs count as well", func(t *testing.T, w *environment) {
		must(t, w.rdb.XGroupCreate(t.Context(), streamKey, "audit", "0").Err())
		w.entries(t, numbered(100)...)
		w.readAll(t, serviceGroups...)
		w.trim(t, 0, 0, 0)
		w.take(t, "audit", 11)
		w.trim(t, 0, 0, 0)
		w.readAll(t, "audit")
		w.trim(t, 0, 0, 0)
	}},
	{"nothing is trimmed while a group is missing", func(t *testing.T, w *environment) {
		w.entries(t, numbered(100)...)
		w.readAll(t, serviceGroups...)
		must(t, w.rdb.XGroupDestroy(t.Context(), streamKey, store.TimerGroup).Err())
		w.trim(t, 0, 0, 0)
		w.trim(t, 0, 0, 0, store.WorkerGroup, "other")
		w.trim(t, 0, 0, 99, store.WorkerGroup, store.ExecutorGroup)
	}},
	{"a minimum number is kept", func(t *testing.T, w *environment) {
		w.entries(t, numbered(100)...)
		w.readAll(t, serviceGroups...)
		w.trim(t, 100, 0, 0)
		w.trim(t, 30, 0, 70)
		w.trim(t, 30, 0, 0)
	}},
	{"recent entries are kept", func(t *testing.T, w *environment) {
		w.entries(t, append(numbered(50), "*", "*", "*")...)
		w.readAll(t, serviceGroups...)
		w.trim(t, 0, 100*365*24*time.Hour, 0)
		w.trim(t, 0, time.Hour, 50)
		w.trim(t, 0, time.Hour, 0)
	}},
	{"ids larger than Lua's numbers are distinguished", func(t *testing.T, w *environment) {
		w.entries(t, "9-1", "10-9007199254740992", "10-9007199254740993", "10-18446744073709551615", "11-0")
		w.readAll(t, store.WorkerGroup, store.TimerGroup)
		ids := w.take(t, store.ExecutorGroup, 5)
		w.done(t, store.ExecutorGroup, ids[0], ids[1], ids[3], ids[4])
		w.trim(t, 0, 0, 2)
		w.done(t, store.ExecutorGroup, ids[2])
		w.trim(t, 0, 0, 2)
	}},
	{"a missing stream has nothing to trim, and a key that is no stream is an error", func(t *testing.T, w *environment) {
		must(t, w.rdb.Del(t.Context(), streamKey).Err())
		n, err := stream.New(w.Store).Trim(t.Context(), []string{tenant}, 0, 0)
		if n != 0 || err != nil {
			t.Errorf("Trim removes %d entries of a missing stream, %v, want 0 and no error", n, err)
		}
		if _, err := stream.New(w.Store).Trim(t.Context(), []string{"No!"}, 0, 0); !errors.Is(err, store.ErrName) {
			t.Errorf("error %v, want ErrName", err)
		}
		must(t, w.rdb.Set(t.Context(), streamKey, "x", 0).Err())
		if _, err := stream.New(w.Store).Trim(t.Context(), []string{tenant}, 0, 0); err == nil {
			t.Error("Trim of a string returns no error")
		}
	}},
	{"whatever the groups do, nothing is lost", func(t *testing.T, w *environment) {
		rounds := 20
		if w.mini == nil {
			rounds = 3
		}
		for seed := range rounds {
			must(t, w.rdb.Del(t.Context(), streamKey).Err())
			must(t, stream.New(w.Store).Groups(t.Context(), tenant))
			w.anyOrder(t, rand.New(rand.NewPCG(uint64(seed), 0)))
		}
	}},
	{"only gone consumers are removed", func(t *testing.T, w *environment) {
		w.entries(t, numbered(3)...)
		busy := &redis.XReadGroupArgs{Group: store.WorkerGroup, Consumer: "busy", Streams: []string{streamKey, ">"}, Count: 1, Block: -1}
		must(t, w.rdb.XReadGroup(t.Context(), busy).Err())
		w.done(t, store.WorkerGroup, w.take(t, store.WorkerGroup, 10)...)
		must(t, stream.New(w.Store).SweepConsumers(t.Context(), []string{tenant}, store.WorkerGroup, time.Hour))
		if got := w.consumers(t); !slices.Equal(got, []string{"busy", "c"}) {
			t.Errorf("consumers %v, want both", got)
		}
		must(t, stream.New(w.Store).SweepConsumers(t.Context(), []string{tenant}, store.WorkerGroup, 0))
		want := []string{"busy"}
		if w.mini != nil { // which does not know since when they are idle
			want = []string{"busy", "c"}
		}
		if got := w.consumers(t); !slices.Equal(got, want) {
			t.Errorf("consumers %v, want %v", got, want)
		}
		if n := w.pending(t, store.WorkerGroup); n != 1 {
			t.Errorf("%d pending, want 1", n)
		}
		must(t, stream.New(w.Store).SweepConsumers(t.Context(), []string{tenant}, "nobody", 0))
		must(t, stream.New(w.Store).SweepConsumers(t.Context(), []string{"nobody"}, store.WorkerGroup, 0))
	}},
}

func (w *environment) consumers(t *testing.T) []string {
	t.Helper()
	found, err := w.rdb.XInfoConsumers(t.Context(), streamKey, store.WorkerGroup).Result()
	must(t, err)
	var names []string
	for _, c := range found {
		names = append(names, c.Name)
	}
	return sorted(names)
}

// anyOrder adds, reads, acknowledges and trims at random, and then checks that every group has received
// every entry.
func (w *environment) anyOrder(t *testing.T, random *rand.Rand) {
	t.Helper()
	had, held := map[string]int{}, map[string][]string{}
	added := 0
	for range 60 {
		group := serviceGroups[random.IntN(len(serviceGroups))]
		switch random.IntN(4) {
		case 0:
			n := random.IntN(8)
			w.entries(t, numbered(added + n)[added:]...)
			added += n
		case 1:
			ids := w.take(t, group, 1+random.IntN(8))
			had[group] += len(ids)
			held[group] = append(held[group], ids...)
		case 2:
			random.Shuffle(len(held[group]), func(i, j int) { held[group][i], held[group][j] = held[group][j], held[group][i] })
			n := random.IntN(len(held[group]) + 1)
			w.done(t, group, held[group][:n]...)
			held[group] = held[group][n:]
		default:
			_, err := stream.New(w.Store).Trim(t.Context(), []string{tenant}, random.IntN(5), 0)
			must(t, err)
		}
	}
	left := w.left(t)
	for _, group := range serviceGroups {
		for _, id := range held[group] {
			if !slices.Contains(left, id) {
				t.Fatalf("%s was pending with %s, and is gone", id, group)
			}
		}
		if had[group] += len(w.take(t, group, 10_000)); had[group] != added {
			t.Fatalf("%s had %d entries of %d", group, had[group], added)
		}
	}
}

// losesScripts is a connection that is lost whenever a script is loaded.
type losesScripts struct{ redis.Hook }

func (losesScripts) DialHook(next redis.DialHook) redis.DialHook { return next }

func (losesScripts) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (losesScripts) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() == "script" {
			cmd.SetErr(io.EOF)
			return io.EOF
		}
		return next(ctx, cmd)
	}
}

// A failure to load a script is a temporary problem of the connection, not of the stream.
func TestTrimWithoutConnection(t *testing.T) {
	t.Parallel()
	rdb, err := store.Dial(t.Context(), miniredis.RunT(t).Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = rdb.Close() })
	rdb.AddHook(losesScripts{})
	st := store.New(rdb, store.Options{})
	if _, err := stream.New(st).Trim(t.Context(), []string{tenant}, 0, 0); !store.Temporary(err) || strings.Contains(err.Error(), "NOSCRIPT") {
		t.Errorf("error %v, want that of the connection", err)
	}
}
