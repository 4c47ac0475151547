package sim

import (
	"context"
	"hash/maphash"
	"sync"
	"time"
)

// judged are the ends of executions that all oracles were asked about, and found
// nothing wrong with. What Redis has of an execution is all that they look at, but for
// how late its timers may be, so that they need not be asked about the same again: of the
// runs of a search most are alike. Those of several goroutines share it.
type judged struct {
	seed maphash.Seed

	mu    sync.Mutex
	ends  map[checkedKey]checkedEnd
	space int // entries of histories that may still be kept
}

// checkedKey is what Redis has of an execution.
type checkedKey struct {
	id     string
	remote bool
	sum    uint64
	cut    uint64 // see world.cut; 0 where nothing went wrong
}

// checkedEnd is an end, and how late the latest of its timers fired.
type checkedEnd struct {
	End

	late time.Duration
}

// mostChecked is how many entries of histories are kept.
const mostChecked = 40_000

func newChecked() *judged {
	return &judged{seed: maphash.MakeSeed(), ends: map[checkedKey]checkedEnd{}, space: mostChecked}
}

func (j *judged) find(key checkedKey) (checkedEnd, bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	end, ok := j.ends[key]
	return end, ok
}

func (j *judged) keep(key checkedKey, end checkedEnd) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if n := len(end.History); n <= j.space {
		j.space -= n
		j.ends[key] = end
	}
}

// ending is how an execution has ended, and what the oracles say of it.
func (w *simulation) ending(ctx context.Context, id string, broken breaks) (End, error) {
	if w.cfg.known == nil {
		return w.inspect(ctx, id, broken)
	}
	key, ok := w.checkedKey(id)
	if !ok {
		return w.inspect(ctx, id, broken)
	}
	slack := w.slack()
	if end, ok := w.cfg.known.find(key); ok && end.late <= slack {
		return end.End, nil
	}
	fine := true
	end, err := w.inspect(ctx, id, func(rule, execution, format string, args ...any) {
		fine = false
		broken(rule, execution, format, args...)
	})
	// What one that has not ended waits for, others than it have to know.
	if fine && err == nil && (len(w.struck) == 0 || end.Status.Ended()) {
		w.cfg.known.keep(key, checkedEnd{end, latest(end.History)})
	}
	return end, err
}

func (w *simulation) checkedKey(id string) (checkedKey, bool) {
	var h maphash.Hash
	h.SetSeed(w.cfg.known.seed)
	key := w.keyOf(id)
	ok := w.memory.Sum(&h, key) && w.memory.Sum(&h, key+":history")
	cut := uint64(0)
	if len(w.struck) > 0 {
		cut = w.cut(id) + 1
	}
	return checkedKey{id, w.cfg.Remote, h.Sum64(), cut}, ok
}

// cuts is at how many places histories are cut.
const cuts = 64

// cut says where in the history of an execution its state is to be a snapshot, as so many
// parts of all of it, of which there are cuts.
func (w *simulation) cut(id string) uint64 { return mix(w.cfg.Seed, hashed("snapshot "+id), 0) % cuts }
