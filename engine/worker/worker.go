// Package worker is the service that decides what happens next: it reads events, applies them with
// decide, and commits each transition atomically.
//
// The documentation of package engine follows a message through it. What cannot be planned, such as an
// event from outside or one with an error, is handled singly.
package worker

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/definitions"
	"flunq.io/flunq/engine/delivery"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/expr/canonical"
	"flunq.io/flunq/engine/history"
	"flunq.io/flunq/engine/store"
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
	handled    int              // messages of the batch before this index are done
	left       []store.Message  // what to put back at the end
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
// for a time in the past, and for the zero time only when something is written to a stream. A message
// for which Redis has no memory does not stop the others, since a cancellation by an operator may be
// among them and free memory.
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
	s.step = step{
		batch: batch, executions: map[address]*cachedExecution{}, begun: map[string]*cachedExecution{},
		commits: make([]store.Commit, 0, len(batch)),
	}
	defer func() { s.end(ctx, err) }()
	wake = time.Time{}.Add(1) // in the past: call again immediately
	if err := s.loadCached(ctx); err != nil {
		return wake, s.failed(err)
	}
	for i := range batch {
		m := &batch[i]
		s.consumer().Report(delivery.Activity{What: delivery.Began, Message: *m})
		planned, err := s.plan(ctx, m)
		stop := s.timeUp() || s.bytes > chunkBytes
		if err == nil && (stop || !planned) {
			err = s.flush(ctx)
		}
		if err != nil {
			return wake, s.failed(err)
		}
		if !planned {
			s.handled = i
			s.keep()
			if err := s.handleSingly(ctx, m); err != nil {
				s.left = s.remaining()
				return wake, err
			}
			s.handled = i + 1
		}
		if stop || !planned && s.timeUp() {
			s.left = append(s.refused, batch[i+1:]...)
			return wake, s.full
		}
	}
	if err := s.flush(ctx); err != nil {
		return wake, s.failed(err)
	}
	s.left = s.refused
	return wake, s.full
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
		var err error
		if x, err = s.load(ctx, *m, m.Event, s.begun); x == nil || err != nil {
			return false, redisError(ctx, err)
		}
	}
	delete(s.executions, key) // until the decision is known to be valid
	for t := s.newTransition(x, m, m.Event, true); ; {
		c, err := s.decide(&t)
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
			return true, nil
		}
		// It does not fit into one commit.
		if err := s.flush(ctx); err != nil {
			return false, err
		}
		if s.executions[key] == nil {
			return true, nil // flush has handled it by itself
		}
	}
}

// plain reports whether a message is a valid event of the engine about an execution.
func plain(m *store.Message) bool {
	retried := m.Event.Type == event.TimerFired && m.Attempt > 0 // an input, unless it was superseded
	return m.Err == nil && !retried && !delivery.PoisonCandidate(*m) && m.Event.Execution != "" && strings.HasPrefix(string(m.Event.Type), event.Prefix)
}

// transition is what an event does to an execution. A long one has several commits.
type transition struct {
	x         *cachedExecution
	message   *store.Message
	event     event.Event
	ack       bool               // the last commit acknowledges the message
	before    int64              // version of the execution before it
	applied   bool               // the event is applied; what it has made ready may be left
	done      bool               // the last commit is decided
	lifecycle *history.Lifecycle // derives lifecycle events; nil: they are not published
}

func (s *Service) newTransition(x *cachedExecution, m *store.Message, e event.Event, ack bool) transition {
	return transition{x: x, message: m, event: e, ack: ack, before: x.state.Version, lifecycle: s.lifecycleOf(x, &e)}
}

