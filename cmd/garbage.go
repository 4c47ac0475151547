package cmd

import (
	"context"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"flunq.io/flunq/sim"
)

// swift lets the collector of garbage work less often: engines make much of it
// and keep little. Whoever sets GOGC decides.
func (sh *shell) swift() {
	const percent = 400
	if sh.Env("GOGC") == "" {
		debug.SetGCPercent(percent)
	}
}

// What a serving process may take: so much, or this many times what it keeps, and no
// more than spareMemory beyond that. With
// 10,000 executions in flight it keeps 25 to 40 MiB, which swift alone would let grow
// to five times that.
const (
	slightMemory   = 64 << 20
	roomy          = 2
	headroomMemory = 192 << 20
)

// limitMemory keeps the memory of a process small that runs for long: the collector works
// as swift has it while there is room, and more often where that would take much.
// Whoever sets GOGC or GOMEMLIMIT decides.
func (sh *shell) limitMemory(ctx context.Context) {
	if sh.Env("GOGC") == "" && sh.Env("GOMEMLIMIT") == "" {
		go bound(ctx, slightMemory, roomy, headroomMemory)
	}
}

// What a process may take that runs worlds: so much, or this many times what it keeps.
const (
	simulationMemory   = 96 << 20
	simulationFactor   = 5
	simulationHeadroom = 256 << 20
)

// limitSimulationMemory has the collector work as suits a process that runs one world after the
// other. Whoever sets GOGC or GOMEMLIMIT decides.
func (sh *shell) limitSimulationMemory(ctx context.Context) {
	if sh.Env("GOGC") != "" {
		return
	}
	debug.SetGCPercent(sim.Garbage)
	if sh.Env("GOMEMLIMIT") == "" {
		go bound(ctx, simulationMemory, simulationFactor, simulationHeadroom)
	}
}

// bound bounds what the process takes, until ctx ends: to what is little, or to so many
// times what it keeps, and no more than spare beyond that.
func bound(ctx context.Context, little, times, headroom int64) {
	before := debug.SetMemoryLimit(little)
	defer debug.SetMemoryLimit(before)
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	kept := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	for limit := little; ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		metrics.Read(kept)
		live := int64(kept[0].Value.Uint64())
		wanted := max(little, min(times*live, live+headroom))
		// Setting it stops the world for a moment: small changes are none.
		if wanted > limit+limit/8 || wanted < limit-limit/8 || wanted == little && wanted != limit {
			limit = wanted
			debug.SetMemoryLimit(limit)
		}
	}
}
