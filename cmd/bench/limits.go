package bench

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/store/wire"
)

// limits measures bare commands such as the services send. The engine can exceed a limit only by sending
// fewer: a worker handles several messages of an execution in one script.
type limits struct{ *scenarioRun }

func (s *scenarioRun) limits() limits { return limits{s} }

// measure returns the rate of bare commands. One client sends pipelines, each after the
// reply to the previous one.
func (l limits) measure(ctx context.Context, what string, n int, measure func(limits, context.Context, int) (time.Duration, error)) (float64, error) {
	once := func(n int) (float64, error) {
		if err := l.fresh(ctx); err != nil {
			return 0, err
		}
		took, err := measure(l, ctx, n)
		if err != nil {
			return 0, fmt.Errorf("measure %s: %w", what, err)
		}
		return perSecond(n, took), nil
	}
	l.report("the limit: "+what, 0)
	rate, err := once(n)
	if err != nil || l.opts.Quick {
		return rate, err
	}
	l.report("the limit: "+what, 0.5)
	return once(min(max(n, int(rate*l.opts.Duration.Seconds()/4)), maxRaw))
}

const (
	maxRaw   = 200_000
	rawGroup = "raw"
)

// members returns the timers to set, as the engine writes them.
func (l limits) members(n int) []string {
	out := make([]string, n)
	at := time.Now().Add(24 * time.Hour)
	for i := range out {
		out[i] = string(event.Encode(l.timer(i, at.Add(time.Duration(i)*time.Millisecond))))
	}
	return out
}

// rawSet sends the ZADD of each timer, in pipelines.
func (l limits) rawSet(ctx context.Context, n int) (time.Duration, error) {
	members, key := l.members(n), l.rawKey("timers")
	began := time.Now()
	for from := 0; from < n; from += batch {
		pipe := l.rdb.Pipeline()
		for i := from; i < min(n, from+batch); i++ {
			pipe.ZAdd(ctx, key, redis.Z{Score: float64(began.Unix() + int64(i)), Member: members[i]})
		}
		if _, err := pipe.Exec(ctx); err != nil {
			return 0, err
		}
	}
	return time.Since(began), nil
}

// rawRegister reads the events, sends the ZADD of each timer and acknowledges.
func (l limits) rawRegister(ctx context.Context, n int) (time.Duration, error) {
	members, key := l.members(n), l.rawKey("timers")
	at := time.Now()
	if err := l.publish(ctx, n, func(i int) event.Event { return l.scheduled(i, at) }); err != nil {
		return 0, err
	}
	done := 0
	return l.consume(ctx, n, func(pipe redis.Pipeliner, _ string) {
		pipe.ZAdd(ctx, key, redis.Z{Score: float64(at.Unix() + int64(done)), Member: members[done]})
		done++
	}, true)
}

// consume reads the stream of the tenant to its end and sends the commands for each entry.
func (l limits) consume(ctx context.Context, n int, each func(pipe redis.Pipeliner, entry string), ack bool) (time.Duration, error) {
	stream := l.streamKey()
	if err := l.rdb.XGroupCreate(ctx, stream, rawGroup, "0").Err(); err != nil {
		return 0, err
	}
	began := time.Now()
	for done := 0; done < n; {
		read, err := l.rdb.XReadGroup(ctx, &redis.XReadGroupArgs{
			Group: rawGroup, Consumer: rawGroup, Streams: []string{stream, ">"}, Count: batch, Block: -1,
		}).Result()
		if err != nil {
			return 0, err
		}
		pipe := l.rdb.Pipeline()
		var ids []string
		for _, entry := range read[0].Messages {
			ids = append(ids, entry.ID)
			each(pipe, entry.ID)
		}
		if ack {
			pipe.XAck(ctx, stream, rawGroup, ids...)
		}
		if _, err := pipe.Exec(ctx); err != nil {
			return 0, err
		}
		done += len(ids)
	}
	return time.Since(began), nil
}

