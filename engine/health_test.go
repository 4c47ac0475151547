package engine_test

import (
	"testing"
	"time"

	"flunq.io/flunq/engine/store/wire"
)

// Idle workers and timer services return from their steps, even if they only wait while
// another one reads, so they stay healthy.
func TestIdleServicesAreHealthy(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, rdb wire.Redis) {
		e := newEngine(t, rdb, "idle")
		run(t, e)
		lives := func(since time.Time) bool {
			seen := 0
			for _, h := range e.Health() {
				if h.Kind != "worker" && h.Kind != "timer" {
					continue
				}
				if !h.Since.After(since) {
					return false
				}
				seen++
			}
			return seen > 0
		}
		began := time.Now()
		for until := began.Add(patience); !lives(began.Add(200 * time.Millisecond)); {
			if time.Now().After(until) {
				t.Fatalf("not all have come back from a step: %+v", e.Health())
			}
			time.Sleep(5 * time.Millisecond)
		}
	})
}
