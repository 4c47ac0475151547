package agenda_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"flunq.io/flunq/engine/agenda"
	"flunq.io/flunq/engine/schedule"
	"flunq.io/flunq/engine/scheduler"
	"flunq.io/flunq/engine/scheduler/ledgertest"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/redistest"
	"flunq.io/flunq/engine/store/wire"
	"flunq.io/flunq/sim/memory"
)

// redisServer is an empty Redis whose time passes.
type redisServer struct {
	connect func() *wire.Client
	advance func(time.Duration)
	slow    bool // with large sorted sets
}

// servers starts each kind of Redis.
func servers() map[string]func(t *testing.T) redisServer {
	return map[string]func(t *testing.T) redisServer{
		"redis-server": func(t *testing.T) redisServer {
			addr := redistest.Addr(t)
			return redisServer{connect: func() *wire.Client { return dial(t, addr) }, advance: time.Sleep}
		},
		"miniredis": func(t *testing.T) redisServer {
			mr := miniredis.RunT(t)
			now := time.Date(2030, 1, 2, 3, 4, 5, 678_900_000, time.UTC)
			mr.SetTime(now)
			return redisServer{slow: true, connect: func() *wire.Client { return dial(t, mr.Addr()) }, advance: func(d time.Duration) {
				now = now.Add(d)
				mr.SetTime(now)
			}}
		},
		"memory": func(t *testing.T) redisServer {
			server := memory.New(time.Date(2030, 1, 2, 3, 4, 5, 678_900_000, time.UTC))
			t.Cleanup(server.Close)
			return redisServer{connect: func() *wire.Client {
				client := wire.Passive(server.Dial)
				t.Cleanup(func() { _ = client.Close() })
				return wire.NewClient(client)
			}, advance: func(d time.Duration) { server.SetTime(server.Now().Add(d)) }}
		},
	}
}

// onCluster is an empty Redis Cluster.
func onCluster(t *testing.T, cluster *redistest.Cluster) redisServer {
	t.Helper()
	err := wire.EachMaster(t.Context(), cluster.Client(t), func(ctx context.Context, master wire.Redis, _ string) error {
		return master.FlushAll(ctx).Err()
	})
	if err != nil {
		t.Fatal(err)
	}
	return redisServer{connect: func() *wire.Client { return wire.NewClient(cluster.Client(t)) }, advance: time.Sleep}
}

func dial(t testing.TB, addr string) *wire.Client {
	t.Helper()
	rdb, err := store.Dial(t.Context(), addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = rdb.Close() })
	return wire.NewClient(rdb)
}

// A ledger agrees with a model after any operations, and its index holds each open event once.
func TestLedgerEqualsModel(t *testing.T) {
	onServers(t, func(t *testing.T, server redisServer) {
		compareLedger(t, server, 0)
	})
}

