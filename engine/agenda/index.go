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
	*partitions
}

// NewIndex returns the index in rdb.
func NewIndex(rdb *wire.Client) Index { return Index{newPartitions(rdb, Defaults().keep())} }

// Add adds entries of events that the index lacks or has with a later time, and returns their
// number.
func (x Index) Add(ctx context.Context, entries []schedule.Entry) (added int, err error) {
	known, err := x.partitioning(ctx)
	if err != nil || len(entries) == 0 {
		return 0, err
	}
	b := batch{keys: x.keys}
	for _, e := range entries {
		p := schedule.Partition(e.ID, known.newest)
		r := b.of(p)
		if len(r.args) == 0 {
			r.args = append(r.args, len(known.former))
		}
		for _, f := range known.former {
			r.keys = append(r.keys, x.keys.prefix(schedule.Partition(e.ID, f.count)))
		}
		r.args = append(r.args, packed(e.ID), e.Next.UnixMilli())
	}
	replies, err := callAll(ctx, x.rdb, addScript, b.requests)
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
	if err != nil || len(entries) == 0 {
		return err
	}
	b := batch{keys: x.keys}
	for _, e := range entries {
		b.of(schedule.Partition(e.ID, known.newest)).entry(e)
	}
	if _, err = callAll(ctx, x.rdb, moveScript, b.requests); err == nil && len(known.former) > 0 {
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
			b.of(p).entry(e)
		}
	}
	if len(b.requests) == 0 {
		return nil
	}
	_, err := callAll(ctx, x.rdb, removeScript, b.requests)
	return err
}

// Take takes up to limit entries of a partition for the duration of a lease: those that are due,
// and those whose earlier lease has expired, the oldest first. next is when the next entry is due
// or the next lease expires: not after now if more are due already, and zero if the partition is
// empty.
func (x Index) Take(ctx context.Context, partition, limit int, lease time.Duration) (entries []schedule.Entry, next, now time.Time, err error) {
	reply, err := takeScript.Run(ctx, x.rdb, []string{x.keys.prefix(partition)}, limit, lease.Milliseconds()).Slice()
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
	b := batch{keys: x.keys}
	for _, id := range ids {
		b.of(partition).entry(schedule.Entry{ID: id, Next: time.UnixMilli(0)}) // a time at which no event is due
	}
	_, err := callAll(ctx, x.rdb, removeScript, b.requests)
	return store.Failed("release in the index", err)
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
