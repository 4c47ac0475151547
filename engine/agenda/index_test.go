package agenda_test

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"flunq.io/flunq/engine/agenda"
	"flunq.io/flunq/engine/schedule"
	"flunq.io/flunq/engine/store/wire"
	"flunq.io/flunq/sim/memory"
)

// uuid returns the n-th id.
func uuid(n int) string { return fmt.Sprintf("%08x-0000-4000-8000-%012x", uint32(n)*2654435761, n) }

// pending is what the index of a partition holds.
type pending struct {
	scheduled  map[string]int64 // ids by the time when they are due, in milliseconds
	processing map[string]int64
	leaves     int
}

// readPending reads the index of a partition and checks that it is sound.
func readPending(t *testing.T, rdb *wire.Client, partition int) pending {
	t.Helper()
	ctx, prefix := t.Context(), fmt.Sprintf("scheduler:{%d}", partition)
	out := pending{map[string]int64{}, map[string]int64{}, 0}
	buckets, err := rdb.ZRangeWithScores(ctx, prefix+":buckets", 0, -1).Result()
	if err != nil {
		t.Fatal(err)
	}
	keys := rdb.Keys(ctx, prefix+":scheduled:*").Val()
	if out.leaves = len(buckets); len(keys) != len(buckets) {
		t.Fatalf("%d leaves are not empty, and %d are in buckets", len(keys), len(buckets))
	}
	for i, b := range buckets {
		leaf := b.Member.(string)
		if strconv.FormatInt(int64(b.Score), 10) != leaf {
			t.Fatalf("leaf %s is in buckets at %v", leaf, b.Score)
		}
		entries := rdb.ZRangeWithScores(ctx, prefix+":scheduled:"+leaf, 0, -1).Val()
		if len(entries) == 0 {
			t.Fatalf("leaf %s is empty", leaf)
		}
		first, last := entries[0].Score, entries[len(entries)-1].Score
		if first < b.Score || i+1 < len(buckets) && last >= buckets[i+1].Score {
			t.Fatalf("leaf %s holds %v to %v", leaf, first, last)
		}
		if len(entries) >= 64 && first != last {
			t.Fatalf("leaf %s holds %d ids, due from %v to %v", leaf, len(entries), first, last)
		}
		for _, e := range entries {
			out.scheduled[text(t, e.Member.(string))] = int64(e.Score)
		}
	}
	for _, e := range rdb.ZRangeWithScores(ctx, prefix+":processing", 0, -1).Val() {
		out.processing[text(t, e.Member.(string))] = int64(e.Score)
	}
	return out
}

// text returns the text of an id's bytes.
func text(t *testing.T, id string) string {
	t.Helper()
	if len(id) != 16 {
		t.Fatalf("an id has %d bytes", len(id))
	}
	h := hex.EncodeToString([]byte(id))
	return strings.Join([]string{h[:8], h[8:12], h[12:16], h[16:20], h[20:]}, "-")
}

// onServers runs a test on each kind of Redis.
func onServers(t *testing.T, test func(t *testing.T, server redisServer)) {
	t.Helper()
	t.Parallel()
	for name, start := range servers() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, start(t))
		})
	}
}

// The index agrees with a model after any operations, and its leaves stay small.
func TestIndexEqualsModel(t *testing.T) {
	onServers(t, func(t *testing.T, server redisServer) {
		compareIndex(t, server, 0)
	})
}

