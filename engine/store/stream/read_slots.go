package stream

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/wire"
)

// On a Redis Cluster one command can only read streams of one slot, so no read can block for all
// tenants. A reader reads each tenant by itself, all of one node in one round trip, and leaves out
// the quiet ones: a wire.Bell tells when something is written for them.

// Quiet holds the tenants of which a reader on a cluster has read all there is.
type Quiet struct {
	mu     sync.Mutex
	stamps map[string]uint64 // of the bell when the stream was found empty, by tenant
	all    time.Time         // when all tenants were read last, by Redis' clock
	now    time.Time         // when any were
}

const (
	pollTime = 20 * time.Millisecond // between reads of tenants for which no bell rings
	pollAll  = time.Second           // after which quiet tenants are read too, since a bell may fail
)

// readSlots is Read on a cluster. The returned time is that of Store.Now; each message has the time
// of its own node.
func (s Streams) readSlots(ctx context.Context, r Reader, count int, block time.Duration) ([]store.Message, time.Time, error) {
	quiet, bell := r.Quiet, wire.BellOf(s.rdb)
	if quiet == nil {
		quiet = new(Quiet)
	}
	var ends <-chan time.Time
	if block > 0 {
		timer := time.NewTimer(block)
		defer timer.Stop()
		ends = timer.C
	}
	for over, made := block <= 0, false; ; {
		var rung <-chan struct{}
		if bell != nil {
			rung = bell.Rung()
		}
		stamps := s.stamps(ctx, bell, r.Tenants)
		passed := time.Duration(0)
		if over {
			passed = block
		}
		due := quiet.due(r.Tenants, stamps, passed)
		if len(due) > 0 || len(r.Handled) > 0 || over {
			got := s.readDue(ctx, r, due, count)
			quiet.learn(got, stamps, len(due) == len(r.Tenants))
			if got.events > 0 {
				return got.messages, got.now, nil
			}
			if got.made && !made { // a group was removed; it has read nothing now
				made, r.Handled = true, nil
				continue
			}
			if over {
				return nil, got.now, got.err
			}
			if r.Handled = nil; s.watch(ctx, bell, got.empty, stamps) {
				continue // what was written until then is not reported
			}
		}
		loud := len(quiet.due(r.Tenants, s.stamps(ctx, bell, r.Tenants), 0)) > 0
		over = rest(ctx, rung, loud, ends)
		if err := ctx.Err(); err != nil {
			return nil, time.Time{}, store.Failed("read the streams", err)
		}
	}
}

// rest waits until the bell rings, and reports whether the time for reading is over. If there are
// loud tenants, for which no bell rings, it only waits for a moment.
func rest(ctx context.Context, rung <-chan struct{}, loud bool, ends <-chan time.Time) (over bool) {
	var again <-chan time.Time
	if loud {
		timer := time.NewTimer(pollTime)
		defer timer.Stop()
		again = timer.C
	}
	select {
	case <-ctx.Done():
	case <-rung:
	case <-again:
	case <-ends:
		return true
	}
	return false
}

// stamps returns what the bell says of the streams of tenants; nil without a bell.
func (s Streams) stamps(ctx context.Context, bell *wire.Bell, tenants []string) map[string]uint64 {
	if bell == nil {
		return nil
	}
	out := make(map[string]uint64, len(tenants))
	for _, tenant := range tenants {
		out[tenant] = bell.Stamp(ctx, s.store.TenantKeys(tenant).Stream)
	}
	return out
}

// watch watches the streams of tenants that have no stamp, and reports whether one has now.
func (s Streams) watch(ctx context.Context, bell *wire.Bell, tenants []string, stamps map[string]uint64) bool {
	if bell == nil {
		return false
	}
	var keys []string
	for _, tenant := range tenants {
		if stamps[tenant] == 0 {
			keys = append(keys, s.store.TenantKeys(tenant).Stream)
		}
	}
	bell.Watch(ctx, keys)
	return slices.ContainsFunc(keys, func(key string) bool { return bell.Stamp(ctx, key) != 0 })
}

