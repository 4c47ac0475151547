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

// Headroom determines, for the workers of one process, whether Redis has memory for new executions. It
// is safe for concurrent use.
type Headroom struct {
	Percent int // no execution begins above this percentage of maxmemory

	mu         sync.Mutex
	looked     time.Time
	used, most int64
}

// measureEvery is how long a measurement of Redis' memory stays valid.
const measureEvery = 200 * time.Millisecond

// childMargin is the number of percentage points by which the limit is lower for child executions:
// rejecting many of them also takes memory.
const childMargin = 15

// problem returns why an execution may not begin, or nil if it may.
func (h *Headroom) problem(ctx context.Context, st *store.Store, now time.Time, child bool) (p *event.Problem, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if since := now.Sub(h.looked); since < 0 || since >= measureEvery {
		if h.used, h.most, err = st.MemoryUse(ctx); err != nil {
			return nil, err
		}
		h.looked = now
	}
	percent := h.Percent
	if child {
		percent = max(percent-childMargin, 1)
	}
	if h.most > 0 && h.used > h.most/100*int64(percent) {
		return event.NewProblem(event.Runtime, FullText(h.used, h.most, percent)), nil
	}
	return nil, nil
}

// FullText is the message for an execution that cannot begin because Redis is short of memory.
func FullText(used, most int64, percent int) string {
	return fmt.Sprintf("Redis uses %d of %d MiB, and above %d %% of its maxmemory no execution begins (limit LIMIT_REDIS_PERCENT): give it more, or remove executions", used>>20, most>>20, percent)
}

// OpenLimit limits how many executions a tenant may have open, for the workers of one process. The
// count is the size of the tenant's index of open executions, so it needs no bookkeeping. It is safe
// for concurrent use.
type OpenLimit struct {
	Most int // open executions of one tenant

	mu      sync.Mutex
	tenants map[string]openCount
}

// openCount is the number of executions that a tenant had open at some time, and those that this
// process has let begin since.
type openCount struct {
	looked time.Time
	open   int
}

// problem returns why an execution may not begin, or nil if it may. An execution started by a client is
// already in the index, a child is not. uncounted returns by how many the index will grow when the
// worker writes what it has decided.
func (l *OpenLimit) problem(ctx context.Context, st *store.Store, tenant string, now time.Time, child bool, uncounted func() int) (*event.Problem, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	last, known := l.tenants[tenant]
	if since := now.Sub(last.looked); known && since >= 0 && since < measureEvery && last.open < l.Most {
		last.open++
		l.tenants[tenant] = last
		return nil, nil
	}
	open, err := st.Open(ctx, tenant, l.Most)
	if err != nil {
		return nil, err
	}
	if l.tenants == nil {
		l.tenants = map[string]openCount{}
	}
	others := open + uncounted()
	l.tenants[tenant] = openCount{now, others + 1}
	if !child {
		others--
	}
	if others >= l.Most {
		return event.NewProblem(event.Runtime, OpenLimitText(tenant, others, l.Most)), nil
	}
	return nil, nil
}

// OpenLimitText is the message for an execution that cannot begin because its tenant has too many open
// ones.
func OpenLimitText(tenant string, open, most int) string {
	return fmt.Sprintf("tenant %s has %d open executions, and may have %d (limit LIMIT_EXECUTIONS of the services): end some, or raise it", tenant, open, most)
}

// uncounted returns by how many executions the index of open executions grows with the planned
// commits. A rejected execution leaves the index if a client has started it.
func (s *Service) uncounted() (n int) {
	for i := range s.commits {
		c := &s.commits[i]
		if c.Version > 0 {
			continue
		}
		child := false
		if c.Message != nil {
			started, err := decide.StartOf(c.Message.Event)
			child = err == nil && decide.RootOf(c.Execution, started.Depth) != ""
		}
		switch {
		case child && !c.Ended:
			n++
		case !child && c.Ended:
			n--
		}
	}
	return n
}

// admit returns how an execution that may not begin ends, or nil if it may begin.
func (s *Service) admit(ctx context.Context, tenant, id string, started *event.Started) (*event.Ended, error) {
	root, parent := decide.RootOf(id, started.Depth), started.Parent
	var now time.Time
	if s.opts.Clock != nil {
		now = s.opts.Clock()
	}
	if s.opts.Headroom != nil && !now.IsZero() {
		if p, err := s.opts.Headroom.problem(ctx, s.store, now, root != ""); p != nil || err != nil {
			return &event.Ended{Error: p}, err
		}
	}
	if s.opts.OpenLimit != nil && !now.IsZero() {
		if p, err := s.opts.OpenLimit.problem(ctx, s.store, tenant, now, root != "", s.uncounted); p != nil || err != nil {
			return &event.Ended{Error: p}, err
		}
	}
	if s.opts.Descendants == 0 || root == "" {
		return nil, nil
	}
	open, parentEnded, err := s.store.Descendants(ctx, tenant, root, parent, s.opts.Descendants)
	switch {
	case err != nil:
		return nil, err
	case parentEnded:
		// The parent cancels it, but only after everything that the tenant published before.
		return &event.Ended{Reason: "execution " + parent + ", which started this one, has ended"}, nil
	case open >= s.opts.Descendants:
		text := fmt.Sprintf("%d executions are open below %s (limit LIMIT_DESCENDANTS)", open, root)
		return &event.Ended{Error: event.NewProblem(event.Runtime, text)}, nil
	}
	return nil, nil
}
