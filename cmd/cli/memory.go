package cli

import (
	"context"
	"math"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"flunq.io/flunq/sim"
)

// Bounds of the memory limit of a serving process: servingFactor times the live heap, at
// least servingMemory and at most servingHeadroom beyond the live heap. With 10,000
// executions in flight 25 to 40 MiB are live; with GOGC as package startup sets it the heap
// would grow to five times that.
const (
	servingMemory   = 192 << 20
	servingFactor   = 2
	servingHeadroom = 192 << 20
)

// spareProcessors is how many goroutines may run concurrently beyond the number of processors.
const spareProcessors = 4

// TuneForServing tunes the Go runtime for a process that runs services until ctx ends. GOGC,
// GOMEMLIMIT and GOMAXPROCS in the environment take precedence.
//
// It limits memory: the garbage collector runs more often near the limit. It also keeps
// goroutines that wait for Redis from waiting for those that compute: the runtime polls the
// network when a processor (P) is idle, and otherwise every 10 ms. With a few more Ps than
// the machine has cores, the operating system schedules them instead.
func (sh *Shell) TuneForServing(ctx context.Context) {
	if sh.Env("GOGC") == "" && sh.Env("GOMEMLIMIT") == "" {
		go bound(ctx, servingMemory, servingFactor, servingHeadroom)
	}
	if sh.Env("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + spareProcessors)
	}
}

// Bounds of a process that runs simulations, with the same meaning.
const (
	simulationMemory   = 96 << 20
	simulationFactor   = 5
	simulationHeadroom = 256 << 20
)

// TuneForSimulations tunes the garbage collector for a process that runs one simulation
// after another. GOGC and GOMEMLIMIT in the environment take precedence.
func (sh *Shell) TuneForSimulations(ctx context.Context) {
	if sh.Env("GOGC") != "" {
		return
	}
	debug.SetGCPercent(sim.GCPercent)
	if sh.Env("GOMEMLIMIT") == "" {
		go bound(ctx, simulationMemory, simulationFactor, simulationHeadroom)
	}
}

// bound adapts the memory limit to the live heap until ctx ends: the limit is the live heap
// multiplied by times, but at least little, and at most headroom above the live heap.
func bound(ctx context.Context, little, times, headroom int64) {
	debug.SetMemoryLimit(little)
	defer debug.SetMemoryLimit(math.MaxInt64) // as before: the environment sets no limit
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
		// Setting the limit stops the world for a moment: ignore small changes.
		if wanted > limit+limit/8 || wanted < limit-limit/8 || wanted == little && wanted != limit {
			limit = wanted
			debug.SetMemoryLimit(limit)
		}
	}
}