// due returns the tenants to read: all but the quiet ones, and these too now and then. Some time
// has passed since the last read.
func (q *Quiet) due(tenants []string, stamps map[string]uint64, passed time.Duration) (due []string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if since := q.now.Add(passed).Sub(q.all); stamps == nil || since < 0 || since >= pollAll {
		return tenants
	}
	for _, tenant := range tenants {
		if stamp := stamps[tenant]; stamp == 0 || q.stamps[tenant] != stamp {
			due = append(due, tenant)
		}
	}
	return due
}

// learn records which streams were found empty, and what the bell said of them before.
func (q *Quiet) learn(got slotsRead, stamps map[string]uint64, all bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.stamps == nil {
		q.stamps = map[string]uint64{}
	}
	for _, tenant := range got.empty {
		q.stamps[tenant] = stamps[tenant]
	}
	if !got.now.IsZero() {
		q.now = got.now
		if all {
			q.all = got.now
		}
	}
}

// slotsRead is what a read of several tenants has found.
type slotsRead struct {
	messages []store.Message
	events   int      // of all types
	empty    []string // tenants
	made     bool     // a group was made
	now      time.Time
	err      error // why some tenants could not be read
}

// readDue acknowledges handled messages and reads tenants, without blocking. What it finds on one
// node does not depend on the others.
func (s Streams) readDue(ctx context.Context, r Reader, tenants []string, count int) (got slotsRead) {
	r.Tenants = tenants
	q := s.reading(r)
	own := q.buffer
	defer func() { q.buffer = own; q.end() }()
	q.acknowledge(ctx)
	buffers, reads := s.rdb.Buffers(len(tenants)), make([]redis.Cmder, len(tenants))
	defer s.rdb.Return(buffers...)
	nodes, clocks := make([]string, len(tenants)), map[string]*redis.TimeCmd{}
	for i, tenant := range tenants {
		reads[i] = q.readGroup(ctx, buffers[i], count, 0, tenants[i:i+1])
		_, nodes[i], _ = wire.MasterOf(ctx, s.rdb, s.store.TenantKeys(tenant).Stream)
	}
	for i, node := range nodes {
		if clocks[node] == nil {
			clocks[node] = q.trip.TimeOf(ctx, s.store.TenantKeys(tenants[i]).Stream)
		}
	}
	clock := q.trip.TimeOf(ctx, s.store.ClockKey())
	_ = q.trip.Send(ctx) // each command has its error
	got.now = clock.Val().UTC()
	errs := []error{store.Failed("read the time", clock.Err())}
	for i, tenant := range tenants {
		now := clocks[nodes[i]].Val().UTC()
		if clocks[nodes[i]].Err() != nil {
			now = got.now
		}
		before := 0
		if r.ReadInfo != nil {
			before = len(r.ReadInfo.Found)
		}
		q.buffer = buffers[i]
		n, made, err := s.readOne(ctx, q, tenant, reads[i], now)
		switch {
		case made:
			got.made = true
		case err != nil:
			errs = append(errs, err)
			if r.ReadInfo != nil {
				r.ReadInfo.Found = r.ReadInfo.Found[:before]
			}
		case n == 0:
			got.empty = append(got.empty, tenant)
		}
		got.events += n
	}
	got.messages, got.err = q.out, errors.Join(errs...)
	return got
}

// readOne takes what was read of one tenant and returns how many events it was. A group that is gone
// is made anew. Executions recognise events that they have handled, so that reading from the
// beginning repeats nothing.
func (s Streams) readOne(ctx context.Context, q *reading, tenant string, read redis.Cmder, now time.Time) (events int, made bool, err error) {
	if err := read.Err(); err != nil && !errors.Is(err, redis.Nil) {
		return 0, false, store.Failed("read the stream of "+tenant, err)
	}
	reply := q.buffer.Reply()
	if text := reply.Refusal(); text != "" {
		if strings.HasPrefix(text, "NOGROUP") {
			err := s.makeGroup(ctx, tenant, q.reader.Group)
			return 0, err == nil, err
		}
		return 0, false, store.Failed("read the stream of "+tenant, errors.New(text))
	}
	events, err = q.delivered(now)
	return events, false, err
}
