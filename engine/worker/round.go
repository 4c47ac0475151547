package worker

import (
	"context"
	"slices"
	"strings"

	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/delivery"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/store"
)

// round handles a batch of messages. It decides about one after another, each based on the outcomes of
// the previous ones, and writes all commits in one round trip. Each commit succeeds or fails
// separately. A message whose commit fails, because another worker was faster or the event is bad, is
// handled again by itself.
type round struct {
	*Service

	batch      []store.Message
	executions map[address]*cachedExecution // their states once everything is written
	begun      map[string]*cachedExecution  // one that has begun with each definition, by name and version
	commits    []store.Commit
	planned    []*store.Message // the message that each commit answers
	bytes      int              // of the data in the histories of all commits of the batch, planned or not
	refused    []store.Message  // messages for which Redis has no memory
	full       error            // the error of Redis for these; nil if it has memory
}

// work handles a batch and returns what remains of it after an error. A message for which Redis has no
// memory does not stop the others, since a cancellation by an operator may be among them and free
// memory.
func (s *Service) work(ctx context.Context, batch []store.Message) (left []store.Message, err error) {
	r := &round{
		Service: s, batch: batch, executions: map[address]*cachedExecution{}, begun: map[string]*cachedExecution{},
		commits: make([]store.Commit, 0, len(batch)),
	}
	s.round = r
	defer r.keep()
	if err := r.loadCached(ctx); err != nil {
		return r.failed(0, err)
	}
	from := 0 // everything before this index is done
	for i := range batch {
		m := &batch[i]
		s.consumer().Report(delivery.Activity{What: delivery.Began, Message: *m})
		planned, err := r.plan(ctx, m)
		if err != nil {
			return r.failed(from, err)
		}
		stop := s.timeUp() || r.bytes > chunkBytes
		if !planned || stop {
			if err := r.flush(ctx); err != nil {
				return r.failed(from, err)
			}
		}
		if !planned {
			from = i
			r.keep()
			if err := r.handleSingly(ctx, m); err != nil {
				return r.remaining(from), err
			}
			from = i + 1
		}
		if stop || !planned && s.timeUp() {
			return append(r.refused, batch[i+1:]...), r.full
		}
	}
	if err := r.flush(ctx); err != nil {
		return r.failed(from, err)
	}
	return r.refused, r.full
}

// remaining returns what to repeat after an error: the batch from an index on, or all of it if Redis
// was full for some message. Messages that were already handled are detected at their commit.
func (r *round) remaining(from int) []store.Message {
	if r.full != nil {
		return r.batch
	}
	return r.batch[from:]
}

// handleSingly handles a message by itself. If Redis has no memory for it, it is set aside without an
// error.
func (r *round) handleSingly(ctx context.Context, m *store.Message) error {
	err := r.consumer().Handle(ctx, []store.Message{*m}, func() error { return r.handle(ctx, *m) })
	if store.Full(err) {
		r.refused, r.full = append(r.refused, *m), err
		return nil
	}
	return err
}

// failed reports to the observer that Redis failed, forgets what was decided, and returns what remains.
func (r *round) failed(from int, err error) (left []store.Message, _ error) {
	clear(r.executions)
	left = r.remaining(from)
	for _, m := range left {
		r.consumer().Report(delivery.Activity{What: delivery.Broken, Message: m, Err: err})
	}
	return left, err
}

// keep puts the executions that continue into the cache.
func (r *round) keep() {
	for i := range r.batch {
		m := &r.batch[i]
		if x := r.executions[addressOf(m)]; x != nil && !x.state.Status.Ended() {
			r.cache.put(m.Tenant, m.Event.Execution, x)
		}
		delete(r.executions, addressOf(m))
	}
}

// short is the length up to which histories are read together.
const short = 200

// loadCached takes the executions of the batch from the cache. If several are missing, it reads them
// together; one that is still missing is loaded separately later.
func (r *round) loadCached(ctx context.Context) error {
	var missing []string
	var behind []store.Tail
	seen := make(map[address]bool, len(r.batch))
	for i := range r.batch {
		m := &r.batch[i]
		key := addressOf(m)
		if seen[key] || !plain(m) {
			continue
		}
		seen[key] = true
		x := r.known(m, m.Event.Execution)
		if x == nil {
			if m.Event.Type != event.ExecutionStarted {
				missing = append(missing, m.Event.Execution)
			}
			continue
		}
		r.executions[key] = x
		if !x.state.Expects(m.Event) {
			behind = append(behind, store.Tail{ID: m.Event.Execution, After: x.state.Version})
		}
	}
	if err := r.catchUp(ctx, behind); err != nil {
		return err
	}
	if len(missing) < 2 {
		return nil
	}
	return r.fetch(ctx, missing)
}

// catchUp updates cached executions that do not expect their event: most of them are outdated. It drops
// those that cannot be updated.
func (r *round) catchUp(ctx context.Context, behind []store.Tail) error {
	if len(behind) == 0 {
		return nil
	}
	tenant := r.batch[0].Tenant
	if err := r.store.Tails(ctx, tenant, behind, short); err != nil {
		return r.redisError(ctx, err)
	}
	for _, t := range behind {
		key := address{tenant, t.ID}
		x := r.executions[key]
		migrated := slices.ContainsFunc(t.History, func(e event.Event) bool { return e.Type == event.ExecutionMigrated })
		if t.Err != nil || len(t.History) == short || migrated || x.state.Replay(x.env, t.History) != nil || x.state.Status.Ended() {
			delete(r.executions, key)
			continue
		}
		x.grown(t.History)
	}
	return nil
}

