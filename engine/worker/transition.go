package worker

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/delivery"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/expr/canonical"
	"flunq.io/flunq/engine/history"
	"flunq.io/flunq/engine/store"
)

// conflicts is the number of consecutive commits that may lose to other workers before the event is
// delivered again later.
const conflicts = 20

// transition applies an event to its execution and writes each commit immediately. With ack, the last
// one also acknowledges the message.
func (s *Service) transition(ctx context.Context, m store.Message, e event.Event, ack bool) error {
	for range conflicts {
		x, err := s.load(ctx, m, e)
		if err != nil {
			return err
		}
		if x == nil { // no such execution, or it has ended
			if ack {
				err = s.drop(ctx, m, e)
			}
			return err
		}
		var outcome store.Outcome
		for c, err := range s.commitsOf(x, &m, e, ack) {
			if err != nil {
				return err
			}
			outcome, err = s.write(ctx, &c)
			if err != nil {
				return err
			}
			if outcome != store.Committed {
				break
			}
		}
		if outcome == store.Committed && !x.state.Status.Ended() {
			s.cache.put(m.Tenant, e.Execution, x)
		}
		if outcome != store.Conflict {
			return nil
		}
	}
	return delivery.As(delivery.Transient, fmt.Errorf("%d workers in a row were faster", conflicts))
}

// write writes one commit.
func (s *Service) write(ctx context.Context, c *store.Commit) (store.Outcome, error) {
	outcome, err := s.store.Commit(ctx, *c)
	if err == nil && outcome == store.Committed {
		s.reportCommit(c)
	}
	return outcome, err
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

// load returns the state of an event's execution: cached, or rebuilt from the snapshot and the history
// after it. It returns nil if the execution does not exist or has ended, and a new state for one that
// begins.
func (s *Service) load(ctx context.Context, m store.Message, e event.Event) (*cachedExecution, error) {
	tenant := m.Tenant
	if x := s.known(&m, e.Execution); x != nil {
		return x, nil
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

// commitsOf applies an event to an execution and yields the resulting commits; a long step has
// several. The caller writes each one before it takes the next. An event that changes nothing is also
// committed: if the state was outdated, the commit conflicts. With ack, the last commit acknowledges
// the message. After an error, which comes last, the caller must discard the execution.
func (s *Service) commitsOf(x *cachedExecution, m *store.Message, e event.Event, ack bool) iter.Seq2[store.Commit, error] {
	return func(yield func(store.Commit, error) bool) {
		before, base := x.state.Version, x.state.Version
		x.lifecycle = s.lifecycleOf(x, &e)
		for applied, last := false, false; !last; applied = true {
			var d decide.Decision
			if err := s.decide(x, e, applied, &d); err != nil {
				yield(store.Commit{}, err)
				return
			}
			last = !x.state.Ready()
			if !last && (!ack || x.state.Version-before >= stepEntries || s.timeUp()) {
				// An event of its own continues a long step so that operators' commands can be handled in between,
				// and at once what an external event began: the execution may no longer listen if that is delivered again.
				d.Publish, last = append(d.Publish, decide.Continuation(x.state)), true
			}
			c, err := s.newCommit(x, m, ack && last, base, &d)
			if !yield(c, err) || err != nil {
				return
			}
			base = x.state.Version
		}
	}
}

// decide applies an event, unless it is applied already, and then computes tasks until the commit is large
// enough or nothing is left. A panic becomes an error of the event so that it does not end the process.
func (s *Service) decide(x *cachedExecution, e event.Event, applied bool, d *decide.Decision) (err error) {
	defer recovered(&err)
	if !applied {
		fired, input := decide.InputOf(e)
		switch starts := e.Type == event.ExecutionStarted; {
		case starts && x.env == nil && x.state.Status != "": // refused earlier in the same step
		case starts && x.env == nil:
			x.state, err = decide.Reject(e, *x.refused, d)
		case starts:
			_, err = x.state.Apply(x.env, x.env.Begin(e), d)
		case input:
			err = x.state.Take(x.env, fired, e, d)
		default:
			_, err = x.state.Apply(x.env, e, d)
		}
		if err != nil {
			return delivery.As(delivery.Permanent, err)
		}
	}
	bytes, counted := 0, 0
	for first := true; x.state.Ready() && len(d.History) < s.opts.Chunk && bytes < chunkBytes && (first || !s.timeUp()); first = false {
		if err := x.state.Advance(x.env, d); err != nil {
			return delivery.As(delivery.Recoverable, err)
		}
		for _, e := range d.History[counted:] {
			bytes += len(e.Data)
		}
		counted = len(d.History)
	}
	return nil
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
func (s *Service) newCommit(x *cachedExecution, m *store.Message, ack bool, base int64, d *decide.Decision) (store.Commit, error) {
	st := x.state
	for i := range d.Publish {
		if d.Publish[i].Type == event.TaskRequested {
			d.Publish[i].Ext = map[string]string{event.DefinitionAttribute: x.definition}
		}
	}
	c := store.Commit{
		Message: m, Ack: ack,
		Tenant: st.Tenant, Execution: st.Execution, Version: base,
		History: d.History, Publish: d.Publish, Cancel: d.Cancel, Listen: d.Listen, Unlisten: d.Unlisten,
		Workflow: st.Workflow, Definition: x.definition, Parent: st.Parent, ParentTask: st.ParentTask,
		Status: string(st.Status), Ended: st.Status.Ended(), Now: st.Now, Started: st.StartedAt,
	}
	if s.opts.Descendants > 0 {
		c.Root = st.RootOf()
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
	announce(&c, x.lifecycle)
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
