package bench

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"flunq.io/flunq/engine/agenda"
	"flunq.io/flunq/engine/schedule"
	"flunq.io/flunq/engine/scheduler"
	"flunq.io/flunq/engine/store/wire"
)

// The bare loops of the scheduler: each claims events of its partition, publishes them and
// finishes them. Each partition has a sorted set of ids by due time, one by the end of leases,
// and a record of each event, its status, due time and payload.

// rawPartitions is the number of partitions, each with one loop.
const rawPartitions = 4

// rawClaimScript claims due events. KEYS: the ids by due time, those by lease, and the key
// prefix of records. ARGV: how many, and the lease in milliseconds. It returns when
// the next event is due, the ids and the records.
//
//nolint:gochecknoglobals // see rawFireScript
var rawClaimScript = redis.NewScript(`
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local ids = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now, 'LIMIT', 0, ARGV[1])
local records, leases = {}, {}
for i, id in ipairs(ids) do
  local record = string.sub(redis.call('GET', KEYS[3] .. id), 2)
  redis.call('SET', KEYS[3] .. id, 'C' .. record)
  records[i], leases[2 * i - 1], leases[2 * i] = record, now + ARGV[2], id
end
if #ids > 0 then
  redis.call('ZREM', KEYS[1], unpack(ids))
  redis.call('ZADD', KEYS[2], unpack(leases))
end
return {redis.call('ZRANGE', KEYS[1], 0, 0, 'WITHSCORES')[2] or '', ids, records}
`)

// rawFinishScript finishes events. KEYS: the ids by lease, and the key prefix of records.
// ARGV: the time in milliseconds when they expire, then the ids.
//
//nolint:gochecknoglobals // see rawFireScript
var rawFinishScript = redis.NewScript(`
for i = 2, #ARGV do
  local key = KEYS[2] .. ARGV[i]
  redis.call('SET', key, 'F' .. string.sub(redis.call('GET', key), 2), 'PXAT', ARGV[1])
end
redis.call('ZREM', KEYS[1], unpack(ARGV, 2))
`)

// rawEvent is an event of the bare loops.
type rawEvent struct{ id, due, payload string }

// rawSchedule fires events that are due to a stream.
func (l limits) rawSchedule(ctx context.Context, n int) (time.Duration, error) {
	return l.rawFirings(ctx, n, l.rawAppend)
}

// rawFirings publishes events that are due.
func (l limits) rawFirings(ctx context.Context, n int, publish func(context.Context, []rawEvent) error) (time.Duration, error) {
	now := time.Now()
	if err := l.rawEvents(ctx, n, func(i int) time.Time { return now.Add(time.Duration(i-n) * time.Millisecond) }); err != nil {
		return 0, err
	}
	began := time.Now()
	err := l.rawLoops(ctx, publish)
	return time.Since(began), err
}

// rawEvents stores events.
func (l limits) rawEvents(ctx context.Context, n int, due func(int) time.Time) error {
	payload := string(make([]byte, payloadBytes))
	return l.send(ctx, n, func(pipe redis.Pipeliner, i int) {
		id, at := scheduledID(i), due(i).UnixMilli()
		in := l.rawPartition(schedule.Partition(id, rawPartitions))
		pipe.Set(ctx, in[2]+id, "S"+strconv.FormatInt(at, 10)+payload, 0)
		pipe.ZAdd(ctx, in[0], redis.Z{Score: float64(at), Member: id})
	})
}

// rawPartition returns the keys of a partition.
func (l limits) rawPartition(p int) []string {
	prefix := l.rawKey(strconv.Itoa(p))
	return []string{prefix + ":due", prefix + ":leases", prefix + ":record:"}
}

// rawLoops runs the loops until all events are published.
func (l limits) rawLoops(ctx context.Context, publish func(context.Context, []rawEvent) error) error {
	errs := make([]error, rawPartitions)
	var loops sync.WaitGroup
	for p := range errs {
		loops.Go(func() { errs[p] = l.rawLoop(ctx, l.rawPartition(p), publish) })
	}
	loops.Wait()
	return errors.Join(errs...)
}

func (l limits) rawLoop(ctx context.Context, keys []string, publish func(context.Context, []rawEvent) error) error {
	opts := scheduler.DefaultOptions()
	expiry := time.Now().Add(time.Hour).UnixMilli()
	for {
		reply, err := rawClaimScript.Run(ctx, l.rdb, keys, opts.Batch, opts.Retry.Lease.Milliseconds()).Slice()
		if err != nil {
			return err
		}
		list := wire.List(reply)
		ids, records := list.List(1), list.List(2)
		if len(ids) == 0 {
			next, err := strconv.ParseInt(list.Text(0), 10, 64)
			if err != nil {
				return nil //nolint:nilerr // none is left
			}
			if err := pause(ctx, time.Until(time.UnixMilli(next))); err != nil {
				return err
			}
			continue
		}
		events := make([]rawEvent, len(ids))
		for i := range events {
			const digits = 13 // of milliseconds
			record := records.Text(i)
			events[i] = rawEvent{ids.Text(i), record[:digits], record[digits:]}
		}
		if err := publish(ctx, events); err != nil {
			return err
		}
		if err := rawFinishScript.Run(ctx, l.rdb, keys[1:], append([]any{expiry}, ids...)...).Err(); err != nil && !errors.Is(err, redis.Nil) {
			return err
		}
	}
}

// rawAppend appends events to a stream as the scheduler does.
func (l limits) rawAppend(ctx context.Context, events []rawEvent) error {
	pipe := l.rdb.Pipeline()
	for _, e := range events {
		ms, _ := strconv.ParseInt(e.due, 10, 64) // written by rawEvents
		pipe.XAdd(ctx, &redis.XAddArgs{Stream: agenda.StreamKey(l.rdb, schedulerTopic), Values: []any{
			"id", e.id, "source", schedule.Source, "specversion", schedule.SpecVersion, "type", schedule.FiredType,
			"time", time.UnixMilli(ms).UTC().Format(time.RFC3339Nano), "key", e.id, "attempt", "1", "data", e.payload,
		}})
	}
	_, err := pipe.Exec(ctx)
	return err
}
