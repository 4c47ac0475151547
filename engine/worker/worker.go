// Package worker is the service that decides what happens next: it takes events
// in, lets decide find their consequences, and commits each transition at once.
package worker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/library"
	"flunq.io/flunq/engine/store"
)

// Service is one worker. Several may run side by side, in one process or many.
type Service struct {
	store   *store.Store
	library *library.Library
	cache   *Cache
	opts    Options
	reader  store.Reader
	todo    []store.Message // read, and not handled yet
}

// Options of a Service.
type Options struct {
	Group, Consumer string
	Tenants         []string
	Batch           int           // events read at once; 1 to 1000
	Block           time.Duration // how long a read waits for events; 0 in simulation
	Lease           time.Duration // after which a silent consumer's events are claimed
	Attempts        int           // deliveries of an event before it is given up
	RetryDelay      time.Duration // before the second delivery; it grows with the attempts
	Chunk           int           // history entries in one commit, about; 10 to 1000

	// Observe, if set, is shown what was committed, in order.
	Observe func([]event.Event)
}

// Defaults are the options of an ordinary deployment.
func Defaults() Options {
	return Options{
		Group: store.WorkerGroup, Tenants: []string{"default"},
		Batch: 100, Block: time.Second, Lease: 30 * time.Second,
		Attempts: 3, RetryDelay: 200 * time.Millisecond, Chunk: 256,
	}
}

func (o Options) check() error {
	var errs []error
	if o.Consumer == "" {
		errs = append(errs, errors.New("the worker has no consumer name"))
	}
	if o.Batch < 1 || o.Batch > 1000 {
		errs = append(errs, fmt.Errorf("batch is %d, want 1 to 1000", o.Batch))
	}
	if o.Lease <= 0 {
		errs = append(errs, fmt.Errorf("lease is %v, want more than 0", o.Lease))
	}
	if o.Attempts < 1 {
		errs = append(errs, fmt.Errorf("attempts is %d, want 1 or more", o.Attempts))
	}
	return errors.Join(errs...)
}

// New is a worker on what st holds. Workers of one process share a cache.
func New(st *store.Store, lib *library.Library, cache *Cache, opts Options) (*Service, error) {
	if err := opts.check(); err != nil {
		return nil, err
	}
	return &Service{
		store: st, library: lib, cache: cache, opts: opts,
		reader: store.Reader{Group: opts.Group, Consumer: opts.Consumer, Tenants: opts.Tenants},
	}, nil
}

// Held are the messages that were read and not handled yet.
func (s *Service) Held() []store.Message { return s.todo }

// Step does one round of work. It says when it wants the next one: at once if
// that is past, never (before something is written to a stream) if it is zero.
func (s *Service) Step(ctx context.Context) (wake time.Time, err error) {
	now, wake, err := s.fetch(ctx)
	if err != nil || len(s.todo) == 0 {
		return wake, err
	}
	var idle []store.Message
	for len(s.todo) > 0 {
		m := s.todo[0]
		if !concerns(m.Event.Type) {
			idle = append(idle, m)
		} else if err := s.handle(ctx, m); err != nil {
			return now, err
		}
		s.todo = s.todo[1:]
	}
	return now, s.store.Ack(ctx, idle...)
}

// fetch reads new events, or claims those of dead consumers.
func (s *Service) fetch(ctx context.Context) (now, wake time.Time, err error) {
	if len(s.todo) > 0 {
		now, err = s.store.Now(ctx)
		return now, now, err
	}
	s.todo, now, err = s.store.Read(ctx, s.reader, s.opts.Batch, s.opts.Block)
	if err != nil || len(s.todo) > 0 {
		return now, now, err
	}
	s.todo, wake, err = s.store.Orphans(ctx, s.reader, s.opts.Lease, s.opts.Batch, now)
	return now, wake, err
}

// concerns reports whether a worker takes events of a type: those of executions,
// and all that are not the engine's own, or of no type at all.
func concerns(t event.Type) bool {
	switch t {
	case event.ExecutionStarted, event.ExecutionCancelled, event.TaskCompleted, event.TimerFired,
		event.EventDead, event.TaskDead, event.TimerDead:
		return true
	default:
		return !strings.HasPrefix(string(t), event.Prefix)
	}
}

// handle takes one event through. An error is Redis', and the event is to be
// handled again; what is wrong with the event itself is dealt with here.
func (s *Service) handle(ctx context.Context, m store.Message) error {
	err := m.Err
	if err == nil {
		err = s.deliver(ctx, m)
	} else {
		err = &unfit{err}
	}
	var bad *unfit
	if !errors.As(err, &bad) && (err == nil || ctx.Err() != nil || store.Temporary(err)) {
		return err
	}
	return s.reject(ctx, m, err)
}

// unfit is an error that the event or its execution is to blame for, not Redis.
type unfit struct{ err error }

func (u *unfit) Error() string { return u.err.Error() }
func (u *unfit) Unwrap() error { return u.err }

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
	return s.store.Ack(ctx, m)
}

// reject delivers an event again later, or gives it up.
func (s *Service) reject(ctx context.Context, m store.Message, cause error) error {
	s.cache.take(m.Tenant, m.Event.Execution)
	attempt := m.Attempt + 1
	if attempt < s.opts.Attempts {
		_, err := s.store.Retry(ctx, m, time.Duration(attempt)*s.opts.RetryDelay)
		return err
	}
	dead := event.Dead{Reason: cause.Error(), Attempts: attempt, Service: s.opts.Group}
	if m.Event.Execution != "" {
		// An execution that cannot be written to cannot be ended either.
		if err := s.abort(ctx, m, dead); store.Temporary(err) {
			return err
		}
	}
	_, err := s.store.Bury(ctx, m, dead, nil)
	return err
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
	if err == nil && outcome == store.Committed && s.opts.Observe != nil {
		s.opts.Observe(c.History)
	}
	return err
}
