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

	mu   sync.Mutex
	ends map[judgedKey]judgedEnd
	room int // entries of histories that may still be kept
}

// judgedKey is what Redis has of an execution.
type judgedKey struct {
	id     string
	remote bool
	sum    uint64
	cut    uint64 // see world.cut; 0 where nothing went wrong
}

// judgedEnd is an end, and how late the latest of its timers fired.
type judgedEnd struct {
	End

	late time.Duration
}

// mostJudged is how many entries of histories are kept.
const mostJudged = 40_000

func newJudged() *judged {
	return &judged{seed: maphash.MakeSeed(), ends: map[judgedKey]judgedEnd{}, room: mostJudged}
}

func (j *judged) find(key judgedKey) (judgedEnd, bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	end, ok := j.ends[key]
	return end, ok
}

func (j *judged) keep(key judgedKey, end judgedEnd) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if n := len(end.History); n <= j.room {
		j.room -= n
		j.ends[key] = end
	}
}

// ending is how an execution has ended, and what the oracles say of it.
func (w *world) ending(ctx context.Context, id string, broken breaks) (End, error) {
	if w.cfg.judged == nil {
		return w.inspect(ctx, id, broken)
	}
	key, ok := w.judgedKey(id)
	if !ok {
		return w.inspect(ctx, id, broken)
	}
	slack := w.slack()
	if end, ok := w.cfg.judged.find(key); ok && end.late <= slack {
		return end.End, nil
	}
	fine := true
	end, err := w.inspect(ctx, id, func(rule, execution, format string, args ...any) {
		fine = false
		broken(rule, execution, format, args...)
	})
	// What one that has not ended waits for, others than it have to know.
	if fine && err == nil && (len(w.struck) == 0 || end.Status.Ended()) {
		w.cfg.judged.keep(key, judgedEnd{end, latest(end.History)})
	}
	return end, err
}

func (w *world) judgedKey(id string) (judgedKey, bool) {
	var h maphash.Hash
	h.SetSeed(w.cfg.judged.seed)
	key := w.keyOf(id)
	ok := w.memory.Sum(&h, key) && w.memory.Sum(&h, key+":history")
	cut := uint64(0)
	if len(w.struck) > 0 {
		cut = w.cut(id) + 1
	}
	return judgedKey{id, w.cfg.Remote, h.Sum64(), cut}, ok
}

// cuts is at how many places histories are cut.
const cuts = 64

// cut says where in the history of an execution its state is to be a snapshot, as so many
// parts of all of it, of which there are cuts.
func (w *world) cut(id string) uint64 { return mix(w.cfg.Seed, hashed("snapshot "+id), 0) % cuts }
