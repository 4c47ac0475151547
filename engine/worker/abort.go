package worker

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/delivery"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/store"
)

// abort faults an execution whose event cannot be handled and dead-letters the event in the same
// commit. It returns false if the caller must dead-letter the event itself.
func (s *Service) abort(ctx context.Context, m store.Message, dead event.Dead) (over bool, err error) {
	for range conflicts {
		c, err := s.fault(ctx, m, dead)
		if c == nil || err != nil {
			return false, err
		}
		c.DeadLetter = &dead
		outcome, err := s.write(ctx, c)
		if err != nil && !store.Temporary(err) { // end it without cancelling timers and subscriptions
			c.Cancel, c.Unlisten = nil, nil
			outcome, err = s.write(ctx, c)
		}
		if err != nil || outcome != store.Conflict {
			return err == nil, err
		}
	}
	return true, fmt.Errorf("execution %s cannot be ended: %d workers in a row were faster", m.Event.Execution, conflicts)
}

// fault returns the commit that ends an execution in its current state, without consulting its
// document. It returns nil if the execution does not exist or has ended.
func (s *Service) fault(ctx context.Context, m store.Message, dead event.Dead) (*store.Commit, error) {
	x, err := s.store.Execution(ctx, m.Tenant, m.Event.Execution)
	if x.Version == 0 && (err == nil || errors.Is(err, store.ErrNotFound)) && m.Event.Type == event.ExecutionStarted {
		// It fails at its start so that its parent is notified.
		begins := &cachedExecution{state: decide.New(), refused: &event.Ended{Error: dead.Problem()}}
		t := s.newTransition(begins, &m, m.Event, true)
		if c, err := s.decide(&t); err == nil {
			return &c, nil
		}
	}
	if errors.Is(err, store.ErrNotFound) || err == nil && decide.Status(x.Status).Ended() {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	c := &store.Commit{Message: &m, Tenant: x.Tenant, Execution: x.ID, Version: x.Version, Ended: true, Damaged: true, Started: x.CreatedAt}
	if err := s.release(ctx, x, c, delivery.Poison(m) != nil); err != nil {
		return nil, err
	}
	if c.Now, err = s.store.NowOf(ctx, m.Tenant); err != nil {
		return nil, err
	}
	state := s.stateWithoutHistory(x)
	d := state.Abort(c.Now, dead)
	c.History, c.Publish, c.Status = d.History, append(d.Publish, c.Publish...), string(state.Status)
	for i := range c.Publish {
		c.Publish[i].Time = c.Now
	}
	announce(c, s.lifecycleOf(&cachedExecution{state: state}, &m.Event))
	c.Error = event.Encode(state.Error)
	return c, nil
}

// release adds to the commit what an aborted execution still holds: its timers, its listeners and its
// children. If processes crashed while handling the execution, its history may be the cause, and
// nothing is decided about it.
func (s *Service) release(ctx context.Context, x store.Execution, c *store.Commit, deadly bool) error {
	if !deadly {
		if err := s.releaseState(ctx, x, c); err == nil || store.Temporary(err) {
			return err
		}
	}
	if err := s.releaseLeftovers(ctx, x, c); store.Temporary(err) {
		return err
	}
	return nil // unreadable data does not keep an execution from ending
}

// releaseState derives what the execution holds from its state.
func (s *Service) releaseState(ctx context.Context, kept store.Execution, c *store.Commit) (err error) {
	defer recovered(&err)
	env, err := s.definitions.Hash(ctx, kept.Tenant, kept.Workflow, kept.Definition)
	if err != nil {
		return err
	}
	x, err := s.rebuild(ctx, kept, env)
	if err != nil {
		return err
	}
	d := x.state.Release(env, x.state.Now)
	c.Cancel, c.Unlisten, c.Publish = d.Cancel, d.Unlisten, d.Publish
	return nil
}

// releaseLeftovers derives the same from the events of the history, the children known to Redis, and
// the document.
func (s *Service) releaseLeftovers(ctx context.Context, x store.Execution, c *store.Commit) error {
	var left decide.Leftovers
	for at := int64(0); at < x.Version; {
		const batch = 100
		entries, err := s.store.History(ctx, x.Tenant, x.ID, at, int(min(batch, x.Version-at)))
		if err != nil {
			return err
		}
		if len(entries) == 0 {
			break // the history is damaged: use what was read
		}
		left.Add(entries)
		at += int64(len(entries))
	}
	c.Cancel = left.Timers
	children, err := s.children(ctx, x, left)
	if err != nil {
		return err
	}
	for _, child := range children {
		c.Publish = append(c.Publish, s.stateWithoutHistory(x).CancelChild(child, "execution "+x.ID+" was given up"))
	}
	c.Unlisten, err = s.listens(ctx, x)
	return err
}

// children returns the child executions that x waits for. Children are numbered; the last ones may
// not have started yet.
func (s *Service) children(ctx context.Context, x store.Execution, left decide.Leftovers) (waited []string, err error) {
	const batch = 100
	last := 0 // the highest number of a child that has begun
	name := func(n int) string { return x.ID + "." + strconv.Itoa(n) }
	for from := 1; from <= left.Children; from += batch {
		var ids []string
		for n := from; n <= min(left.Children, from+batch-1); n++ {
			ids = append(ids, name(n))
		}
		found, err := s.store.Outlines(ctx, x.Tenant, ids...)
		if err != nil {
			return nil, err
		}
		for i, child := range found {
			if child.Status != "" {
				last = from + i
			}
			if child.Parent == x.ID && !decide.Status(child.Status).Ended() {
				waited = append(waited, child.ID)
			}
		}
	}
	for n := last + 1; n <= left.Children && len(waited) < left.Waiting; n++ {
		waited = append(waited, name(n))
	}
	return waited, nil
}

// listens returns the event types that an execution may listen for, from its document or, if that is
// not available, from the listener sets.
func (s *Service) listens(ctx context.Context, x store.Execution) ([]string, error) {
	env, err := s.definitions.Hash(ctx, x.Tenant, x.Workflow, x.Definition)
	if store.Temporary(err) {
		return nil, err
	}
	if err == nil {
		if types, complete := env.ListenTypes(); complete {
			return types, nil
		}
	}
	return s.store.ListedFor(ctx, x.Tenant, x.ID)
}

// stateWithoutHistory returns as much of an execution's state as is known without its history.
func (s *Service) stateWithoutHistory(x store.Execution) *decide.State {
	st := decide.New()
	st.Tenant, st.Workflow, st.Execution = x.Tenant, x.Workflow, x.ID
	st.Version, st.Status, st.StartedAt = x.Version, decide.Status(x.Status), x.CreatedAt
	st.Parent, st.ParentTask = x.Parent, x.ParentTask
	return st
}