func compareLedger(t *testing.T, server redisServer, seed uint64) {
	t.Helper()
	ctx, rdb, r := t.Context(), server.connect(), rand.New(rand.NewPCG(seed, 8))
	rdb.FlushAll(ctx)
	l := agenda.NewLedger(rdb, agenda.Defaults())
	if err := l.SetPartitions(ctx, 0, 1); err != nil {
		t.Fatal(err)
	}
	model, ids := map[string]schedule.Event{}, 0
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
	now, err := l.Now(ctx)
	check(err)
	start := now
	moment := func() time.Time {
		return start.Add(time.Duration(r.IntN(2000)-1000) * time.Millisecond).Truncate(time.Millisecond)
	}
	for step := range 100 {
		now, err = l.Now(ctx)
		check(err)
		now = now.Truncate(time.Millisecond)
		switch r.IntN(6) {
		case 0, 1:
			var events []schedule.Event
			for range 1 + r.IntN(100) {
				at := moment()
				events = append(events, schedule.Event{
					Content: schedule.Content{Due: at, Topic: "t", Payload: []byte(uuid(ids))},
					ID:      uuid(ids), Status: schedule.Scheduled, Version: 1, Next: at, Created: now, Updated: now,
				})
				model[uuid(ids)] = events[len(events)-1]
				ids++
			}
			placed, err := l.Place(ctx, events)
			check(err)
			for _, p := range placed {
				if !p.Created {
					t.Fatalf("seed %d, step %d: %s exists", seed, step, p.Event.ID)
				}
			}
		case 2:
			for _, id := range slices.Sorted(maps.Keys(model)) {
				if r.IntN(10) > 0 {
					continue
				}
				kind := []schedule.ChangeKind{schedule.Cancel, schedule.Move, schedule.Replay, schedule.Drop}[r.IntN(4)]
				change, e := schedule.Change{Kind: kind, Due: moment()}, model[id]
				out, err := l.Change(ctx, id, change, now)
				check(err)
				refused, ok := change.Allows(&e)
				if ok {
					model[id] = change.Apply(e, now)
				}
				if out.Code != refused.Code {
					t.Fatalf("seed %d, step %d: %s of %+v: %+v", seed, step, kind, e, out)
				}
			}
		case 3, 4:
			claimed, err := l.Claim(ctx, schedule.Claim{Partition: 0, Limit: 1 + r.IntN(200), Owner: "o", Lease: 3 * time.Millisecond})
			check(err)
			var ends []schedule.Settled
			for _, c := range claimed.Events {
				e := model[c.ID]
				if e.Status == schedule.Firing && e.Lease.After(claimed.Now) || e.Status == schedule.Scheduled && e.Next.After(claimed.Now) || !e.Status.Open() {
					t.Fatalf("seed %d, step %d: claimed at %v: %+v", seed, step, claimed.Now, e)
				}
				if e.Status == schedule.Firing {
					e.Attempts++
				}
				e.Status, e.Version, e.Owner, e.Lease, e.Updated = schedule.Firing, e.Version+1, "o", c.Lease, claimed.Now
				model[c.ID] = e
				end := schedule.Settled{ID: c.ID, Version: c.Version, Attempts: c.Attempts + 1, Failures: c.Failures}
				end.Status = []schedule.Status{"", schedule.Fired, schedule.Scheduled, schedule.Firing, schedule.Dead}[r.IntN(5)]
				if end.Status == schedule.Scheduled || end.Status == schedule.Firing {
					end.Next = moment()
				}
				if end.Status != "" {
					ends = append(ends, end)
				}
			}
			took, err := l.Settle(ctx, 0, ends, now)
			check(err)
			for i, end := range ends {
				e := model[end.ID]
				if !took[i] {
					t.Fatalf("seed %d, step %d: the end of %+v takes no effect", seed, step, e)
				}
				e.Status, e.Version, e.Attempts, e.Failures, e.Owner, e.Lease, e.Updated = end.Status, e.Version+1, end.Attempts, end.Failures, "", time.Time{}, now
				switch end.Status {
				case schedule.Scheduled:
					e.Next = end.Next
				case schedule.Firing:
					e.Lease = end.Next
				case schedule.Fired:
					e.Published = now
				case schedule.Cancelled, schedule.Dead:
				}
				model[end.ID] = e
			}
		case 5:
			server.advance(time.Duration(r.IntN(4)) * time.Millisecond)
		}
		is := readPending(t, rdb, 0)
		stored := slices.Sorted(maps.Keys(model))
		found, err := l.Get(ctx, stored)
		check(err)
		for i, id := range stored {
			e, found := model[id], found[i]
			if found == nil || found.Status != e.Status || found.Version != e.Version || found.Attempts != e.Attempts ||
				!found.Lease.Equal(e.Lease) || e.Status == schedule.Scheduled && !found.Next.Equal(e.Next) {
				t.Fatalf("seed %d, step %d:\n%+v, want\n%+v", seed, step, found, e)
			}
			due, scheduled := is.scheduled[id]
			ends, processing := is.processing[id]
			if scheduled != (e.Status == schedule.Scheduled) || scheduled && due != e.Next.UnixMilli() ||
				processing != (e.Status == schedule.Firing) || processing && ends != e.Lease.UnixMilli() {
				t.Fatalf("seed %d, step %d: scheduled %v at %d, processing %v until %d: %+v", seed, step, scheduled, due, processing, ends, e)
			}
		}
	}
}

// A Ledger is a scheduler.Ledger on each kind of Redis.
func TestLedger(t *testing.T) {
	t.Parallel()
	for name, start := range servers() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testLedger(t, start)
		})
	}
}