// rawFireScript removes timers and publishes their events. KEYS: timers, stream. ARGV: the number
// of an event's fields, the fields, then the members.
//
//nolint:gochecknoglobals // scripts are constants that go-redis wraps
var rawFireScript = redis.NewScript(`
local n, now = tonumber(ARGV[1]), redis.call('TIME')
for i = n + 2, #ARGV do
  if redis.call('ZSCORE', KEYS[1], ARGV[i]) then
    redis.call('XADD', KEYS[2], '*', unpack(ARGV, 2, n + 1))
    redis.call('ZREM', KEYS[1], ARGV[i])
  end
end
return now[1]
`)

// rawFire removes due timers from a set and publishes their events, one script per batch.
func (l limits) rawFire(ctx context.Context, n int) (time.Duration, error) {
	key := l.rawKey("timers")
	if err := l.set(ctx, key, n, func(i int) time.Time { return time.UnixMicro(int64(i)) }); err != nil {
		return 0, err
	}
	began := time.Now()
	for done := 0; done < n; {
		due, err := l.rdb.ZRangeWithScores(ctx, key, 0, batch-1).Result()
		if err != nil {
			return 0, err
		}
		if err := l.rawPublish(ctx, key, due); err != nil {
			return 0, err
		}
		done += len(due)
	}
	return time.Since(began), nil
}

// rawPublish fires timers.
func (l limits) rawPublish(ctx context.Context, key string, due []redis.Z) error {
	fields := l.fired().Fields()
	args := append([]any{len(fields)}, wire.Args(fields)...)
	for _, entry := range due {
		args = append(args, entry.Member)
	}
	return rawFireScript.Run(ctx, l.rdb, []string{key, l.streamKey()}, args...).Err()
}

// rawClock fires timers with bare commands: it waits for the next one and fires all that
// are due, with events that identify them.
func (l limits) rawClock(ctx context.Context, p timerSeries) error {
	key := l.rawKey("timers")
	for fired := 0; fired < p.n; {
		if err := pause(ctx, time.Until(p.due(fired).Add(-p.offset))); err != nil {
			return err
		}
		now := strconv.FormatFloat(score(time.Now().Add(p.offset)), 'f', -1, 64)
		due, err := l.rdb.ZRangeByScoreWithScores(ctx, key, &redis.ZRangeBy{Min: "-inf", Max: now, Count: batch}).Result()
		if err != nil {
			return err
		}
		if len(due) == 0 {
			continue
		}
		pipe := l.rdb.TxPipeline()
		for _, entry := range due {
			e := l.fired()
			e.Execution = l.timer(fired, e.Time).Execution
			pipe.XAdd(ctx, &redis.XAddArgs{Stream: l.streamKey(), Values: e.Fields()})
			pipe.ZRem(ctx, key, entry.Member)
			fired++
		}
		if _, err := pipe.Exec(ctx); err != nil {
			return err
		}
	}
	return nil
}

// rawStepScript is a minimal transition: it checks the version, writes the state, an entry
// of the history and an event, and acknowledges the message. KEYS: stream, execution,
// history, output stream. ARGV: group, entry, then the event's fields.
//
//nolint:gochecknoglobals // see rawFireScript
var rawStepScript = redis.NewScript(`
local version = redis.call('HGET', KEYS[2], 'version') or '0'
if tonumber(version) < 0 then return 1 end
redis.call('HSET', KEYS[2], 'version', version + 1, 'status', 'running')
redis.call('XADD', KEYS[3], '*', unpack(ARGV, 3))
redis.call('XADD', KEYS[4], '*', unpack(ARGV, 3))
redis.call('XACK', KEYS[1], ARGV[1], ARGV[2])
return 0
`)

// rawStep reads events and performs a transition for each, one pipeline per batch.
func (l limits) rawStep(ctx context.Context, n int) (time.Duration, error) {
	if err := l.publish(ctx, n, l.requested); err != nil {
		return 0, err
	}
	// A pipeline cannot load a script that it calls by hash.
	if err := rawStepScript.Load(ctx, l.rdb).Err(); err != nil {
		return 0, err
	}
	done := 0
	return l.consume(ctx, n, func(pipe redis.Pipeliner, entry string) {
		const executions = 1000
		name := l.rawKey(strconv.Itoa(done % executions))
		args := append([]any{rawGroup, entry}, wire.Args(l.requested(done).Fields())...)
		rawStepScript.EvalSha(ctx, pipe, []string{l.streamKey(), name, name + ":history", l.rawKey("stream")}, args...)
		done++
	}, false)
}
