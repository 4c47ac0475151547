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

// Headroom tells the workers of one process whether Redis has memory for new executions.
// It is safe for concurrent use.
type Headroom struct {
	Percent int // no execution begins above this percentage of maxmemory

	mu         sync.Mutex
	looked     time.Time
	used, most int64
}

// lookEvery is how long a measurement of Redis' memory stays valid.
const lookEvery = 200 * time.Millisecond

// earlier is by how many percentage points the limit is lower for child executions:
// refusing many of them takes memory too.
const earlier = 15

// problem returns why an execution may not begin, nil if it may.
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

// FullText is the message for an execution that cannot begin because Redis is short of
// memory.
func FullText(used, most int64, percent int) string {
	return fmt.Sprintf("Redis uses %d of %d MiB, and above %d %% of its maxmemory no execution begins (limit LIMIT_REDIS_PERCENT): give it more, or remove executions", used>>20, most>>20, percent)
}

// admit returns why an execution may not begin, nil if it may.
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
