package cmd

import (
	"context"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// swift lets the collector of garbage work less often: engines make much of it
// and keep little. Whoever sets GOGC decides.
func (sh *shell) swift() {
	const percent = 400
	if sh.Env("GOGC") == "" {
		debug.SetGCPercent(percent)
	}
}

// What a serving process may take: so much, or this many times what it keeps. With
// 10,000 executions in flight it keeps 25 to 40 MiB, which swift alone would let grow
// to five times that.
const (
	slightMemory = 64 << 20
	roomy        = 2
)

// modest keeps the memory of a process small that runs for long: the collector works
// as swift has it while there is room, and more often where that would take much.
// Whoever sets GOGC or GOMEMLIMIT decides.
func (sh *shell) modest(ctx context.Context) {
	if sh.Env("GOGC") != "" || sh.Env("GOMEMLIMIT") != "" {
		return
	}
	before := debug.SetMemoryLimit(slightMemory)
	go func() {
		defer debug.SetMemoryLimit(before)
		tick := time.NewTicker(200 * time.Millisecond)
		defer tick.Stop()
		kept := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
		for limit := int64(slightMemory); ; {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			metrics.Read(kept)
			wanted := max(slightMemory, roomy*int64(kept[0].Value.Uint64()))
			// Setting it stops the world for a moment: small changes are none.
			if wanted > limit+limit/8 || wanted < limit-limit/8 || wanted == slightMemory && wanted != limit {
				limit = wanted
				debug.SetMemoryLimit(limit)
			}
		}
	}()
}
