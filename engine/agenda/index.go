package agenda

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"flunq.io/flunq/engine/schedule"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/wire"
)

// Index knows when each event is due, for records in a table. It may be lost at any time, and may
// return an event too often or too early: the table is authoritative.
type Index struct {
	*Partitions
}

// NewIndex returns the index in rdb.
func NewIndex(rdb *wire.Client) Index { return Index{newPartitions(rdb, Defaults().keep())} }

// batch collects the calls of a script, one for each partition.
type batch struct {
	keys  keys
	calls []wire.Call
	at    map[int]int // index of each partition's call
}

// of returns the call for a partition, whose first key is the partition's prefix. The pointer is valid
// until of is called again.
func (b *batch) of(partition int) *wire.Call {
	i, ok := b.at[partition]
	if !ok {
		if b.at == nil {
			b.at = map[int]int{}
		}
		i = len(b.calls)
		b.at[partition] = i
		b.calls = append(b.calls, wire.Call{Keys: []string{b.keys.prefix(partition)}})
	}
	return &b.calls[i]
}

// add adds the arguments for an entry to the call for a partition.
func (b *batch) add(partition int, e schedule.Entry) {
	call := b.of(partition)
	call.Args = append(call.Args, packed(e.ID), e.Next.UnixMilli())
}

// Add adds entries of events that the index lacks or has with a later time, and returns their
// number.
func (x Index) Add(ctx context.Context, entries []schedule.Entry) (added int, err error) {
	known, err := x.partitioning(ctx)
	if err != nil {
		return 0, err
	}
	b := batch{keys: x.keys}
	for _, e := range entries {
		call := b.of(schedule.Partition(e.ID, known.newest))
		if len(call.Args) == 0 {
			call.Args = append(call.Args, len(known.former))
		}
		for _, f := range known.former {
			call.Keys = append(call.Keys, x.keys.prefix(schedule.Partition(e.ID, f.count)))
		}
		call.Args = append(call.Args, packed(e.ID), e.Next.UnixMilli())
	}
	replies, err := x.rdb.RunEach(ctx, addScript(), b.calls)
	for _, r := range replies {
		n, _ := r.Int()
		added += n
	}
	return added, store.Failed("add to the index", err)
}

// Move sets the times of events, including those that a process has taken, and adds events that
// the index lacks. An event's old entry may remain, so the event is also looked at then,
// unless the entry is removed.
func (x Index) Move(ctx context.Context, entries []schedule.Entry) error {
	known, err := x.partitioning(ctx)
	if err != nil {
		return err
	}
	b := batch{keys: x.keys}
	for _, e := range entries {
		b.add(schedule.Partition(e.ID, known.newest), e)
	}
	if _, err = x.rdb.RunEach(ctx, moveScript(), b.calls); err == nil && len(known.former) > 0 {
		err = x.remove(ctx, known, entries, 1)
	}
	return store.Failed("move in the index", err)
}

// Remove removes entries whose event a process has taken, or that have the same time.
func (x Index) Remove(ctx context.Context, entries []schedule.Entry) error {
	known, err := x.partitioning(ctx)
	if err == nil {
		err = x.remove(ctx, known, entries, 0)
	}
	return store.Failed("remove from the index", err)
}

// remove removes entries from all partitions that may hold them, except the first few of each.
func (x Index) remove(ctx context.Context, known partitioning, entries []schedule.Entry, without int) error {
	b := batch{keys: x.keys}
	for _, e := range entries {
		for _, p := range known.of(e.ID)[without:] {
			b.add(p, e)
		}
	}
	_, err := x.rdb.RunEach(ctx, removeScript(), b.calls)
	return err
}

// Take takes up to limit entries of a partition for the duration of a lease: first those whose
// earlier lease has expired, then those that are due, each by time. next is when the next entry is due
// or the next lease expires: not after now if more are due already, and zero if the partition is
// empty.
func (x Index) Take(ctx context.Context, partition, limit int, lease time.Duration) (entries []schedule.Entry, next, now time.Time, err error) {
	reply, err := takeScript().Run(ctx, x.rdb, []string{x.keys.prefix(partition)}, limit, lease.Milliseconds()).Slice()
	if err != nil {
		return nil, next, now, store.Failed("take from the index", err)
	}
	list := wire.List(reply)
	now, next = moment(number(list.Text(0))), moment(number(list.Text(1)))
	for _, id := range list.List(2).Texts() {
		entries = append(entries, schedule.Entry{ID: unpacked(id), Next: now.Add(lease)})
	}
	return entries, next, now, nil
}

// Release ends the leases of events that were taken from a partition. Other entries of these
// events stay.
func (x Index) Release(ctx context.Context, partition int, ids []string) error {
	if len(ids) == 0 {
		return nil
	}
	args := make([]any, 0, 2*len(ids))
	for _, id := range ids {
		args = append(args, packed(id), 0) // a time at which no event is due
	}
	err := removeScript().Run(ctx, x.rdb, []string{x.keys.prefix(partition)}, args...).Err()
	return store.Failed("release in the index", err)
}

// InRedis returns those of the events of a partition whose records a Ledger keeps in this Redis.
func (x Index) InRedis(ctx context.Context, partition int, ids []string) (kept []string, err error) {
	pipe, found := x.rdb.Pipeline(), make([]*redis.IntCmd, len(ids))
	for i, id := range ids {
		found[i] = pipe.Exists(ctx, eventKey(x.keys.prefix(partition), id))
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, store.Failed("find records", err)
	}
	for i, id := range ids {
		if found[i].Val() == 1 {
			kept = append(kept, id)
		}
	}
	return kept, nil
}

// Abandon records that a Ledger has replaced the index, and reports whether that is new. Events that are open
// in the table then wait for a process with an Index, which completes it anew.
func (x Index) Abandon(ctx context.Context) (bool, error) {
	n, err := x.rdb.Del(ctx, x.keys.complete()).Result()
	return n > 0, store.Failed("abandon the index", err)
}

// Complete reports whether the index holds all open events: SetComplete was called and nothing has been
// lost since.
func (x Index) Complete(ctx context.Context) (bool, error) {
	is, err := x.rdb.Get(ctx, x.keys.complete()).Result()
	if errors.Is(err, redis.Nil) {
		err = x.rdb.SetNX(ctx, x.keys.complete(), "no", 0).Err()
	}
	return is == "yes", store.Failed("read whether the index is complete", err)
}

// SetComplete records that the index holds all open events. It has no effect if the index was lost
// since the last call of Complete.
func (x Index) SetComplete(ctx context.Context) error {
	err := x.rdb.SetXX(ctx, x.keys.complete(), "yes", 0).Err()
	return store.Failed("note that the index is complete", err)
}
