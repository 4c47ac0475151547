package worker

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/delivery"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/store"
)

// loadCached takes the executions of the batch from the cache. If several are missing, it reads them
// together; one that is still missing is loaded separately later.
func (s *Service) loadCached(ctx context.Context) error {
	var missing []string
	var behind []store.Tail
	seen := make(map[address]bool, len(s.batch))
	for i := range s.batch {
		m := &s.batch[i]
		key := addressOf(m)
		if seen[key] || !plain(m) {
			continue
		}
		seen[key] = true
		x := s.known(m, m.Event.Execution)
		if x == nil {
			if m.Event.Type != event.ExecutionStarted {
				missing = append(missing, m.Event.Execution)
			}
			continue
		}
		s.executions[key] = x
		if !x.state.Expects(m.Event) {
			behind = append(behind, store.Tail{ID: m.Event.Execution, After: x.state.Version})
		}
	}
	if err := s.catchUp(ctx, behind); err != nil {
		return err
	}
	if len(missing) < 2 {
		return nil
	}
	return s.loadMissing(ctx, missing)
}

// catchUp updates cached executions that do not expect their event: most of them are outdated. It drops
// those that cannot be updated.
func (s *Service) catchUp(ctx context.Context, behind []store.Tail) error {
	if len(behind) == 0 {
		return nil
	}
	tenant := s.batch[0].Tenant
	if err := s.store.Tails(ctx, tenant, behind, shortHistory); err != nil {
		return redisError(ctx, err)
	}
	for _, t := range behind {
		key := address{tenant, t.ID}
		x := s.executions[key]
		migrated := slices.ContainsFunc(t.History, func(e event.Event) bool { return e.Type == event.ExecutionMigrated })
		if t.Err != nil || len(t.History) == shortHistory || migrated || x.state.Replay(x.env, t.History) != nil || x.state.Status.Ended() {
			delete(s.executions, key)
			continue
		}
		x.grown(t.History)
	}
	return nil
}

// loadMissing reads executions that the process does not have, in one round trip. It skips those that have
// ended or cannot be rebuilt.
func (s *Service) loadMissing(ctx context.Context, missing []string) error {
	found, err := s.store.WithHistories(ctx, s.batch[0].Tenant, missing, shortHistory)
	if err != nil {
		return redisError(ctx, err)
	}
	for _, w := range found {
		if w.Version == 0 || decide.Status(w.Status).Ended() {
			continue
		}
		env, err := s.definitions.Hash(ctx, w.Tenant, w.Workflow, w.Definition)
		if err != nil {
			continue
		}
		x := &cachedExecution{state: decide.New(), env: env, definition: w.Definition, snapshot: w.SnapshotVersion}
		if x.state.Replay(env, w.History) == nil {
			x.grown(w.History)
			s.executions[address{w.Tenant, w.ID}] = x
		}
	}
	return nil
}

// shortHistory is the length up to which histories are read together.
const shortHistory = 200

// load returns the state of an event's execution: cached, or rebuilt from the snapshot and the history
// after it. It returns nil if the execution does not exist or has ended, and a new state for one that
// begins. If begun is not nil (see first), it does not ask Redis whether the execution has already begun:
// the commit detects that.
func (s *Service) load(ctx context.Context, m store.Message, e event.Event, begun map[string]*cachedExecution) (*cachedExecution, error) {
	tenant := m.Tenant
	if x := s.known(&m, e.Execution); x != nil {
		return x, nil
	}
	if begun != nil && e.Type == event.ExecutionStarted {
		return s.first(ctx, tenant, e, begun)
	}
	kept, err := s.store.Execution(ctx, tenant, e.Execution)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return nil, err
	}
	if err != nil || kept.Version == 0 {
		switch e.Type {
		case event.TimerFired:
			if _, ok := decide.InputOf(e); ok {
				return nil, noExecution(e, kept)
			}
			return nil, nil
		case event.ExecutionStarted:
			return s.first(ctx, tenant, e, nil)
		case event.ExecutionCancelled, event.ExecutionSuspended, event.ExecutionResumed:
			// The start may still be on its way: try again a little later.
			return nil, delivery.As(delivery.Recoverable, fmt.Errorf("execution %s has not begun: %w", e.Execution, delivery.ErrEarly))
		default:
			return nil, nil
		}
	}
	// An execution that never had a definition cannot be retried.
	retried := e.Type == event.ExecutionRetried && kept.Status == string(decide.Faulted) && kept.Definition != ""
	if decide.Status(kept.Status).Ended() && !retried {
		return nil, nil
	}
	env, err := s.definitions.Hash(ctx, tenant, kept.Workflow, kept.Definition)
	if err != nil {
		return nil, err
	}
	return s.rebuild(ctx, kept, env)
}

// known returns an execution's cached state; nil if there is none, or if it is so old that its id may
// meanwhile belong to another execution.
func (s *Service) known(m *store.Message, id string) *cachedExecution {
	x := s.cache.take(m.Tenant, id)
	if x != nil && s.opts.Trust > 0 && m.Entered().Sub(x.state.Now) > s.opts.Trust {
		return nil
	}
	return x
}

// first returns the state of an execution that begins with e. begun, unless it is nil, holds executions
// that have just begun, by name and version of their definitions, and receives this one.
func (s *Service) first(ctx context.Context, tenant string, e event.Event, begun map[string]*cachedExecution) (x *cachedExecution, err error) {
	started, err := decide.StartOf(e)
	if err != nil {
		return nil, delivery.As(delivery.Permanent, err)
	}
	x = &cachedExecution{state: decide.New()}
	if x.refused, err = s.admit(ctx, tenant, e.Execution, &started); x.refused != nil || err != nil {
		return x, err
	}
	name, version := started.Workflow(), started.Version
	key := name + ":" + version
	if other := begun[key]; other != nil {
		x.env, x.definition = other.env, other.definition
		return x, nil
	}
	x.env, x.definition, err = s.definitions.Version(ctx, tenant, name, version)
	if errors.Is(err, store.ErrNotFound) {
		if version != "" {
			name = key
		}
		x.refused = &event.Ended{Error: event.NewProblem(event.Configuration, "workflow "+s.definitions.Redact(name)+" is not registered")}
		return x, nil
	}
	if err == nil && begun != nil {
		begun[key] = x
	}
	return x, err
}

// rebuild replays the history after the last snapshot.
func (s *Service) rebuild(ctx context.Context, kept store.Execution, env *decide.Env) (*cachedExecution, error) {
	state, err := decide.Restore(env, kept.Snapshot)
	if err != nil {
		return nil, delivery.As(delivery.Recoverable, fmt.Errorf("snapshot of execution %s: %w", kept.ID, err))
	}
	x := &cachedExecution{state: state, env: env, definition: kept.Definition, snapshot: state.Version, snapshotBytes: len(kept.Snapshot)}
	err = s.store.EachPage(ctx, kept, state.Version, func(entries []event.Event) error {
		x.grown(entries)
		if err := state.Replay(env, entries); err != nil {
			return delivery.As(delivery.Recoverable, fmt.Errorf("execution %s: %w", kept.ID, err))
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return x, nil
}

// redisError returns an error only if Redis or the connection caused it.
func redisError(ctx context.Context, err error) error {
	if err != nil && delivery.ClassOf(ctx, err) == "" {
		return err
	}
	return nil
}
