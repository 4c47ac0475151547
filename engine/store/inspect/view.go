// Package inspect reads what operators, the doctor and the terminal UI show: the state of streams,
// groups, timers and executions. It writes nothing, and may read every key of a tenant.
package inspect

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/processes"
	"flunq.io/flunq/engine/store/scripts"
	"flunq.io/flunq/engine/store/stream"
	"flunq.io/flunq/engine/store/timers"
	"flunq.io/flunq/engine/store/wire"
)

// View reads the state of tenants for operators.
type View struct {
	store *store.Store
	rdb   *wire.Client
	keys  store.Keys
}

// New returns a View of a Store.
func New(s *store.Store) View { return View{store: s, rdb: s.Redis(), keys: s.Keys()} }

//nolint:gochecknoglobals // constants that go-redis wraps
var (
	latestScript   = scripts.Reading("latest")
	overviewScript = scripts.Reading("stream_info", "overview")
	pendingScript  = scripts.Reading("pending")
	streamScript   = scripts.Reading("stream_info", "stream")
)

// Stream is the state of a tenant's stream and its consumer groups.
type Stream struct {
	Tenant, Key string
	Length      int64
	First       string  // id of the first entry; "" if there is none
	Dead        int64   // dead letters
	Groups      []Group // sorted by name
}

// Group is the state of a consumer group.
type Group struct {
	Name      string
	Delivered string // id of the last entry delivered to a consumer
	Consumers []Consumer
	Pending   int64    // entries read and not acknowledged
	Lag       int64    // entries not read yet; if Redis does not report it, at most 1000 are counted
	Oldest    Delivery // the first pending entry
}

// Consumer is a consumer of a group.
type Consumer struct {
	Name    string
	Pending int64
	Idle    time.Duration // since its last command; negative if unknown
}

// Delivery is an entry that a consumer has read and not acknowledged.
type Delivery struct {
	ID, Consumer string
	Idle         time.Duration // since it was last delivered, claimed or renewed
	Count        int64         // number of deliveries
}

// Streams reads the streams of tenants in one round trip. It leaves out those that cannot be read,
// and reports them in the error.
func (v View) Streams(ctx context.Context, tenants []string) ([]Stream, error) {
	pipe := v.rdb.Pipeline()
	replies := make([]*redis.Cmd, 0, len(tenants))
	for _, tenant := range tenants {
		if err := store.CheckTenant(tenant); err != nil {
			return nil, err
		}
		replies = append(replies, streamScript().Eval(ctx, pipe, []string{v.keys.Stream(tenant), v.keys.DeadLetters(tenant)}))
	}
	if len(replies) == 0 {
		return nil, nil
	}
	_, _ = pipe.Exec(ctx) // each reply has its own error
	var errs []error
	out := make([]Stream, 0, len(tenants))
	for i, reply := range replies {
		fields, err := reply.Slice()
		if err != nil {
			errs = append(errs, store.Failed("read the stream of "+tenants[i], err))
			continue
		}
		one := streamOf(fields)
		one.Tenant, one.Key = tenants[i], v.keys.Stream(tenants[i])
		out = append(out, one)
	}
	return out, errors.Join(errs...)
}

