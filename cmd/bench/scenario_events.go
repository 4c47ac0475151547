package bench

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"flunq.io/flunq/engine/event"
)

// namespace is the namespace of the workflows of the bench.
const namespace = "bench"

// score converts a time to Unix seconds, exact to the microsecond.
func score(at time.Time) float64 { return float64(at.UnixMicro()) / 1e6 }

// send sends commands in pipelines.
func (s *scenarioRun) send(ctx context.Context, n int, nth func(redis.Pipeliner, int)) error {
	for from := 0; from < n; from += page {
		pipe := s.rdb.Pipeline()
		for i := from; i < min(n, from+page); i++ {
			nth(pipe, i)
		}
		if _, err := pipe.Exec(ctx); err != nil {
			return fmt.Errorf("send %d commands: %w", pipe.Len(), err)
		}
	}
	return nil
}

// publish sends events to the stream of the tenant in pipelines.
func (s *scenarioRun) publish(ctx context.Context, n int, nth func(int) event.Event) error {
	return s.send(ctx, n, func(pipe redis.Pipeliner, i int) {
		pipe.XAdd(ctx, &redis.XAddArgs{Stream: s.streamKey(), Values: nth(i).Fields()})
	})
}

// timer returns a timer like that of a wait task.
func (s *scenarioRun) timer(i int, at time.Time) event.Timer {
	return event.Timer{
		Tenant: s.tenant, Workflow: namespace + ".wait", Execution: fmt.Sprintf("x%07d", i), TaskID: "/do/0/pause",
		TaskName: "pause", FireAt: at.UTC(), DurationMS: time.Hour.Milliseconds(), Kind: event.WaitTimer,
	}
}

// scheduled returns the event that requests a timer.
func (s *scenarioRun) scheduled(i int, at time.Time) event.Event {
	t := s.timer(i, at)
	return event.Event{
		ID: t.Execution + "/2", Source: "/flunq/worker", Type: event.TimerScheduled, Time: at.Add(-time.Hour).UTC(),
		Tenant: s.tenant, Workflow: t.Workflow, Execution: t.Execution, Task: t.TaskID, Data: event.Encode(t),
	}
}

// fired returns the event of a timer.
func (s *scenarioRun) fired() event.Event {
	now := time.Now().UTC()
	t := s.timer(0, now)
	return event.Event{
		ID: t.Execution + t.TaskID + "/wait/" + strconv.FormatInt(now.UnixNano(), 10), Source: "/flunq/timer",
		Type: event.TimerFired, Time: now, Tenant: s.tenant, Workflow: t.Workflow, Execution: t.Execution, Task: t.TaskID,
		Data: event.Encode(event.Fired{Timer: t, ScheduledFor: now, FiredAt: now}),
	}
}

// requested returns an event of typical size.
func (s *scenarioRun) requested(i int) event.Event {
	id := fmt.Sprintf("x%07d", i)
	return event.Event{
		ID: id + "/2", Source: "/flunq/worker", Type: event.TaskRequested, Time: time.Now().UTC(),
		Tenant: s.tenant, Workflow: namespace + ".one", Execution: id, Task: "/do/0/t0",
		Data: event.Encode(event.Requested{
			TaskID: "/do/0/t0", TaskName: "t0", TaskType: "set", Input: []byte(`{}`), Config: []byte(`{"set":{"n":1}}`),
		}),
	}
}

// set adds timers to the set of all timers.
func (s *scenarioRun) set(ctx context.Context, key string, n int, due func(int) time.Time) error {
	return s.send(ctx, n, func(pipe redis.Pipeliner, i int) {
		t := s.timer(i, due(i))
		pipe.ZAdd(ctx, key, redis.Z{Score: score(t.FireAt), Member: event.Encode(t)})
	})
}

// pending counts the pending timers of the bench.
func (s *scenarioRun) pending(ctx context.Context) (int, error) {
	n, err := s.rdb.ZCard(ctx, s.timersKey()).Result()
	if err != nil {
		return 0, fmt.Errorf("count the timers: %w", err)
	}
	return int(n - s.before), nil
}