func testLedger(t *testing.T, start func(t *testing.T) redisServer) {
	t.Helper()
	ledgertest.Run(t, func(t *testing.T) ledgertest.Environment {
		server := start(t)
		ledger := func() scheduler.Ledger { return agenda.NewLedger(server.connect(), agenda.Defaults()) }
		return ledgertest.Environment{Ledger: ledger(), Another: ledger, Advance: server.advance}
	})
}

// An event of a dead process is claimed after a lease, although the clock of Redis has gone back.
func TestLeaseAfterClockWentBack(t *testing.T) {
	t.Parallel()
	server := servers()["memory"](t)
	l := agenda.NewLedger(server.connect(), agenda.Defaults())
	claim := func() []schedule.Event {
		t.Helper()
		claimed, err := l.Claim(t.Context(), schedule.Claim{Partition: 0, Limit: 10, Owner: "o", Lease: 30 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		return claimed.Events
	}
	if err := l.SetPartitions(t.Context(), 0, 1); err != nil {
		t.Fatal(err)
	}
	due := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	if _, err := l.Place(t.Context(), []schedule.Event{{
		Content: schedule.Content{Due: due, Topic: "t"}, ID: uuid(1), Status: schedule.Scheduled, Version: 1, Next: due, Created: due, Updated: due,
	}}); err != nil {
		t.Fatal(err)
	}
	if got := claim(); len(got) != 1 {
		t.Fatalf("%d claimed, want 1", len(got))
	}
	for step, want := range []int{0, 0, 1} {
		server.advance([]time.Duration{-10 * time.Minute, 29 * time.Second, 2 * time.Second}[step])
		if got := claim(); len(got) != want || want == 1 && got[0].Attempts != 1 {
			t.Errorf("step %d after the clock has gone back: claimed %+v, want %d", step, got, want)
		}
	}
}

// All of this also holds on a Redis Cluster. The tests use it one at a time.
func TestCluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t)
	var one sync.Mutex
	start := func(t *testing.T) redisServer {
		one.Lock()
		t.Cleanup(one.Unlock)
		return onCluster(t, cluster)
	}
	t.Run("ledger", func(t *testing.T) { testLedger(t, start) })
	t.Run("streams", func(t *testing.T) { testStreams(t, start(t)) })
}

// A ledger that publishes to streams writes the same times as Go, on each kind of Redis, and leaves
// events that the stream rejects to be claimed.
func TestStreams(t *testing.T) {
	t.Parallel()
	for name, start := range servers() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testStreams(t, start(t))
		})
	}
}

