package agenda

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"flunq.io/flunq/engine/schedule"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/wire"
)

// Options of a Ledger.
type Options struct {
	// Retention is how long FIRED and CANCELLED events are kept so that a repeated request
	// finds them; 1ms or more.
	Retention time.Duration
	// MaxDelay is how far ahead events may be scheduled. A former number of partitions is
	// remembered for that time plus Retention, since it may be needed to find events.
	MaxDelay time.Duration
	// Streams makes Claim itself publish events whose topic names a Redis stream, in the same
	// step in which it claims them: exactly once.
	Streams bool
}

func (o Options) keep() time.Duration { return o.MaxDelay + o.Retention }

// Defaults are the options of an ordinary deployment.
func Defaults() Options {
	return Options{Retention: 15 * 24 * time.Hour, MaxDelay: schedule.DefaultLimits().MaxDelay}
}

// Ledger keeps scheduled events in Redis.
type Ledger struct {
	*Partitions

	opts Options
}

// NewLedger returns the ledger in rdb.
func NewLedger(rdb *wire.Client, opts Options) Ledger {
	return Ledger{newPartitions(rdb, opts.keep()), opts}
}

// attempts is the maximum number of attempts at something that other processes may change
// concurrently.
const attempts = 100

// Place stores SCHEDULED events. An event whose id exists, in any partition, is left unchanged.
func (l Ledger) Place(ctx context.Context, events []schedule.Event) ([]schedule.Placed, error) {
	out := make([]schedule.Placed, len(events))
	todo := numbers(len(events)) // of the events without a reply
	for range attempts {
		known, err := l.partitioning(ctx)
		if err != nil {
			return nil, err
		}
		if todo, err = l.place(ctx, known, events, todo, out); err != nil || len(todo) == 0 {
			return out, err
		}
		l.forget()
	}
	return nil, fmt.Errorf("store events: %w at every attempt", schedule.ErrPartitions)
}

// place stores some of the events. It returns those that were refused because known is out of date.
func (l Ledger) place(ctx context.Context, known partitioning, events []schedule.Event, todo []int, out []schedule.Placed) (refused []int, err error) {
	const limit = 64 // events per call, see insert in partition.lua: each takes Redis 8 to 25 µs
	partition := make([]int, len(events))
	for _, i := range todo {
		partition[i] = schedule.Partition(events[i].ID, known.newest)
	}
	slices.SortFunc(todo, func(a, b int) int {
		return cmp.Or(partition[a]-partition[b], events[b].Next.Compare(events[a].Next), a-b)
	})
	parts := slices.Collect(slices.Chunk(todo, limit))
	calls := make([]wire.Call, len(parts))
	for n, part := range parts {
		keys, args := []string{l.keys.partitions()}, []any{known.epoch}
		var records []string
		for _, i := range part {
			e := &events[i]
			prefix := l.keys.prefix(partition[i])
			keys, records = append(keys, prefix), append(records, eventKey(prefix, e.ID))
			for _, f := range known.former {
				records = append(records, eventKey(l.keys.prefix(schedule.Partition(e.ID, f.count)), e.ID))
			}
			args = append(args, packed(e.ID), e.Next.UnixMilli(), encode(e))
		}
		calls[n] = wire.Call{Keys: append(keys, records...), Args: args}
	}
	replies, _ := l.rdb.RunEach(ctx, placeScript(), calls)
	for n, reply := range replies {
		stored, err := reply.Slice()
		switch {
		case redis.HasErrorPrefix(err, "EPOCH"):
			refused = append(refused, parts[n]...)
		case redis.IsOOMError(err):
			return nil, fmt.Errorf("%w: %w", schedule.ErrFull, err)
		case err != nil:
			return nil, store.Failed("store events", err)
		}
		for at, one := range stored {
			i := parts[n][at]
			record, exists := one.(string)
			out[i] = schedule.Placed{Event: &events[i], Created: !exists}
			if exists {
				e, err := decode(events[i].ID, record)
				if err != nil {
					return nil, err
				}
				out[i].Event = &e
			}
		}
	}
	return refused, nil
}

// Get returns events in the order of their ids, with nil for each that does not exist.
func (l Ledger) Get(ctx context.Context, ids []string) ([]*schedule.Event, error) {
	out := make([]*schedule.Event, len(ids))
	found, err := l.find(ctx, ids)
	if err != nil {
		return nil, err
	}
	for i := range found {
		if found[i].ID != "" {
			out[i] = &found[i].Event
		}
	}
	return out, nil
}

// located is an event and its partition.
type located struct {
	schedule.Event

	partition int
	former    int // the former number of partitions that finds it there; 0: the newest number does
}