func compareIndex(t *testing.T, server redisServer, seed uint64) {
	t.Helper()
	ctx, rdb, r := t.Context(), server.connect(), rand.New(rand.NewPCG(seed, 7))
	rdb.FlushAll(ctx)
	x := agenda.NewIndex(rdb)
	if err := x.SetPartitions(ctx, 0, 1); err != nil {
		t.Fatal(err)
	}
	start, err := x.Now(ctx)
	if err != nil {
		t.Fatal(err)
	}
	scheduled, processing, ids := map[string]int64{}, map[string]int64{}, 0
	// Times are spread over a minute, over few milliseconds or over one, before and after now.
	moment := func() time.Time {
		spread := []int64{60_000, 20, 1}[r.IntN(3)]
		return start.Add(time.Duration(r.Int64N(spread)+int64(r.IntN(3)-1)*1000) * time.Millisecond).Truncate(time.Millisecond)
	}
	some := func(from map[string]int64, n int) (out []schedule.Entry) {
		for _, id := range slices.Sorted(maps.Keys(from)) {
			if len(out) < n && r.IntN(4) == 0 {
				out = append(out, schedule.Entry{ID: id, Next: time.UnixMilli(from[id])})
			}
		}
		return out
	}
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for step := range 120 {
		switch n := 1 + r.IntN(200); r.IntN(6) {
		case 0, 1: // new ids, and some that are there
			entries := append(some(scheduled, 10), some(processing, 10)...)
			at := moment()
			for i := range n {
				if i%20 == 0 || r.IntN(2) == 0 {
					at = moment()
				}
				e := schedule.Entry{ID: uuid(ids), Next: at}
				ids++
				entries = append(entries, e)
				scheduled[e.ID] = e.Next.UnixMilli()
			}
			added, err := x.Add(ctx, entries)
			if check(err); added != n {
				t.Fatalf("%d were added, want %d", added, n)
			}
		case 2:
			from := some(scheduled, n)
			to := append(slices.Clone(from), some(processing, n)...)
			for i := range to {
				to[i].Next = moment()
				delete(processing, to[i].ID)
				scheduled[to[i].ID] = to[i].Next.UnixMilli()
			}
			check(x.Move(ctx, to))
			check(x.Remove(ctx, slices.DeleteFunc(from, func(e schedule.Entry) bool { return scheduled[e.ID] == e.Next.UnixMilli() })))
		case 3:
			entries := append(some(scheduled, n), some(processing, n)...)
			check(x.Remove(ctx, entries))
			for _, e := range entries {
				delete(scheduled, e.ID)
				delete(processing, e.ID)
			}
			elsewhere := some(scheduled, 10)
			for i := range elsewhere {
				elsewhere[i].Next = elsewhere[i].Next.Add(time.Millisecond)
			}
			check(x.Remove(ctx, elsewhere))
		case 4:
			taken, next, now, err := x.Take(ctx, 0, n, 3*time.Millisecond)
			check(err)
			want, open := 0, int64(0)
			for _, from := range []map[string]int64{scheduled, processing} {
				for _, at := range from {
					if at <= now.UnixMilli() {
						want++
					}
				}
			}
			if len(taken) != min(n, want) {
				t.Fatalf("seed %d, step %d: %d were taken, want %d", seed, step, len(taken), min(n, want))
			}
			var last int64
			for _, e := range taken {
				at, again := processing[e.ID]
				if !again {
					if at = scheduled[e.ID]; at < last {
						t.Fatalf("seed %d, step %d: %d is taken after %d", seed, step, at, last)
					}
					last = at
				}
				if at > now.UnixMilli() || at == 0 || !e.Next.Equal(now.Add(3*time.Millisecond)) {
					t.Fatalf("seed %d, step %d: %v is taken at %v, due at %v", seed, step, e, now, at)
				}
				delete(scheduled, e.ID)
				processing[e.ID] = now.UnixMilli() + 3
			}
			for _, from := range []map[string]int64{scheduled, processing} {
				for _, at := range from {
					if open == 0 || at < open {
						open = at
					}
				}
			}
			if next.IsZero() != (open == 0) || open != 0 && next.UnixMilli() != open {
				t.Fatalf("seed %d, step %d: next is %v, want %v", seed, step, next.UnixMilli(), open)
			}
		case 5:
			server.advance(time.Duration(r.IntN(3)) * time.Millisecond)
		}
		is := readPending(t, rdb, 0)
		if !maps.Equal(is.scheduled, scheduled) || !maps.Equal(is.processing, processing) {
			t.Fatalf("seed %d, step %d: %d are scheduled and %d processing, want %d and %d",
				seed, step, len(is.scheduled), len(is.processing), len(scheduled), len(processing))
		}
	}
}

// Ids that are due in the same millisecond share a leaf. Others do not make it larger.
func TestSameMillisecondSharesALeaf(t *testing.T) {
	onServers(t, func(t *testing.T, server redisServer) {
		ctx, rdb := t.Context(), server.connect()
		x := agenda.NewIndex(rdb)
		if err := x.SetPartitions(ctx, 0, 1); err != nil {
			t.Fatal(err)
		}
		now, _ := x.Now(ctx)
		due := now.Add(time.Hour).Truncate(time.Millisecond)
		n := 10_000
		if server.slow {
			n = 300
		}
		var entries []schedule.Entry
		for i := range n {
			entries = append(entries, schedule.Entry{ID: uuid(i), Next: due})
		}
		entries = append(entries,
			schedule.Entry{ID: uuid(n), Next: due.Add(-time.Millisecond)}, schedule.Entry{ID: uuid(n + 1), Next: due.Add(time.Millisecond)})
		if _, err := x.Add(ctx, entries); err != nil {
			t.Fatal(err)
		}
		if is := readPending(t, rdb, 0); len(is.scheduled) != n+2 || is.leaves != 3 {
			t.Errorf("%d ids in %d leaves, want %d in 3", len(is.scheduled), is.leaves, n+2)
		}
		if err := x.Remove(ctx, entries); err != nil {
			t.Fatal(err)
		}
		if is := readPending(t, rdb, 0); len(is.scheduled)+is.leaves != 0 {
			t.Errorf("%d ids are left in %d leaves", len(is.scheduled), is.leaves)
		}
	})
}

