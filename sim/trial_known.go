package sim

import (
	"context"
	"encoding/json"
	"hash/maphash"
	"iter"
	"strings"
	"sync"
	"time"

	"flunq.io/flunq/engine/event"
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
	key := "tenant:" + w.cfg.Tenant + ":execution:" + id
	ok := w.memory.Sum(&h, key) && w.memory.Sum(&h, key+":history")
	return judgedKey{id, w.cfg.Remote, h.Sum64()}, ok
}

// publication is what an entry of the stream says of its event.
type publication struct {
	event.Event // data only of those about timers

	entry string // its id in the stream
	again bool   // it was put off before
}

// publications are the events of executions in the stream, in their order.
func (w *world) publications() iter.Seq[publication] {
	return func(yield func(publication) bool) {
		w.memory.Each(w.stream, func(entry string, fields []string) bool {
			p := publicationOf(entry, fields)
			return p.Execution == "" || yield(p)
		})
	}
}

func publicationOf(entry string, fields []string) (p publication) {
	p.entry = entry
	for i := 0; i+1 < len(fields); i += 2 {
		switch value := fields[i+1]; fields[i] {
		case "id":
			p.ID = value
		case "type":
			p.Type = event.Type(value)
		case "executionid":
			p.Execution = value
		case "taskid":
			p.Task = value
		case "time":
			p.Time, _ = time.Parse(time.RFC3339Nano, value) // the engine's own times can be read
		case "data":
			if strings.HasPrefix(string(p.Type), event.Prefix+"timer.") {
				p.Data = json.RawMessage(value)
			}
		case event.AttemptAttribute:
			p.again = value != ""
		}
	}
	return p
}