// find reads events from all partitions that may hold them. Events that do not exist have an
// empty ID.
func (l Ledger) find(ctx context.Context, ids []string) ([]located, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	for range attempts {
		known, err := l.partitioning(ctx)
		if err != nil {
			return nil, err
		}
		var keys []string
		places := make([][]int, len(ids))
		for i, id := range ids {
			places[i] = known.of(id)
			for _, p := range places[i] {
				keys = append(keys, eventKey(l.keys.prefix(p), id))
			}
		}
		pipe := l.rdb.Pipeline()
		epoch, records := pipe.HGet(ctx, l.keys.partitions(), "epoch"), pipe.MGet(ctx, keys...)
		_, err = pipe.Exec(ctx)
		switch {
		case err != nil && epoch.Err() != redis.Nil: //nolint:errorlint // go-redis returns it unwrapped
			return nil, store.Failed("read events", err)
		case epoch.Val() != known.epoch:
			l.forget()
			continue
		}
		out, replies := make([]located, len(ids)), wire.List(records.Val())
		for i, id := range ids {
			for n, p := range places[i] {
				if record := replies.Text(n); record != "" {
					e, err := decode(id, record)
					if err != nil {
						return nil, err
					}
					out[i] = located{e, p, known.formerCount(id, p)}
				}
			}
			replies = replies[len(places[i]):]
		}
		return out, nil
	}
	return nil, fmt.Errorf("read events: %w at every attempt", schedule.ErrPartitions)
}

// Change applies a change to an event if Change.Allows it in the event's current state.
func (l Ledger) Change(ctx context.Context, id string, change schedule.Change, now time.Time) (schedule.Outcome, error) {
	for range attempts {
		found, err := l.find(ctx, []string{id})
		if err != nil {
			return schedule.Outcome{}, err
		}
		e := found[0]
		if e.ID == "" {
			return schedule.Outcome{Code: schedule.NotFound, Message: "there is no event " + id}, nil
		}
		if refused, ok := change.Allows(&e.Event); !ok {
			return refused, nil
		}
		changed := change.Apply(e.Event, now)
		due, expiry := "", strconv.FormatInt(now.Add(l.opts.Retention).UnixMilli(), 10)
		if changed.Status.Open() {
			due, expiry = strconv.FormatInt(changed.Next.UnixMilli(), 10), ""
		}
		keys := []string{l.keys.prefix(e.partition), eventKey(l.keys.prefix(e.partition), id), l.keys.partitions()}
		done, err := changeScript().Run(ctx, l.rdb, keys,
			packed(id), e.Version, e.Next.UnixMilli(), encode(&changed), due, expiry, e.former, now.UnixMilli()).Int()
		if err != nil {
			return schedule.Outcome{}, store.Failed("change event "+id, err)
		}
		if done == 1 {
			return schedule.Outcome{Event: &changed}, nil
		}
	}
	return schedule.Outcome{}, fmt.Errorf("change event %s: other processes changed it at every attempt", id)
}

// Claim makes due events of a partition FIRING, or publishes them, and returns them.
func (l Ledger) Claim(ctx context.Context, claim schedule.Claim) (schedule.Claimed, error) {
	owner, keys := line(claim.Owner), []string{l.keys.prefix(claim.Partition)}
	if l.opts.Streams {
		keys = append(keys, l.keys.streams())
	}
	reply, err := claimScript().Run(ctx, l.rdb, keys,
		claim.Limit, owner[:len(owner)-1], claim.Lease.Milliseconds(), l.opts.Retention.Milliseconds(),
		"source", schedule.Source, "specversion", schedule.SpecVersion, "type", schedule.FiredType).Slice()
	if err != nil {
		return schedule.Claimed{}, store.Failed("claim events", err)
	}
	list := wire.List(reply)
	out := schedule.Claimed{Now: moment(number(list.Text(0))), Next: moment(number(list.Text(1)))}
	events := list.List(2)
	out.Events = make([]schedule.Event, len(events)/2)
	for i := range out.Events {
		if out.Events[i], err = decode(unpacked(events.Text(2*i)), events.Text(2*i+1)); err != nil {
			return out, err
		}
	}
	for fired := list.List(3); len(fired) > 0; fired = fired[5:] {
		out.Fired = append(out.Fired, schedule.Event{
			ID: unpacked(fired.Text(0)), Status: schedule.Fired, Owner: claim.Owner, Attempts: int(fired.Number(3)), Next: moment(number(fired.Text(4))),
			Content: schedule.Content{Due: moment(number(fired.Text(1))), Topic: fired.Text(2)},
		})
	}
	return out, nil
}

// Settle records the outcomes, at now, of publications of one partition.
func (l Ledger) Settle(ctx context.Context, partition int, ends []schedule.Settled, now time.Time) ([]bool, error) {
	if len(ends) == 0 {
		return nil, nil
	}
	keys, args := []string{l.keys.prefix(partition)}, []any{now.UnixMilli(), now.Add(l.opts.Retention).UnixMilli()}
	for i := range ends {
		end := &ends[i]
		s := state{
			Status: end.Status, Version: end.Version + 1, Attempts: end.Attempts, Failures: end.Failures,
			Updated: millis(now), Error: end.Error,
		}
		switch end.Status {
		case schedule.Scheduled:
			s.Next = millis(end.Next)
		case schedule.Firing:
			s.Lease = millis(end.Next)
		case schedule.Fired:
			s.Published = millis(now)
		case schedule.Cancelled, schedule.Dead:
		}
		keys = append(keys, eventKey(keys[0], end.ID))
		args = append(args, packed(end.ID), end.Version, string(end.Status), millis(end.Next), line(s))
	}
	reply, err := settleScript().Run(ctx, l.rdb, keys, args...).BoolSlice()
	return reply, store.Failed("settle events", err)
}
