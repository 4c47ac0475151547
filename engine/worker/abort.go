package worker

import (
	"context"
	"errors"
	"fmt"

	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/delivery"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/store"
)

// abort faults an execution whose events cannot be worked on, and gives the event up
// with it. It reports false if the event is to be given up by itself.
func (s *Service) abort(ctx context.Context, m store.Message, dead event.Dead) (over bool, err error) {
	for range conflicts {
		c, err := s.fault(ctx, m, dead)
		if c == nil || err != nil {
			return false, err
		}
		outcome, err := s.giveUp(ctx, c, dead)
		if err != nil || outcome != store.Conflict {
			return err == nil, err
		}
	}
	return true, fmt.Errorf("execution %s cannot be ended: %d workers in a row were faster", m.Event.Execution, conflicts)
}

// giveUp writes the end. What cannot be taken back keeps no execution from ending.
func (s *Service) giveUp(ctx context.Context, c *store.Commit, dead event.Dead) (store.Outcome, error) {
	outcome, err := s.desk().GiveUp(ctx, *c, dead)
	if err != nil && !store.Temporary(err) {
		c.Cancel, c.Unlisten = nil, nil
		outcome, err = s.desk().GiveUp(ctx, *c, dead)
	}
	if err == nil && outcome == store.Committed {
		s.committed(c)
	}
	return outcome, err
}

// fault is the commit that ends an execution as it stands, without deciding; nil if
// there is none, or it has ended.
func (s *Service) fault(ctx context.Context, m store.Message, dead event.Dead) (*store.Commit, error) {
	x, err := s.store.Execution(ctx, m.Tenant, m.Event.Execution)
	if x.Version == 0 && (err == nil || errors.Is(err, store.ErrNotFound)) && m.Event.Type == event.ExecutionStarted {
		if c, err := s.refusal(m, dead); err == nil {
			return c, nil
		}
	}
	if errors.Is(err, store.ErrNotFound) || err == nil && decide.Status(x.Status).Ended() {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	now, err := s.store.Now(ctx)
	if err != nil {
		return nil, err
	}
	state := s.stub(x)
	d := state.Abort(now, dead)
	c := &store.Commit{
		Message: &m, Tenant: x.Tenant, Execution: x.ID, Version: x.Version,
		History: d.History, Publish: d.Publish, Status: string(state.Status), Ended: true, Now: now, Started: x.CreatedAt,
	}
	if c.Error, err = decide.EncodeProblem(state.Error); err != nil {
		return nil, err
	}
	deadly := delivery.Poison(m) != nil // it may be the history that they die of
	if !deadly {
		err = s.release(ctx, x, c)
	}
	if store.Temporary(err) {
		return nil, err
	}
	return c, nil
}

// refusal is the commit of an execution that fails as it is to begin, so that whoever
// waits for it gets to know.
func (s *Service) refusal(m store.Message, dead event.Dead) (*store.Commit, error) {
	var d decide.Decision
	state, err := decide.Refuse(m.Event, dead.Problem(), &d)
	if err != nil {
		return nil, err
	}
	c, err := s.transitionOf(&execution{state: state}, step{&m, true, 0, &d})
	return &c, err
}

// release adds what an execution has to take back that ends, as far as that can be told
// of one that cannot go on.
func (s *Service) release(ctx context.Context, kept store.Execution, c *store.Commit) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("release execution %s: %v", kept.ID, r)
		}
	}()
	env, err := s.library.Hash(ctx, kept.Tenant, kept.Workflow, kept.Definition)
	if err != nil {
		return err
	}
	x, err := s.rebuild(ctx, kept, env)
	if err != nil {
		return err
	}
	d := x.state.Release(env, c.Now)
	c.Cancel, c.Unlisten, c.Publish = d.Cancel, d.Unlisten, append(c.Publish, d.Publish...)
	return nil
}

// stub is what can be known of an execution without its history.
func (s *Service) stub(x store.Execution) *decide.State {
	st := decide.New()
	st.Tenant, st.Workflow, st.Execution = x.Tenant, x.Workflow, x.ID
	st.Version, st.Status, st.StartedAt = x.Version, decide.Status(x.Status), x.CreatedAt
	st.Parent, st.ParentTask = x.Parent, x.ParentTask
	return st
}