func testStreams(t *testing.T, server redisServer) {
	t.Helper()
	ctx, r := t.Context(), rand.New(rand.NewPCG(3, 4))
	rdb, opts := server.connect(), agenda.Defaults()
	opts.Streams = true
	l := agenda.NewLedger(rdb, opts)
	if err := l.SetPartitions(ctx, 0, 1); err != nil {
		t.Fatal(err)
	}
	now, err := l.Now(ctx)
	if err != nil {
		t.Fatal(err)
	}
	// It looks like the state of an event, too.
	const payload = "\x00\n\xff{\"status\":\"FIRED\",\"next\":1,\"error\":\"x\"}"
	want, events := map[string]string{}, []schedule.Event(nil)
	add := func(topic string, due time.Time) {
		id := uuid(len(events))
		want[id] = due.Format(time.RFC3339Nano)
		events = append(events, schedule.Event{
			Content: schedule.Content{Due: due, Topic: topic, Key: `"k\`, Headers: map[string]string{"b": "é<\n", "a": "1"}, Payload: []byte(payload)},
			ID:      id, Status: schedule.Scheduled, Version: 1, Next: due, Created: now, Updated: now,
		})
	}
	for _, day := range []string{"1970-01-01", "1972-02-29", "1999-12-31", "2000-02-29", "2000-03-01", "2024-02-28", "2024-02-29", "2024-12-31"} {
		due, err := time.Parse(time.DateOnly, day)
		if err != nil {
			t.Fatal(err)
		}
		add("times", due.Add(time.Duration(1+r.IntN(1000)*100)*time.Millisecond))
	}
	for range 300 {
		add("times", time.UnixMilli(1+r.Int64N(now.UnixMilli()-1)/10*10).UTC())
	}
	add("list", now.Add(-time.Second).Truncate(time.Millisecond))
	add(schedule.EventTopic+"type", now.Add(-time.Second).Truncate(time.Millisecond))
	if _, err := l.Place(ctx, events); err != nil {
		t.Fatal(err)
	}
	if err := rdb.Set(ctx, agenda.StreamKey(rdb, "list"), "x", 0).Err(); err != nil {
		t.Fatal(err)
	}
	claimed, err := l.Claim(ctx, schedule.Claim{Partition: 0, Limit: 1000, Owner: "o", Lease: time.Minute})
	if err != nil || len(claimed.Fired) != len(events)-2 || len(claimed.Events) != 2 {
		t.Fatalf("%d published, %d claimed, %v", len(claimed.Fired), len(claimed.Events), err)
	}
	for _, e := range claimed.Fired {
		if e.Owner != "o" || e.Attempts != 0 {
			t.Errorf("published: %+v, want no earlier attempts", e)
		}
	}
	for _, e := range claimed.Events {
		if !e.Next.Equal(e.Due) || e.Error != "" || string(e.Payload) != payload {
			t.Errorf("claimed: %+v", e)
		}
	}
	for _, entry := range rdb.XRange(ctx, agenda.StreamKey(rdb, "times"), "-", "+").Val() {
		id := entry.Values["id"].(string)
		if entry.Values["time"] != want[id] || entry.Values["key"] != `"k\` || entry.Values["header:b"] != "é<\n" || entry.Values["data"] != payload {
			t.Errorf("%s: %q, want the time %s", id, entry.Values, want[id])
		}
		delete(want, id)
	}
	if len(want) != 2 {
		t.Errorf("not in the stream: %v", want)
	}
}

// A list of few events among many others reads many at once.
func TestListFewOfMany(t *testing.T) {
	t.Parallel()
	w := newBench(t)
	base := time.Now().Add(time.Hour)
	if _, err := w.ledger.Place(t.Context(), w.events(1000, func(i int) time.Time { return base.Add(time.Duration(i) * time.Second) })); err != nil {
		t.Fatal(err)
	}
	before := w.info(t, "stats", "total_commands_processed")
	filter := schedule.Filter{Topic: "rare", Status: schedule.Scheduled, Limit: 1}
	if found, next, err := w.ledger.List(t.Context(), filter); len(found) > 0 || next != "" || err != nil {
		t.Fatalf("found %v, %q, %v", found, next, err)
	}
	if commands := w.info(t, "stats", "total_commands_processed") - before; commands > 20_000 {
		t.Errorf("it took %v commands", commands)
	}
}

// Each closed event is listed once, also while others are closed between two pages.
func TestListWhileEventsClose(t *testing.T) {
	t.Parallel()
	ctx, l := t.Context(), agenda.NewLedger(store.New(redistest.Start(t), store.Options{}).Redis(), agenda.Defaults())
	if err := l.SetPartitions(ctx, 0, 4); err != nil {
		t.Fatal(err)
	}
	now, err := l.Now(ctx)
	if err != nil {
		t.Fatal(err)
	}
	cancel := func(n int) string {
		c := schedule.Content{Due: now.Add(time.Hour).Truncate(time.Millisecond), Topic: "t", Payload: []byte("x")}
		e := schedule.Event{ID: fmt.Sprintf("00000000-0000-4000-8000-%012d", n), Content: c, Status: schedule.Scheduled, Version: 1, Next: c.Due, Created: now, Updated: now}
		if _, err := l.Place(ctx, []schedule.Event{e}); err != nil {
			t.Fatal(err)
		}
		if out, err := l.Change(ctx, e.ID, schedule.Change{Kind: schedule.Cancel}, now); err != nil || out.Code != schedule.Success {
			t.Fatal(out, err)
		}
		return e.ID
	}
	const n = 70 // Redis resizes its table at 64 and 128 keys
	var before []string
	for i := range n {
		before = append(before, cancel(i))
	}
	times := map[string]int{}
	filter := schedule.Filter{Status: schedule.Cancelled, Limit: 5}
	for pages := 0; ; pages++ {
		page, next, err := l.List(ctx, filter)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range page {
			times[e.ID]++
		}
		if filter.Cursor = next; next == "" {
			break
		}
		cancel(n + pages)
	}
	for _, id := range before {
		if times[id] != 1 {
			t.Errorf("%s is listed %d times", id, times[id])
		}
	}
}