func streamOf(l wire.List) Stream {
	out := Stream{Length: l.Number(0), Dead: l.Number(1), First: l.Text(2)}
	l.List(3).Each(func(g wire.List) {
		group := Group{Name: g.Text(0), Delivered: g.Text(1), Pending: g.Number(2), Lag: g.Number(3)}
		g.List(4).Each(func(c wire.List) {
			group.Consumers = append(group.Consumers, Consumer{Name: c.Text(0), Pending: c.Number(1), Idle: c.Milliseconds(2)})
		})
		p := g.List(5)
		group.Oldest = Delivery{ID: p.Text(0), Consumer: p.Text(1), Idle: p.Milliseconds(2), Count: p.Number(3)}
		out.Groups = append(out.Groups, group)
	})
	slices.SortFunc(out.Groups, func(a, b Group) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// Unclaimed returns the first pending entry of a group that has been idle for at least idle. Its ID
// is "" if there is none.
func (v View) Unclaimed(ctx context.Context, tenant, group string, idle time.Duration) (Delivery, error) {
	if err := store.CheckTenant(tenant); err != nil {
		return Delivery{}, err
	}
	args := &redis.XPendingExtArgs{Stream: v.keys.Stream(tenant), Group: group, Start: "-", End: "+", Idle: idle, Count: maxPendingRead}
	found, err := v.rdb.XPendingExt(ctx, args).Result()
	if err != nil {
		return Delivery{}, store.Failed("read the pending entries", err)
	}
	for _, p := range found {
		if p.Idle >= stream.ReleasedIdle { // Release has added this to its idle time
			p.Idle -= stream.ReleasedIdle
		}
		if p.Idle >= idle {
			return Delivery{ID: p.ID, Consumer: p.Consumer, Idle: p.Idle, Count: p.RetryCount}, nil
		}
	}
	return Delivery{}, nil
}

// maxPendingRead is how many idle entries Unclaimed reads.
const maxPendingRead = 100

// TimerCounts counts the pending timers of all tenants or, on a cluster, of some of them.
type TimerCounts struct {
	Count   int64
	Overdue int64     // timers overdue for longer than grace
	Now     time.Time // by Redis' clock
}

// Overdue counts the timers of tenants, and those overdue for longer than grace. If the tenants share one
// set of timers, it counts those of all tenants.
func (v View) Overdue(ctx context.Context, tenants []string, grace time.Duration) (sum TimerCounts, err error) {
	pipe := v.rdb.Pipeline()
	var keys []string
	var clocks []*redis.TimeCmd // each of the node that has the timers
	var all, overdue []*redis.IntCmd
	for _, tenant := range timers.New(v.store).Indexes(tenants) {
		if err := store.CheckTenant(tenant); err != nil {
			return sum, err
		}
		key := v.keys.Timers(tenant)
		keys = append(keys, key)
		clocks, all = append(clocks, v.rdb.TimeOf(ctx, pipe, key)), append(all, pipe.ZCard(ctx, key))
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return sum, store.Failed("count the timers", err)
	}
	for i, key := range keys {
		sum.Now = clocks[i].Val().UTC()
		until := strconv.FormatFloat(float64(sum.Now.Add(-grace).UnixMicro())/1e6, 'f', 6, 64)
		overdue = append(overdue, pipe.ZCount(ctx, key, "-inf", until))
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return sum, store.Failed("count the timers", err)
	}
	for i := range keys {
		sum.Count, sum.Overdue = sum.Count+all[i].Val(), sum.Overdue+overdue[i].Val()
	}
	return sum, nil
}

// Unserved returns those services, given with their groups, that no process runs for a tenant. A
// service also counts as running if a consumer of an unregistered process, such as an earlier version
// of flunq or another program, has read recently.
func (v View) Unserved(ctx context.Context, tenant string, groups map[string]string) (missing []string, err error) {
	if err := store.CheckTenant(tenant); err != nil {
		return nil, err
	}
	all, now, err := processes.In(v.store).All(ctx)
	if store.Down(v.store, err) { // otherwise only the master of a cluster that knows them is down
		return nil, err
	}
	for _, service := range slices.Sorted(maps.Keys(groups)) {
		if slices.ContainsFunc(all, func(p processes.Process) bool { return p.Alive(now) && p.Runs(service, tenant) }) {
			continue
		}
		reply, err := v.rdb.XInfoConsumers(ctx, v.keys.Stream(tenant), groups[service]).Result()
		if said, ok := errors.AsType[redis.Error](err); err != nil && (!ok || !neverRead(said)) {
			return nil, store.Failed("look for consumers", err)
		}
		consumers := make([]Consumer, 0, len(reply))
		for _, c := range reply {
			consumers = append(consumers, Consumer{Name: c.Name, Idle: c.Idle})
		}
		if _, read := UnknownReader(all, consumers); !read {
			missing = append(missing, service)
		}
	}
	return missing, nil
}

// UnknownReader returns the consumer that was active most recently, among those that belong to no
// registered process and were active within the last minute.
func UnknownReader(all []processes.Process, consumers []Consumer) (last Consumer, found bool) {
	known := map[string]bool{}
	for i := range all {
		for _, service := range all[i].Services {
			for _, name := range service.Consumers {
				known[name] = true
			}
		}
	}
	for _, c := range consumers {
		if !known[c.Name] && c.Idle >= 0 && c.Idle <= readLately && (!found || c.Idle < last.Idle) {
			last, found = c, true
		}
	}
	return last, found
}

// readLately is how recently such a consumer must have been active.
const readLately = time.Minute

// Sizes estimates how many bytes the histories of executions take in Redis; -1 if unknown.
func (v View) Sizes(ctx context.Context, tenant string, ids []string) []int64 {
	const few = 1 // entries that Redis samples
	pipe := v.rdb.Pipeline()
	sizes := make([]*redis.IntCmd, len(ids))
	for i, id := range ids {
		sizes[i] = pipe.MemoryUsage(ctx, v.keys.History(tenant, id), few)
	}
	_, _ = pipe.Exec(ctx) // a refused command leaves its size unknown
	out := make([]int64, len(ids))
	for i, size := range sizes {
		if out[i] = size.Val(); size.Err() != nil {
			out[i] = -1
		}
	}
	return out
}

// neverRead reports whether an error says that the group or the stream does not exist.
func neverRead(err redis.Error) bool {
	return strings.HasPrefix(err.Error(), "NOGROUP") || strings.Contains(err.Error(), "no such key")
}
