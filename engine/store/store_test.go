package store_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/redistest"
	"flunq.io/flunq/engine/store/stream"
	"flunq.io/flunq/engine/store/timers"
	"flunq.io/flunq/engine/store/wire"
	"flunq.io/flunq/sim/memory"
)

// check is one guarantee of the store, which holds on every kind of Redis.
type check struct {
	name string
	run  func(t *testing.T, w *environment)
}

// environment is an empty Redis with a store on it.
type environment struct {
	*store.Store
	rdb wire.Redis
	// mini is nil on a real Redis, whose clock cannot be set.
	mini *miniredis.Miniredis
	// memory is the simulated cluster, or nil.
	memory *memory.Server
}

// another returns a store on the same Redis with other options.
func (w *environment) another(opts store.Options) *store.Store {
	opts.Cluster = w.Keys().Clustered()
	return store.New(w.Redis(), opts)
}

// plainName is the opposite of clusterName for keys of the checks' tenant.
func plainName(key string) string { return strings.Replace(key, "{"+tenant+"}", tenant, 1) }

// The same guarantees on miniredis and on a real Redis: the first is fast and has a clock that can be
// set, the second is authoritative.
func TestStore(t *testing.T) {
	t.Parallel()
	var all []check
	for _, some := range [][]check{
		commits, starts, messages, answers, leases, unwantedEvents, deliveries, timerCommits, firings, definitions, sealing,
		keyedTimers, movedTimers, timerChanges, listings, deadLetters, executionLists, trims, inspections, overviews, timerPages, requestGroups, dueReads, removals, manyOfAll, giveUps, registrations,
	} {
		all = append(all, some...)
	}
	onClusters := slices.DeleteFunc(slices.Clone(all), func(c check) bool { return slices.Contains(onOneRedis, c.name) })
	t.Run("miniredis", func(t *testing.T) {
		t.Parallel()
		for _, c := range all {
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				mini := miniredis.RunT(t)
				mini.SetTime(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
				rdb, err := store.Dial(t.Context(), mini.Addr())
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = rdb.Close() })
				c.run(t, newEnvironment(t, rdb, mini, store.Options{}))
			})
		}
	})
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		rdb := redistest.Start(t)
		for _, c := range all {
			t.Run(c.name, func(t *testing.T) {
				if err := rdb.FlushDB(t.Context()).Err(); err != nil {
					t.Fatal(err)
				}
				c.run(t, newEnvironment(t, rdb, nil, store.Options{}))
			})
		}
	})
	t.Run("simulated cluster", func(t *testing.T) {
		t.Parallel()
		for _, c := range onClusters {
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				server := memory.New(time.Now())
				server.Cluster = true
				rdb, renaming := wire.Passive(server.Dial), wire.Passive(server.Dial)
				t.Cleanup(func() { _, _ = rdb.Close(), renaming.Close() })
				renaming.AddHook(redistest.Renaming(clusterName))
				w := newEnvironment(t, rdb, nil, store.Options{Cluster: true})
				w.rdb, w.memory = renaming, server
				c.run(t, w)
			})
		}
	})
	t.Run("cluster", func(t *testing.T) {
		t.Parallel()
		cluster := redistest.StartCluster(t)
		rdb, renaming := cluster.Client(t), cluster.Renamed(t, clusterName)
		for _, c := range onClusters {
			t.Run(c.name, func(t *testing.T) {
				must(t, wire.EachMaster(t.Context(), rdb, func(ctx context.Context, master wire.Redis, _ string) error {
					return master.FlushDB(ctx).Err()
				}))
				w := newEnvironment(t, rdb, nil, store.Options{Cluster: true})
				w.rdb = renaming
				c.run(t, w)
			})
		}
	})
}

// clusterName returns the name that a key of a check has on a cluster.
func clusterName(key string) string {
	switch {
	case strings.HasPrefix(key, "tenant:") && !strings.HasPrefix(key, "tenant:{"):
		name, rest, _ := strings.Cut(strings.TrimPrefix(key, "tenant:"), ":")
		return "tenant:{" + name + "}:" + rest
	case key == timersKey:
		return "flunq:timers:{" + tenant + "}"
	case strings.HasPrefix(key, timerKeysKey) && !strings.Contains(key, "{"):
		return timerKeysKey + ":{" + tenant + "}" + strings.TrimPrefix(key, timerKeysKey)
	default:
		return key
	}
}

// onOneRedis are the checks that are about a single Redis: they count on plain names of keys, on
// timers that all tenants share, or set what only one server has.
var onOneRedis = []string{
	"a cancelled timer is restored at its position",
	"a server reports its state",
	"a stream that cannot be written keeps its timer, and the others fire",
	"an invalid timer is dead-lettered",
	"dead letters of other key schemes are read and replayed",
	"each tenant has its own requests",
	"in a cluster every key of a script is in one slot",
	"timers are listed by workflow, execution and kind",
	"unregistered timers of other key schemes are found",
}

func newEnvironment(t *testing.T, rdb wire.Redis, mini *miniredis.Miniredis, opts store.Options) *environment {
	t.Helper()
	w := &environment{Store: store.New(rdb, opts), rdb: rdb, mini: mini}
	must(t, stream.New(w.Store).Groups(t.Context(), tenant))
	return w
}

