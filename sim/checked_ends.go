package sim

import (
	"context"
	"hash/maphash"
	"sync"
	"time"

	"flunq.io/flunq/sim/invariant"
)

// checkedEnds caches ends of executions that violate no invariant. The invariants depend only
// on what Redis stores of an execution and on how late its timers may be, so an identical end
// need not be checked twice: most runs of a search are alike. It is safe for concurrent use.
type checkedEnds struct {
	seed maphash.Seed

	mu    sync.Mutex
	ends  map[checkedKey]checkedEnd
	space int // number of history entries that may still be cached
}

// checkedKey identifies what Redis stores of an execution.
type checkedKey struct {
	id     string
	remote bool
	sum    uint64
	cut    uint64 // see checker.cut; 0 if there were no faults
}

// checkedEnd is an end and the largest delay of its timers.
type checkedEnd struct {
	End

	late time.Duration
}

// mostChecked is how many history entries are cached.
const mostChecked = 40_000

func newChecked() *checkedEnds {
	return &checkedEnds{seed: maphash.MakeSeed(), ends: map[checkedKey]checkedEnd{}, space: mostChecked}
}

func (e *checkedEnds) find(key checkedKey) (checkedEnd, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	end, ok := e.ends[key]
	return end, ok
}

func (e *checkedEnds) keep(key checkedKey, end checkedEnd) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if n := len(end.History); n <= e.space {
		e.space -= n
		e.ends[key] = end
	}
}

// ending returns how an execution ended, and checks its invariants.
func (chk *checker) ending(ctx context.Context, id string, broken invariant.Report) (End, error) {
	if chk.cfg.known == nil {
		return chk.inspect(ctx, id, broken)
	}
	key, ok := chk.checkedKey(id)
	if !ok {
		return chk.inspect(ctx, id, broken)
	}
	slack := chk.slack()
	if end, ok := chk.cfg.known.find(key); ok && end.late <= slack {
		return end.End, nil
	}
	fine := true
	end, err := chk.inspect(ctx, id, func(rule, execution, format string, args ...any) {
		fine = false
		broken(rule, execution, format, args...)
	})
	// The checks of an execution that has not ended depend on other executions, too.
	if fine && err == nil && (len(chk.injected) == 0 || end.Status.Ended()) {
		chk.cfg.known.keep(key, checkedEnd{end, latest(end.History)})
	}
	return end, err
}

func (chk *checker) checkedKey(id string) (checkedKey, bool) {
	var h maphash.Hash
	h.SetSeed(chk.cfg.known.seed)
	ok := chk.memory.Sum(&h, chk.keyOf(id)) && chk.memory.Sum(&h, chk.historyOf(id))
	cut := uint64(0)
	if len(chk.injected) > 0 {
		cut = chk.cut(id) + 1
	}
	return checkedKey{id, chk.cfg.Remote, h.Sum64(), cut}, ok
}

// cuts is the number of places at which a history can be cut.
const cuts = 64

// cut returns where the state of an execution is replaced by a snapshot, as a fraction of
// its history in units of 1/cuts.
func (chk *checker) cut(id string) uint64 { return mix(chk.cfg.Seed, hashed("snapshot "+id), 0) % cuts }
