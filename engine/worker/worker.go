// Package worker is the service that decides what happens next: it takes events
// in, lets decide find their consequences, and commits each transition at once.
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
)

// Service is one worker. Several may run side by side, in one process or many.
type Service struct {
	inbox     *Inbox
	store     *store.Store
	documents *definitions.Cache
	cache     *Cache
	opts      Options
	round     *round    // reused, as only one is made at a time
	began     time.Time // of the step, by the options' clock
}

// Options of a Service.
type Options struct {
	Chunk     int // history entries in one commit, about; 1 to 1000
	Snapshots int // entries behind which a snapshot is written, or more where the state is large; 1 to 1000

	// Trust is for how long a state is used again without being read. Executions must
	// be kept longer than that once they have ended; 0: they are never removed.
	Trust time.Duration

	// Committed, if set, is shown what was committed behind a version, in order. What
	// a lost reply, or the end of a process, kept from being known is not shown. The
	// slice is the worker's again after that.
	Committed func(after int64, entries []event.Event)

	// Descendants is how many executions may be open below one that no other has begun;
	// 0: as many as there are.
	Descendants int

	// Room, if set, is what Redis has left for executions that begin, shared by the
	// workers of a process.
	Headroom *Headroom

	// Clock, if set, says when a step has worked for long enough: what is left then is
	// for later ones, which see what operators want meanwhile. The zero time is no answer.
	Clock func() time.Time
}

// A step hands on what it has not come to, so that commands and other tenants get their
// turn, and a process that is told to stop can.
const (
	stepTime    = 100 * time.Millisecond
	stepEntries = 2048 // of one execution's history
)

// Defaults are the options of an ordinary deployment.
func Defaults() Options { return Options{Chunk: 256, Snapshots: 256} }

// New is a worker on what arrives in an inbox. Workers of one process share a cache.
func New(st *store.Store, lib *definitions.Cache, cache *Cache, inbox *Inbox, opts Options) *Service {
	s := &Service{inbox: inbox, store: st, documents: lib, cache: cache, opts: opts}
	s.round = newRound(s)
	return s
}

// Step takes one batch of messages through, if there are any. It says when it
// wants to be called again: at once if that is past, never (before something is
// written to a stream) if it is zero.
func (s *Service) Step(ctx context.Context) (wake time.Time, err error) {
	batch, wake, err := s.inbox.take(ctx)
	if err != nil || len(batch) == 0 {
		return wake, err
	}
	if s.opts.Clock != nil {
		s.began = s.opts.Clock()
	}
	left, err := s.work(ctx, batch)
	if store.Full(err) {
		left = s.inbox.release(ctx, left)
	}
	s.inbox.done(batch, left, err == nil)
	return time.Time{}.Add(1), err // long past
}

// over reports whether the step has worked for long enough.
func (s *Service) over() bool { return !s.began.IsZero() && s.opts.Clock().Sub(s.began) > stepTime }

// enough reports whether the step has done enough for an execution that had so many
// entries as it began with it.
func (s *Service) enough(x *execution, before int64) bool {
	return x.state.Version-before >= stepEntries || s.over()
}

func (s *Service) consumer() *delivery.Consumer { return s.inbox.consumer }

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
	// An execution that cannot take the event keeps it from no other.
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
	return s.store.AcknowledgeOwned(ctx, m)
}

// reject delivers an event again later, or gives it up and its execution with it.
func (s *Service) reject(ctx context.Context, m store.Message, cause error) error {
	s.cache.take(m.Tenant, m.Event.Execution)
	if again, err := s.consumer().Retry(ctx, m, cause); again || err != nil {
		return err
	}
	dead := s.consumer().Dead(m, cause)
	if m.Event.Execution != "" && strings.HasPrefix(string(m.Event.Type), event.Prefix) {
		// An execution that cannot be written to cannot be ended either.
		if over, err := s.abort(ctx, m, dead); over || store.Temporary(err) {
			return err
		}
	}
	return s.consumer().DeadLetter(ctx, m, dead, nil)
}