// The names that the checks use.
const (
	tenant    = "acme"
	execution = "x-1"

	streamKey    = "tenant:acme:events"
	deadKey      = "tenant:acme:events:dlq"
	executionKey = "tenant:acme:execution:x-1"
	historyKey   = executionKey + ":history"
	timersKey    = "flunq:timers:all"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// schedule sets a timer, as a message requests.
func schedule(t *testing.T, st *store.Store, m store.Message, timer event.Timer) (mine bool, err error) {
	t.Helper()
	return applied(t, st, timers.Request{Message: &m, Timer: timer})
}

// unschedule removes a timer, as a message requests.
func unschedule(t *testing.T, st *store.Store, m store.Message, timer event.Timer) (mine bool, err error) {
	t.Helper()
	return applied(t, st, timers.Request{Message: &m, Timer: timer, Cancel: true})
}

func applied(t *testing.T, st *store.Store, request timers.Request) (mine bool, err error) {
	t.Helper()
	out, _, err := timers.New(st).Apply(t.Context(), request)
	if err != nil {
		return false, err
	}
	return out[0].Mine, out[0].Err
}

// reply answers a message with an event.
func reply(t *testing.T, st *store.Store, m store.Message, e event.Event) (mine bool, err error) {
	t.Helper()
	given, err := stream.New(st).Replies(t.Context(), []stream.Reply{{Message: &m, Event: &e}})
	return given[0], err
}

// mine fails the test unless the message was the consumer's.
func mine(t *testing.T, want bool) func(bool, error) {
	return func(got bool, err error) {
		t.Helper()
		must(t, err)
		if got != want {
			t.Fatalf("mine = %v, want %v", got, want)
		}
	}
}

func reader(group, consumer string) stream.Reader {
	return stream.Reader{Group: group, Consumer: consumer, Tenants: []string{tenant}}
}

// sent publishes an event and returns its delivery to a consumer.
func (w *environment) sent(t *testing.T, e event.Event, group, consumer string) store.Message {
	t.Helper()
	e.Tenant = tenant
	must(t, w.Publish(t.Context(), e))
	return w.read(t, group, consumer)
}

// read returns the one entry that a consumer finds.
func (w *environment) read(t *testing.T, group, consumer string) store.Message {
	t.Helper()
	got, err := stream.New(w.Store).Read(t.Context(), reader(group, consumer), 10, 0)
	msgs := got.Messages
	must(t, err)
	msgs = slices.DeleteFunc(msgs, func(m store.Message) bool { return m.Event.Type == event.TimerSet })
	if len(msgs) != 1 {
		t.Fatalf("read %d messages, want 1: %v", len(msgs), msgs)
	}
	return msgs[0]
}

// letAge makes pending entries idle for some time.
func (w *environment) letAge(t *testing.T, d time.Duration, msgs ...store.Message) {
	t.Helper()
	if w.mini != nil {
		now, err := w.Now(t.Context())
		must(t, err)
		w.mini.SetTime(now.Add(d))
		return
	}
	for _, m := range msgs {
		must(t, w.rdb.Do(t.Context(), "XCLAIM", streamKey, m.Group, m.Consumer, 0, m.ID, "IDLE", d.Milliseconds(), "JUSTID").Err())
	}
}

// claimByOther lets another consumer claim a message.
func (w *environment) claimByOther(t *testing.T, m store.Message) store.Message {
	t.Helper()
	w.letAge(t, time.Minute, m)
	now, err := w.Now(t.Context())
	must(t, err)
	got, _, err := stream.New(w.Store).ClaimAbandoned(t.Context(), reader(m.Group, "other"), 30*time.Second, 10, now)
	must(t, err)
	if len(got) != 1 || got[0].ID != m.ID {
		t.Fatalf("the other consumer got %v, want %s", got, m.ID)
	}
	return got[0]
}

// pending returns the number of entries that a group has not acknowledged.
func (w *environment) pending(t *testing.T, group string) int64 {
	t.Helper()
	p, err := w.rdb.XPending(t.Context(), streamKey, group).Result()
	must(t, err)
	return p.Count
}

// dump returns all data of Redis, except what groups have read.
func (w *environment) dump(t *testing.T) string {
	t.Helper()
	ctx := t.Context()
	var keys []string
	must(t, wire.EachMaster(ctx, w.Redis(), func(ctx context.Context, master wire.Redis, _ string) error {
		some, err := master.Keys(ctx, "*").Result()
		keys = append(keys, some...)
		return err
	}))
	var out strings.Builder
	for _, key := range sorted(keys) {
		var value any
		switch w.rdb.Type(ctx, key).Val() {
		case "hash":
			value = w.rdb.HGetAll(ctx, key).Val()
		case "stream":
			value = w.rdb.XRange(ctx, key, "-", "+").Val()
		case "zset":
			value = w.rdb.ZRangeWithScores(ctx, key, 0, -1).Val()
		case "set":
			value = sorted(w.rdb.SMembers(ctx, key).Val())
		default:
			value = w.rdb.Get(ctx, key).Val()
		}
		fmt.Fprintf(&out, "%s = %v\n", key, value)
	}
	return out.String()
}

// unchanged fails the test if f, which returns an error, changes anything.
func (w *environment) unchanged(t *testing.T, f func() error) error {
	t.Helper()
	before := w.dump(t)
	err := f()
	if after := w.dump(t); after != before {
		t.Errorf("something was written, with error %v:\n%s\nwas\n%s", err, after, before)
	}
	return err
}
