package timer_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"flunq.io/flunq/engine/event"
)

// Two services process a backlog: timers are set and cancelled in the order of their
// events, and an invalid one is dead-lettered.
func TestBacklog(t *testing.T) {
	t.Parallel()
	const timers, apart = 3000, 7 // every seventh timer is cancelled and followed by an unrelated event
	w := newBench(t, 2)
	due := time.Now().Add(24 * time.Hour)
	pipe := w.rdb.Pipeline()
	add := func(id string, typ event.Type, data []byte) {
		e := event.Event{ID: id, Source: "/flunq/worker", Type: typ, Time: due.UTC(), Tenant: tenant, Execution: id, Data: data}
		pipe.XAdd(t.Context(), &redis.XAddArgs{Stream: streamKey, Values: e.Fields()})
	}
	for i := range timers {
		one := timerRequest(i, due)
		add(one.Execution, event.TimerScheduled, event.Encode(one))
		if i%apart == 0 {
			add(one.Execution+"/back", event.TimerCancelled, event.Encode(one))
			add(one.Execution+"/other", event.TaskCompleted, nil)
		}
		if i == timers/2 {
			add("odd", event.TimerScheduled, []byte(`"soon"`))
		}
	}
	_, err := pipe.Exec(t.Context())
	must(t, err)
	w.run(t, func() bool {
		groups := w.rdb.XInfoGroups(t.Context(), streamKey).Val()
		return len(groups) == 1 && groups[0].Lag == 0 && groups[0].Pending == 0
	})
	set := map[string]bool{}
	for _, member := range w.rdb.ZRange(t.Context(), timersKey, 0, -1).Val() {
		set[member] = true
	}
	for i := range timers {
		if one := timerRequest(i, due); set[string(event.Encode(one))] == (i%apart == 0) {
			t.Fatalf("timer %d: set is %v", i, i%apart == 0)
		}
	}
	if n := w.rdb.XLen(t.Context(), streamKey+":dlq").Val(); n != 1 {
		t.Errorf("%d dead letters, want one", n)
	}
}
