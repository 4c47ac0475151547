//go:build unix

package torture_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/store"
)

// A Redis that syncs each write is killed repeatedly while a client requests timers, and
// repeats each request without a reply: no timer is lost, early or published twice.
func TestTimersDurable(t *testing.T) {
	w := begin(t, "--appendonly", "yes", "--appendfsync", "always")
	n, span := size(400, 10_000), size(time.Second, 10*time.Second)
	doing := map[string]int{"kill": size(2, 10), "kill redis": size(3, 14)}
	w.run(2, role{Timers: 2, Block: time.Second})
	from := w.now().Add(time.Second)
	due := w.plan("t", n, from, span)
	repeated := make(chan int)
	go func() { repeated <- w.insist(due, span) }()
	w.during(from.Add(span).Sub(w.now()), doing, func(what string) {
		if what == "kill" {
			w.kill(w.random(2))
			return
		}
		w.server.Kill()
		w.server.Restart(t)
	})
	again := <-repeated
	w.settle(store.TimerGroup)

	v := compare(due, w.firings(tenant))
	w.report("redis kills=%d timers=%d asked for again=%d: %v", doing["kill redis"], n, again, v)
	w.faultless(v)
	w.noDeadLetters()
}

// insist requests timers over a span of time. It repeats each request until Redis has
// confirmed it, and returns how many it had to repeat.
func (w *environment) insist(ts timers, span time.Duration) (repeated int) {
	const atOnce, pause = 20, 20 * time.Millisecond
	rdb, ids := w.server.Client(w.t), ts.sorted()
	for len(ids) > 0 {
		part := ids[:min(atOnce, len(ids))]
		pipe := rdb.Pipeline()
		for _, id := range part {
			timer := ts.timer(id)
			e := event.Event{
				ID: id + "/ask", Source: "/torture", Type: event.TimerScheduled, Time: timer.FireAt, Tenant: tenant,
				Workflow: timer.Workflow, Execution: id, Task: timer.TaskID, Data: event.Encode(timer),
			}
			pipe.XAdd(w.t.Context(), &redis.XAddArgs{Stream: streamKey, Values: e.Fields()})
		}
		if _, err := pipe.Exec(w.t.Context()); err != nil {
			if repeated += len(part); w.t.Failed() || w.t.Context().Err() != nil {
				return repeated
			}
			time.Sleep(pause)
			continue
		}
		ids = ids[len(part):]
		time.Sleep(span * atOnce / time.Duration(len(ts)))
	}
	return repeated
}
