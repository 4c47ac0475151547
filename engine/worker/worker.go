// Package worker is the service that decides what happens next: it reads events, applies them with
// decide, and commits each transition atomically.
//
// Service.Step takes a batch of one tenant's messages from the Inbox. For each message it finds or
// rebuilds the state of the execution (load), applies the event and computes what is ready (commitsOf),
// and plans a commit. flush writes the planned commits: commit.lua writes histories and events, cancels
// timers, and acknowledges the messages. What cannot be planned is handled singly.
package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
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
	stepStart   time.Time // when the current step began, by Options.Clock
	step
}

// step is the batch of messages that the current step handles, and what was decided about it. A worker
// decides about one message after another, each based on the outcomes of the previous ones, and writes
// all commits in one round trip. Each commit succeeds or fails separately. A message whose commit fails,
// because another worker was faster or the event is bad, is handled again by itself.
type step struct {
	batch      []store.Message
	executions map[address]*cachedExecution // their states once everything is written
	begun      map[string]*cachedExecution  // one that has begun with each definition, by name and version
	commits    []store.Commit
	planned    []*store.Message // the message that each commit answers
	bytes      int              // of the data in the histories of all commits of the batch, planned or not
	refused    []store.Message  // messages for which Redis has no memory
	full       error            // the error of Redis for these; nil if it has memory
}

// Options of a Service.
type Options struct {
	Chunk     int // approximate number of history entries in one commit; at least 1
	Snapshots int // entries between snapshots, more for large states

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

// A long step hands its rest on so that commands and other tenants get their turn and a
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
		s.inbox.pause(batch[0].Tenant, s.bytes)
	}
	s.inbox.done(batch, left, err == nil)
	return time.Time{}.Add(1), err // in the past: call again immediately
}

// work handles a batch and returns what remains of it after an error. A message for which Redis has no
// memory does not stop the others, since a cancellation by an operator may be among them and free
// memory.
func (s *Service) work(ctx context.Context, batch []store.Message) (left []store.Message, err error) {
	s.step = step{
		batch: batch, executions: map[address]*cachedExecution{}, begun: map[string]*cachedExecution{},
		commits: make([]store.Commit, 0, len(batch)),
	}
	defer s.keep()
	if err := s.loadCached(ctx); err != nil {
		return s.failed(0, err)
	}
	from := 0 // everything before this index is done
	for i := range batch {
		m := &batch[i]
		s.consumer().Report(delivery.Activity{What: delivery.Began, Message: *m})
		planned, err := s.plan(ctx, m)
		if err != nil {
			return s.failed(from, err)
		}
		stop := s.timeUp() || s.bytes > chunkBytes
		if !planned || stop {
			if err := s.flush(ctx); err != nil {
				return s.failed(from, err)
			}
		}
		if !planned {
			from = i
			s.keep()
			if err := s.handleSingly(ctx, m); err != nil {
				return s.remaining(from), err
			}
			from = i + 1
		}
		if stop || !planned && s.timeUp() {
			return append(s.refused, batch[i+1:]...), s.full
		}
	}
	if err := s.flush(ctx); err != nil {
		return s.failed(from, err)
	}
	return s.refused, s.full
}

// plan decides about a message. It returns false if the decision depends on commits that are not
// written yet, or if the message must be handled by itself, which reveals the errors of the message.
func (s *Service) plan(ctx context.Context, m *store.Message) (bool, error) {
	if !plain(m) {
		return false, nil
	}
	key := addressOf(m)
	x := s.executions[key]
	if x == nil {
		x = s.known(m, m.Event.Execution)
	}
	var err error
	switch {
	case x != nil:
	case m.Event.Type == event.ExecutionStarted:
		x, err = s.first(ctx, m.Tenant, m.Event, s.begun) // if it has already begun, the commit detects it
	default:
		x, err = s.load(ctx, *m, m.Event)
	}
	if x == nil || err != nil {
		return false, redisError(ctx, err)
	}
	delete(s.executions, key) // until the decision is known to be valid
	for c, err := range s.commitsOf(x, m, m.Event, true) {
		if err != nil {
			delete(s.executions, key)
			return false, redisError(ctx, err)
		}
		if c.DeadLetter != nil {
			return false, nil
		}
		s.executions[key] = x
		s.commits, s.planned = append(s.commits, c), append(s.planned, m)
		if c.Ack {
			break
		}
		// It does not fit into one commit.
		if err := s.flush(ctx); err != nil {
			return false, err
		}
		if s.executions[key] == nil {
			return true, nil // flush has handled it by itself
		}
	}
	return true, nil
}

// plain reports whether a message is a valid event of the engine about an execution.
func plain(m *store.Message) bool {
	retried := m.Event.Type == event.TimerFired && m.Attempt > 0 // an input, unless it was superseded
	return m.Err == nil && !retried && !delivery.PoisonCandidate(*m) && m.Event.Execution != "" && strings.HasPrefix(string(m.Event.Type), event.Prefix)
}

// handleSingly handles a message by itself, and settles errors of the message. It returns only errors
// of Redis, after which the message must be handled again; if Redis has no memory for it, it is set
// aside without an error.
func (s *Service) handleSingly(ctx context.Context, m *store.Message) error {
	err := s.consumer().Handle(ctx, []store.Message{*m}, func() error {
		err := cmp.Or(delivery.Poison(*m), delivery.As(delivery.Permanent, m.Err))
		if err == nil {
			err = s.deliver(ctx, *m)
		}
		if err == nil || delivery.ClassOf(ctx, err) == "" {
			return err
		}
		return s.reject(ctx, *m, err)
	})
	if store.Full(err) {
		s.refused, s.full = append(s.refused, *m), err
		return nil
	}
	return err
}

// deliver handles one event by itself.
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

// timeUp reports whether the step has worked for long enough.
func (s *Service) timeUp() bool {
	return !s.stepStart.IsZero() && s.opts.Clock().Sub(s.stepStart) > stepTime
}

func (s *Service) consumer() *delivery.Consumer { return s.inbox.consumer }

// remaining returns what to repeat after an error: the batch from an index on, or all of it if Redis
// was full for some message. Messages that were already handled are detected at their commit.
func (s *Service) remaining(from int) []store.Message {
	if s.full != nil {
		return s.batch
	}
	return s.batch[from:]
}

// failed reports to the observer that Redis failed, forgets what was decided, and returns what remains.
func (s *Service) failed(from int, err error) (left []store.Message, _ error) {
	clear(s.executions)
	left = s.remaining(from)
	for _, m := range left {
		s.consumer().Report(delivery.Activity{What: delivery.Broken, Message: m, Err: err})
	}
	return left, err
}

// keep puts the executions that continue into the cache.
func (s *Service) keep() {
	for i := range s.batch {
		m := &s.batch[i]
		if x := s.executions[addressOf(m)]; x != nil && !x.state.Status.Ended() {
			s.cache.put(m.Tenant, m.Event.Execution, x)
		}
		delete(s.executions, addressOf(m))
	}
}

// redisError returns an error only if Redis or the connection caused it.
func redisError(ctx context.Context, err error) error {
	if err != nil && delivery.ClassOf(ctx, err) == "" {
		return err
	}
	return nil
}

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
