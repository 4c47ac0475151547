package stream

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/wire"
)

// On a Redis Cluster one command can read only streams of one slot, so no read can block for all
// tenants. A reader reads each tenant separately, all tenants of one node in one round trip, and
// leaves out the quiet ones: a wire.Tracker reports when something is written for them. The readers of a
// group in a process share what they know, and no two of them read a tenant at the same time.

// quiet tracks the tenants whose streams a group has read completely.
type quiet struct {
	mu      sync.Mutex
	stamps  map[string]uint64 // stamp of the tracker when the stream was found empty, by tenant
	reading map[string]bool   // tenants that a reader is reading
	all     time.Time         // when all tenants were last read, by Redis' clock
	now     time.Time         // when any were
}

const (
	pollTime = 20 * time.Millisecond // between reads of tenants that are not watched
	pollAll  = time.Second           // between reads of quiet tenants, since the tracker may fail
)

// quietOf returns the state that the readers of a group share. A reader that does not skip quiet
// tenants gets an empty state and reads all tenants.
func quietOf(tracker *wire.Tracker, r *Reader) *quiet {
	own := &quiet{stamps: map[string]uint64{}, reading: map[string]bool{}}
	if tracker == nil || !r.SkipQuiet {
		return own
	}
	shared, _ := tracker.Shared("quiet "+r.Group, func() any { return own }).(*quiet) // nothing else uses this name
	return shared
}

// readSlots is Read on a cluster. The time of the result is that of Store.Now; each message has the
// time of its own node.
func (s Streams) readSlots(ctx context.Context, r Reader, count int, block time.Duration) (Result, error) {
	tracker := wire.TrackerOf(s.rdb)
	q := quietOf(tracker, &r)
	var ends <-chan time.Time
	if block > 0 {
		timer := time.NewTimer(block)
		defer timer.Stop()
		ends = timer.C
	}
	end := q.latest().Add(block)
	for over, made := block <= 0, false; ; {
		var changed <-chan struct{}
		if tracker != nil {
			changed = tracker.Changed()
		}
		var at time.Time
		if over {
			at = end
		}
		due, all := q.take(r.Tenants, s.stamps(tracker, r.Tenants), at)
		if len(due) > 0 || len(r.Handled) > 0 || over {
			stamps := s.stamps(tracker, due)
			if !over { // anything written from now on is reported, so it is not missed
				stamps = s.watch(ctx, tracker, due, stamps)
			}
			got := s.readDue(ctx, r, due, count)
			if q.done(due, got, stamps, s.stamps(tracker, due), all) {
				tracker.Wake()
			}
			if got.events > 0 {
				return got.Result, nil
			}
			if got.made && !made { // a group was removed and recreated, and has read nothing yet
				made, r.Handled = true, nil
				continue
			}
			if over {
				return Result{Now: got.Now}, got.err
			}
			r.Handled = nil
		}
		over = rest(ctx, changed, q.busy(r.Tenants, s.stamps(tracker, r.Tenants)), ends)
		if err := ctx.Err(); err != nil {
			return Result{}, store.Failed("read the streams", err)
		}
	}
}

// rest waits until something is written, and reports whether the time for reading is over. If some tenants
// are busy, which is not reported, it waits only for a moment.
func rest(ctx context.Context, changed <-chan struct{}, busy bool, ends <-chan time.Time) (over bool) {
	var again <-chan time.Time
	if busy {
		timer := time.NewTimer(pollTime)
		defer timer.Stop()
		again = timer.C
	}
	select {
	case <-ctx.Done():
	case <-changed:
	case <-again:
	case <-ends:
		return true
	}
	return false
}

// stamps returns the tracker's stamps of the streams of tenants, or nil without a tracker.
func (s Streams) stamps(tracker *wire.Tracker, tenants []string) []uint64 {
	if tracker == nil {
		return nil
	}
	keys := make([]string, len(tenants))
	for i, tenant := range tenants {
		keys[i] = s.keys.Stream(tenant)
	}
	return tracker.Stamps(keys)
}

// watch watches the streams of tenants that are not watched yet, and returns the stamps of all.
func (s Streams) watch(ctx context.Context, tracker *wire.Tracker, tenants []string, stamps []uint64) []uint64 {
	var keys []string
	for i, stamp := range stamps {
		if stamp == 0 {
			keys = append(keys, s.keys.Stream(tenants[i]))
		}
	}
	if len(keys) == 0 {
		return stamps
	}
	tracker.Watch(ctx, keys)
	return s.stamps(tracker, tenants)
}

// latest returns when any reader of the group last read, by Redis' clock.
func (q *quiet) latest() time.Time {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.now
}

