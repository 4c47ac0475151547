package sim

import (
	"context"
	"hash/maphash"
	"sync"
)

// judged are the ends of executions that all oracles were asked about, and found
// nothing wrong with. What Redis has of an execution is all that they look at, so
// that they need not be asked about the same again: of the runs of a search in which
// nothing goes wrong most are alike. Those of several goroutines share it.
type judged struct {
	seed maphash.Seed

	mu   sync.Mutex
	ends map[judgedKey]End
	room int // entries of histories that may still be kept
}

// judgedKey is what Redis has of an execution.
type judgedKey struct {
	id     string
	remote bool
	sum    uint64
}

// mostJudged is how many entries of histories are kept.
const mostJudged = 20_000

func newJudged() *judged {
	return &judged{seed: maphash.MakeSeed(), ends: map[judgedKey]End{}, room: mostJudged}
}

func (j *judged) find(key judgedKey) (End, bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	end, ok := j.ends[key]
	return end, ok
}

func (j *judged) keep(key judgedKey, end End) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if n := len(end.History); n <= j.room {
		j.room -= n
		j.ends[key] = end
	}
}

// ending is how an execution has ended, and what the oracles say of it.
func (w *world) ending(ctx context.Context, id string, broken breaks) (End, error) {
	if w.cfg.judged == nil || len(w.struck) > 0 {
		return w.inspect(ctx, id, broken)
	}
	key, ok := w.judgedKey(id)
	if !ok {
		return w.inspect(ctx, id, broken)
	}
	if end, ok := w.cfg.judged.find(key); ok {
		return end, nil
	}
	fine := true
	end, err := w.inspect(ctx, id, func(rule, execution, format string, args ...any) {
		fine = false
		broken(rule, execution, format, args...)
	})
	if fine && err == nil {
		w.cfg.judged.keep(key, end)
	}
	return end, err
}

func (w *world) judgedKey(id string) (judgedKey, bool) {
	var h maphash.Hash
	h.SetSeed(w.cfg.judged.seed)
	key := w.keyOf(id)
	ok := w.memory.Sum(&h, key) && w.memory.Sum(&h, key+":history")
	return judgedKey{id, w.cfg.Remote, h.Sum64()}, ok
}
