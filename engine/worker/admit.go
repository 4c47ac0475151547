package worker

import (
	"context"
	"fmt"
	"sync"
	"time"

	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/store"
)

// Headroom is how much memory Redis has left for executions that begin, as the workers of
// one process know it.
type Headroom struct {
	Percent int // of maxmemory, above which none begins

	mu         sync.Mutex
	looked     time.Time
	used, most int64
}

// lookEvery is how old what is known of the memory of Redis may be.
const lookEvery = 200 * time.Millisecond

// earlier is how many percent before others those may not begin any more that another
// execution begins: to refuse many takes room as well.
const earlier = 15

// problem is why an execution may not begin, which another one begins or not; nil if it may.
func (r *Headroom) problem(ctx context.Context, st *store.Store, now time.Time, child bool) (p *event.Problem, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if since := now.Sub(r.looked); since < 0 || since >= lookEvery {
		if r.used, r.most, err = st.MemoryUse(ctx); err != nil {
			return nil, err
		}
		r.looked = now
	}
	percent := r.Percent
	if child {
		percent = max(percent-earlier, 1)
	}
	if r.most > 0 && r.used > r.most/100*int64(percent) {
		return event.NewProblem(event.Runtime, FullText(r.used, r.most, percent)), nil
	}
	return nil, nil
}

// FullText says that Redis has too little memory left for an execution to begin.
func FullText(used, most int64, percent int) string {
	return fmt.Sprintf("Redis uses %d of %d MiB, and above %d %% of its maxmemory no execution begins (limit LIMIT_REDIS_PERCENT): give it more, or remove executions", used>>20, most>>20, percent)
}

// admit is why an execution may not begin; nil if it may.
func (s *Service) admit(ctx context.Context, tenant string, e event.Event) (*event.Problem, error) {
	root := decide.StartedRoot(e)
	if s.opts.Headroom != nil && s.opts.Clock != nil {
		if now := s.opts.Clock(); !now.IsZero() {
			if p, err := s.opts.Headroom.problem(ctx, s.store, now, root != ""); p != nil || err != nil {
				return p, err
			}
		}
	}
	if s.opts.Descendants == 0 || root == "" {
		return nil, nil
	}
	open, err := s.store.Descendants(ctx, tenant, root, s.opts.Descendants)
	if err != nil || open < s.opts.Descendants {
		return nil, err
	}
	return event.NewProblem(event.Runtime, fmt.Sprintf("%d executions are open below %s (limit LIMIT_DESCENDANTS)", open, root)), nil
}
