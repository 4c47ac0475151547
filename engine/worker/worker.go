// Package worker is the service that decides what happens next: it takes events
// in, lets decide find their consequences, and commits each transition at once.
package worker

import (
	"context"
	"errors"
	"strings"
	"time"

	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/delivery"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/library"
	"flunq.io/flunq/engine/store"
)

// Service is one worker. Several may run side by side, in one process or many.
type Service struct {
	desk    *delivery.Desk
	store   *store.Store
	library *library.Library
	cache   *Cache
	opts    Options
}

// Options of a Service.
type Options struct {
	delivery.Options

	Chunk int // history entries in one commit, about; 10 to 1000

	// Committed, if set, is shown what was committed, in order.
	Committed func([]event.Event)
}

// Defaults are the options of an ordinary deployment.
func Defaults() Options {
	return Options{Options: delivery.Defaults("worker", store.WorkerGroup), Chunk: 256}
}

// New is a worker on what st holds. Workers of one process share a cache.
func New(st *store.Store, lib *library.Library, cache *Cache, opts Options) (*Service, error) {
	desk, err := delivery.NewDesk(st, opts.Options)
	if err != nil {
		return nil, err
	}
	return &Service{desk: desk, store: st, library: lib, cache: cache, opts: opts}, nil
}

// Held are the messages that were read and not handled yet.
func (s *Service) Held() []store.Message { return s.desk.Held() }

// Step does one round of work. It says when it wants the next one: at once if
// that is past, never (before something is written to a stream) if it is zero.
func (s *Service) Step(ctx context.Context) (wake time.Time, err error) {
	now := time.Time{}.Add(1) // long past
	if s.desk.Empty() {
		now, wake, err = s.desk.Fill(ctx, s.opts.Block)
		if err != nil || s.desk.Empty() {
			return wake, err
		}
	}
	return now, s.desk.Work(ctx, concerns, s.handle)
}

// concerns reports whether a worker takes events of a type: those of executions,
// and all that are not the engine's own, or of no type at all.
func concerns(t event.Type) bool {
	switch t {
	case event.ExecutionStarted, event.ExecutionCancelled, event.ExecutionSuspended, event.ExecutionResumed,
		event.ExecutionRetried, event.TaskCompleted, event.TimerFired,
		event.EventDead, event.TaskDead, event.TimerDead:
		return true
	default:
		return !strings.HasPrefix(string(t), event.Prefix)
	}
}

// handle takes one event through. An error is Redis', and the event is to be
// handled again; what is wrong with the event itself is dealt with here.
func (s *Service) handle(ctx context.Context, m store.Message) error {
	err := delivery.Poison(m)
	switch {
	case err != nil:
	case m.Err != nil:
		err = delivery.As(delivery.Permanent, m.Err)
	default:
		err = s.deliver(ctx, m)
	}
	if err == nil || delivery.ClassOf(ctx, err) == "" {
		return err
	}
	return s.reject(ctx, m, err)
}

func (s *Service) deliver(ctx context.Context, m store.Message) error {
	if strings.HasPrefix(string(m.Event.Type), event.Prefix) {
		return s.transition(ctx, m, m.Event, true)
	}
	executions, err := s.store.Listeners(ctx, m.Tenant, string(m.Event.Type))
	if err != nil {
		return err
	}
	for _, id := range executions {
		if err := s.transition(ctx, m, decide.Received(m.Event, id), false); err != nil {
			return err
		}
	}
	return s.store.Settle(ctx, m)
}

// reject delivers an event again later, or gives it up and its execution with it.
func (s *Service) reject(ctx context.Context, m store.Message, cause error) error {
	s.cache.take(m.Tenant, m.Event.Execution)
	if again, err := s.desk.Again(ctx, m, cause); again || err != nil {
		return err
	}
	dead := s.desk.Dead(m, cause)
	if m.Event.Execution != "" {
		// An execution that cannot be written to cannot be ended either.
		if err := s.abort(ctx, m, dead); store.Temporary(err) {
			return err
		}
	}
	return s.desk.Bury(ctx, m, dead, nil)
}

// abort faults an execution whose events cannot be worked on, without deciding.
func (s *Service) abort(ctx context.Context, m store.Message, dead event.Dead) error {
	x, err := s.store.Execution(ctx, m.Tenant, m.Event.Execution)
	if errors.Is(err, store.ErrNotFound) || err == nil && decide.Status(x.Status).Ended() {
		return nil
	}
	if err != nil {
		return err
	}
	now, err := s.store.Now(ctx)
	if err != nil {
		return err
	}
	state := s.stub(x)
	d := state.Abort(now, dead)
	c := store.Commit{
		Message: &m, Tenant: x.Tenant, Execution: x.ID, Version: x.Version,
		History: d.History, Publish: d.Publish, Status: string(state.Status), Ended: true, Now: now,
	}
	if c.Error, err = decide.EncodeProblem(state.Error); err != nil {
		return err
	}
	return s.commitOnce(ctx, c)
}

// stub is what can be known of an execution without its history.
func (s *Service) stub(x store.Execution) *decide.State {
	st := decide.New()
	st.Tenant, st.Workflow, st.Execution = x.Tenant, x.Workflow, x.ID
	st.Version, st.Status, st.StartedAt = x.Version, decide.Status(x.Status), x.CreatedAt
	st.Parent, st.ParentTask = x.Parent, x.ParentTask
	return st
}

// commitOnce commits where a conflict or a lost message needs no second try:
// whoever was faster deals with the execution.
func (s *Service) commitOnce(ctx context.Context, c store.Commit) error {
	outcome, err := s.store.Commit(ctx, c)
	if err == nil && outcome == store.Committed && s.opts.Committed != nil {
		s.opts.Committed(c.History)
	}
	return err
}