// A lost index is incomplete until it has been rebuilt from the beginning.
func TestLostIndexIsIncomplete(t *testing.T) {
	onServers(t, func(t *testing.T, server redisServer) {
		ctx, rdb := t.Context(), server.connect()
		x := agenda.NewIndex(rdb)
		want := func(want bool) {
			t.Helper()
			if is, err := x.Complete(ctx); err != nil || is != want {
				t.Errorf("the index is complete: %v, %v; want %v", is, err, want)
			}
		}
		set := func() {
			t.Helper()
			if err := x.SetComplete(ctx); err != nil {
				t.Error(err)
			}
		}
		want(false)
		set()
		want(true)
		rdb.FlushAll(ctx)
		set() // it was lost while it was being rebuilt
		want(false)
		want(false)
		set()
		want(true)
	})
}

// eventAt returns an event that is due at a time and was just created.
func eventAt(id string, due time.Time) schedule.Event {
	return schedule.Event{
		ID: id, Content: schedule.Content{Due: due, Topic: "t"}, Status: schedule.Scheduled, Version: 1,
		Next: due, Created: due, Updated: due,
	}
}

// Events that are stored together are indexed as if they were stored one by one: in sound leaves.
func TestPlaceTogether(t *testing.T) {
	onServers(t, func(t *testing.T, server redisServer) {
		ctx, rdb := t.Context(), server.connect()
		ledger := agenda.NewLedger(rdb, agenda.Defaults())
		if err := ledger.SetPartitions(ctx, 0, 2); err != nil {
			t.Fatal(err)
		}
		r := rand.New(rand.NewPCG(1, 2))
		begin := time.UnixMilli(2_000_000_000_000)
		stored := [2]map[string]int64{{}, {}}
		for range 60 {
			events := make([]schedule.Event, 1+r.IntN(200))
			spread := []int64{1, 20, 1000, 100_000}[r.IntN(4)]
			from, ids := r.Int64N(100_000), r.Perm(5000)
			for i := range events {
				due := begin.Add(time.Duration(from+r.Int64N(spread)) * time.Millisecond)
				events[i] = eventAt(uuid(ids[i]), due)
			}
			placed, err := ledger.Place(ctx, events)
			if err != nil {
				t.Fatal(err)
			}
			for i, e := range events {
				in := stored[schedule.Partition(e.ID, 2)]
				at, exists := in[e.ID]
				if !exists {
					at = e.Due.UnixMilli()
					in[e.ID] = at
				}
				if placed[i].Created == exists || placed[i].Event.ID != e.ID || placed[i].Event.Due.UnixMilli() != at {
					t.Fatalf("%s, due %s: placed %+v, want it due at %d, created %v", e.ID, e.Due, placed[i], at, !exists)
				}
			}
		}
		for p, want := range stored {
			if got := readPending(t, rdb, p).scheduled; !maps.Equal(got, want) {
				t.Errorf("partition %d holds %d ids, want %d with the times of the model", p, len(got), len(want))
			}
		}
	})
}

// Where times ascend, leaves stay full.
func TestAscending(t *testing.T) {
	onServers(t, func(t *testing.T, server redisServer) {
		rdb := server.connect()
		ledger := agenda.NewLedger(rdb, agenda.Defaults())
		if err := ledger.SetPartitions(t.Context(), 0, 1); err != nil {
			t.Fatal(err)
		}
		const n = 1000
		due := time.UnixMilli(2_000_000_000_000)
		for i := range n {
			due = due.Add(time.Second)
			if _, err := ledger.Place(t.Context(), []schedule.Event{eventAt(uuid(i), due)}); err != nil {
				t.Fatal(err)
			}
		}
		if got := readPending(t, rdb, 0).leaves; got > n/63+1 {
			t.Errorf("%d ids are in %d leaves, want at most %d", n, got, n/63+1)
		}
	})
}

// halfLoaded fails the first call of a pipeline, and replies to the others that the script is not
// loaded, once.
type halfLoaded struct{ done bool }

func (h *halfLoaded) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h *halfLoaded) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (h *halfLoaded) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if h.done || cmds[0].Name() != "evalsha" {
			return next(ctx, cmds)
		}
		h.done = true
		for _, cmd := range cmds {
			cmd.SetErr(redis.ErrNoScript)
		}
		cmds[0].SetErr(errRefused)
		return errRefused
	}
}

var errRefused = errors.New("ERR refused")

// A call that fails is reported even if others are repeated because their script was not loaded.
func TestFailedBesideUnloaded(t *testing.T) {
	t.Parallel()
	server := memory.New(time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC))
	defer server.Close()
	client := wire.Passive(server.Dial)
	defer client.Close()
	index := agenda.NewIndex(wire.NewClient(client))
	if err := index.SetPartitions(t.Context(), 0, 8); err != nil {
		t.Fatal(err)
	}
	client.AddHook(&halfLoaded{})
	var entries []schedule.Entry
	for n := range 20 {
		entries = append(entries, schedule.Entry{ID: uuid(n), Next: server.Now()})
	}
	if n, err := index.Add(t.Context(), entries); !errors.Is(err, errRefused) || n == 0 || n == len(entries) {
		t.Errorf("added %d, %v; want some, and the error", n, err)
	}
}