// decide returns the next commit of a transition. It applies the event, unless it is applied already, and
// computes tasks until the commit is large enough or nothing is left. The caller writes the commit before
// the next call. An event that changes nothing is also committed: if the state was outdated, the commit
// conflicts. After an error the caller must discard the execution. A panic becomes an error of the event so
// that it does not end the process.
func (s *Service) decide(t *transition) (c store.Commit, err error) {
	defer recovered(&err)
	var d decide.Decision
	x, e, base := t.x, t.event, t.x.state.Version
	if !t.applied {
		fired, input := decide.InputOf(e)
		switch starts := e.Type == event.ExecutionStarted; {
		case starts && x.env == nil && x.state.Status != "": // refused earlier in the same step
		case starts && x.env == nil:
			x.state, err = decide.Reject(e, *x.refused, &d)
		case starts:
			_, err = x.state.Apply(x.env, x.env.Begin(e), &d)
		case input:
			err = x.state.Take(x.env, fired, e, &d)
		default:
			_, err = x.state.Apply(x.env, e, &d)
		}
		if err != nil {
			return c, delivery.As(delivery.Permanent, err)
		}
		t.applied = true
	}
	bytes, counted := 0, 0
	for first := true; x.state.Ready() && len(d.History) < s.opts.Chunk && bytes < chunkBytes && (first || !s.timeUp()); first = false {
		x.state.Advance(x.env, &d)
		for _, e := range d.History[counted:] {
			bytes += len(e.Data)
		}
		counted = len(d.History)
	}
	t.done = !x.state.Ready()
	if !t.done && (!t.ack || x.state.Version-t.before >= stepEntries || s.timeUp()) {
		// An event of its own continues a long step so that operators' commands can be handled in between,
		// and at once what an external event began: the execution may no longer listen if that is delivered again.
		d.Publish, t.done = append(d.Publish, decide.Continuation(x.state)), true
	}
	return s.newCommit(t, base, &d)
}

// chunkBytes is the approximate amount of data in one commit. Redis serves no other client while it
// processes a commit.
const chunkBytes = 1 << 20

// recovered, which is deferred, turns a panic of a decision into an error.
func recovered(err *error) {
	if r := recover(); r != nil {
		*err = delivery.As(delivery.Recoverable, fmt.Errorf("decide: %v", r))
	}
}

// newCommit turns a decision on version base of an execution into a commit.
func (s *Service) newCommit(t *transition, base int64, d *decide.Decision) (store.Commit, error) {
	x, st := t.x, t.x.state
	for i := range d.Publish {
		if d.Publish[i].Type == event.TaskRequested {
			d.Publish[i].Ext = map[string]string{event.DefinitionAttribute: x.definition}
		}
	}
	c := store.Commit{
		Message: t.message, Ack: t.ack && t.done,
		Tenant: st.Tenant, Execution: st.Execution, Version: base,
		History: d.History, Publish: d.Publish, Cancel: d.Cancel, Listen: d.Listen, Unlisten: d.Unlisten,
		Workflow: st.Workflow, Definition: x.definition, Parent: st.Parent, ParentTask: st.ParentTask,
		Status: string(st.Status), Ended: st.Status.Ended(), Now: st.Now, Started: st.StartedAt,
	}
	if s.opts.Descendants > 0 {
		c.Root = decide.RootOf(st.Execution, st.Depth)
	}
	for i := range c.History {
		s.bytes += len(c.History[i].Data)
	}
	if d.Input != nil {
		if err := s.addInput(&c, d.Input); err != nil {
			return c, delivery.As(delivery.Permanent, err)
		}
	}
	switch {
	case st.Status == decide.Completed:
		c.Output = canonical.Encode(st.Output.V)
	case st.Error != nil:
		c.Error = event.Encode(st.Error)
	case x.due(s.opts.Snapshots):
		var err error
		if c.Snapshot, err = st.Snapshot(); err != nil {
			return c, delivery.As(delivery.Recoverable, err)
		}
	}
	announce(&c, t.lifecycle)
	if x.grown(c.History); c.Snapshot != nil {
		x.snapshot, x.snapshotBytes, x.newBytes = st.Version, len(c.Snapshot), 0
	}
	return c, nil
}

// A snapshot of n bytes is written after at least n/snapshotWeight entries so that
// snapshots of large states cost less than the history itself.
const snapshotWeight = 64 // bytes of snapshot per entry

// due reports whether reading the history since the last snapshot has become more
// expensive than writing a new one.
func (e *cachedExecution) due(every int) bool {
	return e.state.Version-e.snapshot >= max(int64(every), int64(e.snapshotBytes/snapshotWeight))
}