// take returns the tenants to read, which no other reader reads until done is called: all but the
// quiet ones, and from time to time these, too. The current time is at least at, if that is not zero.
// Without stamps all tenants are read.
func (q *quiet) take(tenants []string, stamps []uint64, at time.Time) (due []string, all bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if stamps == nil {
		return tenants, true
	}
	if at.Before(q.now) {
		at = q.now
	}
	since := at.Sub(q.all)
	all = since < 0 || since >= pollAll
	for i, tenant := range tenants {
		if !q.reading[tenant] && (all || q.isBusy(tenant, stamps[i])) {
			due = append(due, tenant)
			q.reading[tenant] = true
		}
	}
	return due, all
}

// isBusy reports whether there may be something to read for a tenant with the given stamp.
func (q *quiet) isBusy(tenant string, stamp uint64) bool {
	return stamp == 0 || q.stamps[tenant] != stamp
}

// busy reports whether there is something to read for a tenant that no reader is reading.
func (q *quiet) busy(tenants []string, stamps []uint64) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i, tenant := range tenants {
		if stamps == nil || !q.reading[tenant] && q.isBusy(tenant, stamps[i]) {
			return true
		}
	}
	return false
}

// done ends what take began. before and after are the stamps from before and after the read. It
// reports whether to wake other readers because there is more to read.
func (q *quiet) done(due []string, got slotsRead, before, after []uint64, all bool) (more bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !got.Now.IsZero() {
		q.now = got.Now
		if all {
			q.all = got.Now
		}
	}
	if before == nil {
		return false
	}
	for i, tenant := range due {
		delete(q.reading, tenant)
		if got.drained[tenant] {
			q.stamps[tenant] = before[i]
		}
		// A tenant that cannot be watched is read again after a moment.
		more = more || before[i] != 0 && q.isBusy(tenant, after[i])
	}
	return more
}

// slotsRead is the result of reading several tenants.
type slotsRead struct {
	Result

	events  int             // of all types
	drained map[string]bool // tenants with nothing left to read
	made    bool            // a group was created
	err     error           // why some tenants could not be read
}

// readDue acknowledges handled messages and reads tenants, without blocking. Errors of one node do
// not affect the others.
func (s Streams) readDue(ctx context.Context, r Reader, tenants []string, count int) (got slotsRead) {
	r.Tenants, got.drained = tenants, map[string]bool{}
	q := s.reading(r)
	own := q.buffer
	defer func() { q.buffer = own; q.end() }()
	q.acknowledge(ctx)
	buffers, reads := wire.NewBuffers(len(tenants)), make([]redis.Cmder, len(tenants))
	defer wire.Return(buffers...)
	nodes, clocks := make([]string, len(tenants)), map[string]*redis.TimeCmd{}
	for i, tenant := range tenants {
		reads[i] = q.readGroup(ctx, buffers[i], count, 0, tenants[i:i+1])
		_, nodes[i], _ = wire.MasterOf(ctx, s.rdb, s.keys.Stream(tenant))
	}
	for i, node := range nodes {
		if clocks[node] == nil {
			clocks[node] = s.rdb.TimeOf(ctx, q.pipe, s.keys.Stream(tenants[i]))
		}
	}
	clock := s.rdb.TimeOf(ctx, q.pipe, s.store.ClockKey())
	_, _ = q.pipe.Exec(ctx) // each command has its own error
	now, err := clock.Val(), clock.Err()
	if err != nil && ctx.Err() == nil { // without the time, no timer would be looked at
		now, err = store.AnyNow(ctx, s.store)
	}
	got.Now = now.UTC()
	errs := []error{store.Failed("read the time", err)}
	for i, tenant := range tenants {
		now := clocks[nodes[i]].Val().UTC()
		if clocks[nodes[i]].Err() != nil {
			now = got.Now
		}
		before := len(q.Found)
		q.buffer = buffers[i]
		n, made, err := s.readOne(ctx, q, tenant, reads[i], now)
		switch {
		case made:
			got.made = true
		case err != nil:
			errs = append(errs, err)
			q.Found = q.Found[:before]
		case n < count:
			got.drained[tenant] = true
		}
		got.events += n
	}
	q.Now = got.Now
	got.Result, got.err = q.Result, errors.Join(errs...)
	return got
}

// readOne takes what was read for one tenant and returns the number of events. It recreates a group
// that is gone. Executions recognise events that they have handled, so reading from the beginning
// repeats nothing.
func (s Streams) readOne(ctx context.Context, q *reading, tenant string, read redis.Cmder, now time.Time) (events int, made bool, err error) {
	if err := read.Err(); err != nil && !errors.Is(err, redis.Nil) {
		return 0, false, store.Failed("read the stream of "+tenant, err)
	}
	reply := q.buffer.Reply()
	if err := reply.Err(); redis.HasErrorPrefix(err, "NOGROUP") {
		err := s.makeGroup(ctx, tenant, q.reader.Group)
		return 0, err == nil, err
	} else if err != nil {
		return 0, false, store.Failed("read the stream of "+tenant, err)
	}
	events, err = q.decode(now)
	return events, false, err
}