// fetch reads executions that the process does not have, in one round trip.
func (r *round) fetch(ctx context.Context, missing []string) error {
	found, err := r.store.WithHistories(ctx, r.batch[0].Tenant, missing, short)
	if err != nil {
		return r.redisError(ctx, err)
	}
	for _, w := range found {
		if x := r.rebuildWhole(ctx, w); x != nil {
			r.executions[address{w.Tenant, w.ID}] = x
		}
	}
	return nil
}

// rebuildWhole rebuilds a running execution from its complete history; nil if it has ended or cannot be
// rebuilt.
func (r *round) rebuildWhole(ctx context.Context, w store.WithHistory) *cachedExecution {
	if w.Version == 0 || decide.Status(w.Status).Ended() {
		return nil
	}
	env, err := r.definitions.Hash(ctx, w.Tenant, w.Workflow, w.Definition)
	if err != nil {
		return nil
	}
	x := &cachedExecution{state: decide.New(), env: env, definition: w.Definition, snapshot: w.SnapshotVersion}
	if x.state.Replay(env, w.History) != nil {
		return nil
	}
	x.grown(w.History)
	return x
}

// plan decides about a message. It returns false if the decision depends on commits that are not
// written yet, or if the message must be handled by itself, which reveals the errors of the message.
func (r *round) plan(ctx context.Context, m *store.Message) (bool, error) {
	if !plain(m) {
		return false, nil
	}
	x, err := r.find(ctx, m)
	if x == nil || err != nil {
		return false, r.redisError(ctx, err)
	}
	key := addressOf(m)
	delete(r.executions, key) // until the decision is known to be valid
	for c, err := range r.commitsOf(x, m, m.Event, true) {
		if err != nil {
			delete(r.executions, key)
			return false, r.redisError(ctx, err)
		}
		if c.Input != nil && c.Input.DeadLetter != "" {
			return false, nil
		}
		r.executions[key] = x
		r.commits, r.planned = append(r.commits, c), append(r.planned, m)
		if c.Ack {
			break
		}
		// It does not fit into one commit.
		if err := r.flush(ctx); err != nil {
			return false, err
		}
		if r.executions[key] == nil {
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

// redisError returns an error only if Redis or the connection caused it.
func (*round) redisError(ctx context.Context, err error) error {
	if err != nil && delivery.ClassOf(ctx, err) == "" {
		return err
	}
	return nil
}

// find returns the execution of a message; nil if its state is unknown.
func (r *round) find(ctx context.Context, m *store.Message) (*cachedExecution, error) {
	if x := r.executions[addressOf(m)]; x != nil {
		return x, nil
	}
	if x := r.known(m, m.Event.Execution); x != nil {
		return x, nil
	}
	if m.Event.Type == event.ExecutionStarted {
		return r.begin(ctx, m) // if it has already begun, the commit detects it
	}
	return r.load(ctx, *m, m.Event)
}

// begin returns the state of a new execution.
func (r *round) begin(ctx context.Context, m *store.Message) (*cachedExecution, error) {
	started, err := decide.StartOf(m.Event)
	if err != nil {
		return nil, delivery.As(delivery.Permanent, err)
	}
	name := started.Workflow() + ":" + started.Version
	x, err := r.first(ctx, m.Tenant, m.Event.Execution, &started, r.begun[name])
	if err == nil && x.refused == nil {
		r.begun[name] = x
	}
	return x, err
}

// flush writes the planned commits, and separately handles the messages whose commits failed.
func (r *round) flush(ctx context.Context) error {
	if len(r.commits) == 0 {
		return nil
	}
	commits, planned := r.commits, r.planned
	r.commits, r.planned = nil, nil
	done, err := r.store.CommitAll(ctx, commits)
	if store.Full(err) {
		done, err = slices.Repeat([]store.Committing{{Err: err}}, len(commits)), nil
	}
	if err != nil {
		return err
	}
	var retry []*store.Message
	for i := range commits {
		if !r.finish(&commits[i], done[i], planned[i]) && (len(retry) == 0 || retry[len(retry)-1] != planned[i]) {
			retry = append(retry, planned[i])
		}
	}
	for _, m := range retry {
		if err := r.handleSingly(ctx, m); err != nil {
			return err
		}
	}
	return nil
}

// finish processes the outcome of a commit and reports whether its message is settled.
func (r *round) finish(c *store.Commit, done store.Committing, m *store.Message) bool {
	written := done.Err == nil && done.Outcome == store.Committed
	fenced := done.Err == nil && done.Outcome == store.Fenced
	if written {
		r.committed(c)
	} else {
		delete(r.executions, addressOf(m))
	}
	if written && c.Ack || fenced {
		r.consumer().Report(delivery.Activity{What: delivery.Done, Message: *m})
	}
	return written || fenced
}