// flush writes the planned commits, and separately handles the messages whose commits failed.
func (s *Service) flush(ctx context.Context) error {
	if len(s.commits) == 0 {
		return nil
	}
	commits, planned := s.commits, s.planned
	s.commits, s.planned = nil, nil
	done, err := s.store.CommitAll(ctx, commits)
	if store.Full(err) {
		done, err = slices.Repeat([]store.Committing{{Err: err}}, len(commits)), nil
	}
	if err != nil {
		return err
	}
	var retry []*store.Message
	for i := range commits {
		c, m := &commits[i], planned[i]
		written := done[i].Err == nil && done[i].Outcome == store.Committed
		fenced := done[i].Err == nil && done[i].Outcome == store.Fenced
		if written {
			s.reportCommit(c)
		} else {
			delete(s.executions, addressOf(m))
		}
		switch {
		case written && c.Ack, fenced:
			s.consumer().Report(delivery.Activity{What: delivery.Done, Message: *m})
		case !written && (len(retry) == 0 || retry[len(retry)-1] != m):
			retry = append(retry, m)
		}
	}
	for _, m := range retry {
		if err := s.handleSingly(ctx, m); err != nil {
			return err
		}
	}
	return nil
}

// reportCommit reports what was written.
func (s *Service) reportCommit(c *store.Commit) {
	if c.DeadLetter != nil {
		s.consumer().DeadLettered(*c.Message, *c.DeadLetter)
	}
	if c.Input != nil {
		s.reportInput(*c.Message, c.Input.Outcome)
	}
	if s.opts.Committed != nil && len(c.History) > 0 {
		s.opts.Committed(c.Version, c.History)
	}
}

// lifecycleOf returns the Lifecycle that derives the events of a transition caused by e, or nil if they are
// not published.
func (s *Service) lifecycleOf(x *cachedExecution, e *event.Event) *history.Lifecycle {
	if !s.opts.Lifecycle {
		return nil
	}
	l := &history.Lifecycle{}
	if x.env != nil {
		l.Version = x.env.Definition().Document.Version
	}
	if e.Type == event.ExecutionSuspended || e.Type == event.ExecutionResumed {
		l.Open = map[string]bool{}
		for _, n := range x.state.Open() {
			l.Open[n.Run.String()] = true
		}
		for _, deferred := range x.state.Deferred {
			if deferred.Type == event.TaskCompleted { // the history has its end already
				delete(l.Open, deferred.Task)
			}
		}
	}
	return l
}

// announce adds the lifecycle events of a commit, if any, to what it publishes.
func announce(c *store.Commit, l *history.Lifecycle) {
	if l == nil {
		return
	}
	for i, e := range c.History {
		c.Publish = append(c.Publish, l.Add(c.Version+int64(i)+1, e)...)
	}
}

// end caches the executions that continue, and puts back what remains of the batch.
func (s *Service) end(ctx context.Context, err error) {
	s.keep()
	if store.Full(err) {
		s.left = s.inbox.release(ctx, s.left)
	}
	if !s.stepStart.IsZero() {
		s.inbox.pause(s.batch[0].Tenant, s.bytes)
	}
	s.inbox.done(s.batch, s.left, err == nil)
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

// failed reports to the observer that Redis failed, forgets what was decided, and returns the error.
func (s *Service) failed(err error) error {
	clear(s.executions)
	s.left = s.remaining()
	for _, m := range s.left {
		s.consumer().Report(delivery.Activity{What: delivery.Broken, Message: m, Err: err})
	}
	return err
}

// remaining returns what to repeat after an error: the messages that are not done, or the whole batch if
// Redis was full for some message. Messages that were already handled are detected at their commit.
func (s *Service) remaining() []store.Message {
	if s.full != nil {
		return s.batch
	}
	return s.batch[s.handled:]
}

// timeUp reports whether the step has worked for long enough.
func (s *Service) timeUp() bool {
	return !s.stepStart.IsZero() && s.opts.Clock().Sub(s.stepStart) > stepTime
}

func (s *Service) consumer() *delivery.Consumer { return s.inbox.consumer }
