// Package worker is the service that decides what happens next: it reads events, applies them with
// decide, and commits each transition atomically.
package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/definitions"
	"flunq.io/flunq/engine/delivery"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/stream"
)

// Service is one worker. Several may run concurrently, in one process or in many.
type Service struct {
	inbox       *Inbox
	store       *store.Store
	definitions *definitions.Cache
	cache       *Cache
	opts        Options
	round       *round    // of the current step
	stepStart   time.Time // when the step began, by Options.Clock
}

// Options of a Service.
type Options struct {
	Chunk     int // approximate number of history entries in one commit; 1 to 1000
	Snapshots int // entries between snapshots, more for large states; 1 to 1000

	// Trust is how long a cached state is used without reading it from Redis. Ended executions must be
	// retained for longer. 0 means forever, if executions are never removed.
	Trust time.Duration

	// Committed, if set, receives the entries committed after a version, in order. It misses commits
	// whose reply was lost or whose process crashed.
	Committed func(after int64, entries []event.Event)

	// Descendants limits the open executions below a root execution; 0 means no limit.
	Descendants int

	// OpenLimit, if set, limits how many executions a tenant may have open. The workers of a process
	// share it.
	OpenLimit *OpenLimit

	// Headroom, if set, determines whether Redis has memory for new executions. The workers of a process
	// share it.
	Headroom *Headroom

	// Observations records what became of each input.
	Observations bool

	// Lifecycle publishes lifecycle events, for bridges.
	Lifecycle bool

	// Clock, if set, ends a step that has worked for long enough. Later steps do the rest, after
	// operators' commands that arrived in the meantime. A zero time means unknown.
	Clock func() time.Time
}

// A long step hands its rest on, so that commands and other tenants get their turn and a
// process can stop promptly.
const (
	stepTime    = 100 * time.Millisecond
	stepEntries = 2048 // of one execution's history
)

// Defaults are the options of an ordinary deployment.
func Defaults() Options { return Options{Chunk: 256, Snapshots: 256} }

// New returns a worker that reads from an inbox. Workers of one process share a cache.
func New(st *store.Store, known *definitions.Cache, cache *Cache, inbox *Inbox, opts Options) *Service {
	return &Service{inbox: inbox, store: st, definitions: known, cache: cache, opts: opts}
}

// Step handles one batch of messages, if there are any. It returns when to call it again: immediately
// for a time in the past, and for the zero time only when something is written to a stream.
func (s *Service) Step(ctx context.Context) (wake time.Time, err error) {
	if s.opts.Clock != nil {
		s.stepStart = s.opts.Clock()
		s.inbox.fetchCommands(ctx, s.stepStart)
	}
	batch, wake, err := s.inbox.take(ctx)
	if err != nil || len(batch) == 0 {
		return wake, err
	}
	if s.opts.Clock != nil {
		s.stepStart = s.opts.Clock()
	}
	left, err := s.work(ctx, batch)
	if store.Full(err) {
		left = s.inbox.release(ctx, left)
	}
	if !s.stepStart.IsZero() {
		s.inbox.pause(batch[0].Tenant, s.round.bytes)
	}
	s.inbox.done(batch, left, err == nil)
	return time.Time{}.Add(1), err // in the past: call again immediately
}

// timeUp reports whether the step has worked for long enough.
func (s *Service) timeUp() bool {
	return !s.stepStart.IsZero() && s.opts.Clock().Sub(s.stepStart) > stepTime
}

// stepFull reports whether the step has done enough for an execution that had before entries when the
// step began.
func (s *Service) stepFull(x *cachedExecution, before int64) bool {
	return x.state.Version-before >= stepEntries || s.timeUp()
}

func (s *Service) consumer() *delivery.Consumer { return s.inbox.consumer }

// handle handles one event. It returns only errors of Redis, after which the event must be handled
// again. It settles errors of the event itself.
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
		if superseded, err := s.superseded(ctx, &m); superseded || err != nil {
			return err
		}
		return s.transition(ctx, m, m.Event, true)
	}
	// The other listeners get the event even if one execution cannot handle it.
	var untaken error
	err := s.store.EachListener(ctx, m.Tenant, string(m.Event.Type), func(id string) error {
		err := s.transition(ctx, m, decide.Received(m.Event, id), false)
		if err != nil && delivery.ClassOf(ctx, err) != "" {
			untaken = errors.Join(untaken, fmt.Errorf("execution %s: %w", id, err))
			return nil
		}
		return err
	})
	if err = cmp.Or(err, untaken); err != nil {
		return err
	}
	return stream.New(s.store).AcknowledgeOwned(ctx, m)
}

// reject delivers an event again later, or dead-letters it and faults its execution.
func (s *Service) reject(ctx context.Context, m store.Message, cause error) error {
	s.cache.take(m.Tenant, m.Event.Execution)
	if retried, err := s.consumer().Retry(ctx, m, cause); retried || err != nil {
		return err
	}
	dead := s.consumer().Dead(m, cause)
	if m.Event.Execution != "" && strings.HasPrefix(string(m.Event.Type), event.Prefix) && !errors.Is(cause, errNoExecution) {
		// An execution that cannot be written cannot be ended either.
		if over, err := s.abort(ctx, m, dead); over || store.Temporary(err) {
			return err
		}
	}
	err := s.consumer().DeadLetter(ctx, m, dead, nil)
	if err == nil && errors.Is(cause, errNoExecution) {
		s.reportInput(m, store.InputUnknown)
	}
	return err
}
