package cli

import (
	"context"
	"math"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// spareProcessors is how far GOMAXPROCS exceeds the number of processors.
const spareProcessors = 4

// TuneForServing tunes the Go runtime for a process that runs services until ctx ends. GOGC,
// GOMEMLIMIT and GOMAXPROCS in the environment take precedence.
//
// It limits memory, and keeps goroutines that wait for Redis from waiting for those that compute: the
// runtime polls the network when a processor (P) is idle, and otherwise every 10 ms. With a few more Ps
// than the machine has cores, the operating system schedules them instead. Timers under the load of
// another tenant are then at most 6 to 12 ms late in 99 %, without it 5 to 47 ms ('flunq bench --only
// fire' on two busy cores, four runs each).
func (sh *Shell) TuneForServing(ctx context.Context) {
	sh.LimitMemory(ctx)
	if sh.Env("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + spareProcessors)
	}
}

// garbage is how many bytes the heap may grow beyond the live heap, which is 25 to 40 MiB with 10,000
// executions in flight.
const garbage = 192 << 20

// LimitMemory makes the garbage collector run more often while the live heap is large, until ctx ends:
// with the GOGC of package startup, the heap would grow to five times its live size. GOGC and GOMEMLIMIT
// in the environment take precedence.
func (sh *Shell) LimitMemory(ctx context.Context) {
	if sh.Env("GOGC") == "" && sh.Env("GOMEMLIMIT") == "" {
		go limitMemory(ctx)
	}
}

// limitMemory adapts the memory limit to the live heap until ctx ends.
func limitMemory(ctx context.Context) {
	defer debug.SetMemoryLimit(math.MaxInt64) // as before: the environment sets no limit
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	for limit := int64(0); ; {
		metrics.Read(live)
		wanted := int64(live[0].Value.Uint64()) + garbage
		// Setting the limit stops the world for a moment: ignore small changes.
		if wanted > limit+limit/8 || wanted < limit-limit/8 {
			limit = wanted
			debug.SetMemoryLimit(limit)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
