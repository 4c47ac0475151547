package worker

import (
	"context"
	"errors"
	"fmt"

	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/delivery"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/expr"
	"flunq.io/flunq/engine/store"
)

// conflicts is how often a transition is decided again because another worker
// was faster, before the event is put off.
const conflicts = 20

// transition applies an event to its execution and commits what follows. With
// ack the last commit acknowledges the message too.
func (s *Service) transition(ctx context.Context, m store.Message, e event.Event, ack bool) error {
	for range conflicts {
		outcome, err := s.try(ctx, m, e, ack)
		if err != nil || outcome != store.Conflict {
			return err
		}
	}
	return delivery.As(delivery.Transient, fmt.Errorf("%d workers in a row were faster", conflicts))
}

// try is one attempt at a transition.
func (s *Service) try(ctx context.Context, m store.Message, e event.Event, ack bool) (store.Outcome, error) {
	x, err := s.load(ctx, m, e)
	if err != nil {
		return store.Fenced, err
	}
	if x == nil { // there is no such execution
		return store.Committed, s.ackIf(ctx, m, ack)
	}
	base := x.state.Version
	before := base
	var d decide.Decision
	applied, err := apply(x, e, &d)
	if err != nil {
		return store.Fenced, err
	}
	if !applied && !x.state.Ready() {
		return s.pass(ctx, x, step{&m, ack, base, &d})
	}
	for {
		if err := s.advance(x, &d); err != nil {
			return store.Fenced, err
		}
		last := s.handOn(x, step{&m, ack, base, &d}, before)
		outcome, err := s.commit(ctx, x, step{&m, ack && last, base, &d})
		if err != nil || outcome != store.Committed {
			return outcome, err
		}
		if last {
			s.keep(m.Tenant, e.Execution, x)
			return outcome, nil
		}
		base, d = x.state.Version, decide.Decision{}
	}
}

// handOn leaves what a step has not come to, to an event of its own, behind what operators
// want meanwhile. What an event from outside has begun, and one commit does not hold, is
// left so at once: when that event comes once more the execution may not listen any more.
// It reports whether the commit is the last one of the message.
func (s *Service) handOn(x *execution, d step, before int64) (last bool) {
	if !x.state.Ready() {
		return true
	}
	if d.ack && !s.enough(x, before) {
		return false
	}
	d.Publish = append(d.Publish, further(x.state))
	return true
}

// further is an event that means nothing by itself: whoever takes it goes on with what
// is left to do.
func further(st *decide.State) event.Event {
	return event.Event{
		ID: fmt.Sprintf("%s/%d/further", st.Execution, st.Version), Source: decide.Source, Type: event.TaskCompleted, Time: st.Now,
		Tenant: st.Tenant, Workflow: st.Workflow, Execution: st.Execution, Data: []byte("{}"),
	}
}

func (s *Service) keep(tenant, id string, x *execution) {
	if !x.state.Status.Ended() {
		s.cache.put(tenant, id, x)
	}
}

func (s *Service) ackIf(ctx context.Context, m store.Message, ack bool) error {
	if !ack {
		return nil
	}
	return s.store.AcknowledgeOwned(ctx, m)
}

// pass commits that an event means nothing, because the state may be outdated
// that said so: then it is a conflict like any other.
func (s *Service) pass(ctx context.Context, x *execution, d step) (store.Outcome, error) {
	outcome, err := s.store.Commit(ctx, store.Commit{
		Message: d.message, Ack: d.ack, Tenant: x.state.Tenant, Execution: x.state.Execution,
		Version: d.base, Status: string(x.state.Status), Now: x.state.Now,
	})
	if err == nil && outcome == store.Committed {
		s.keep(x.state.Tenant, x.state.Execution, x)
	}
	return outcome, err
}

// apply decides; what the engine did not expect is the event's fault, not the process' end.
func apply(x *execution, e event.Event, d *decide.Decision) (applied bool, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = delivery.As(delivery.Recoverable, fmt.Errorf("decide: %v", r))
		}
	}()
	if e.Type == event.ExecutionStarted && x.env == nil {
		if x.state.Status != "" { // it was refused before, in the same round
			return false, nil
		}
		if x.refused != nil {
			x.state, err = decide.Refuse(e, x.refused, d)
			return err == nil, delivery.As(delivery.Permanent, err)
		}
		p := event.NewProblem(event.Configuration, "workflow "+startedName(e)+" is not registered")
		x.state, err = decide.Refuse(e, p, d)
		return err == nil, delivery.As(delivery.Permanent, err)
	}
	if e.Type == event.ExecutionStarted {
		e = x.env.Begin(e)
	}
	applied, err = x.state.Apply(x.env, e, d)
	return applied, delivery.As(delivery.Permanent, err)
}

// advance computes tasks until the commit is large enough or nothing is left.
func (s *Service) advance(x *execution, d *decide.Decision) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = delivery.As(delivery.Recoverable, fmt.Errorf("decide: %v", r))
		}
	}()
	bytes, counted := 0, 0
	for first := true; x.state.Ready() && len(d.History) < s.opts.Chunk && bytes < chunkBytes && (first || !s.over()); first = false {
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

// chunkBytes is how much data one commit carries, about: Redis does nothing else
// while it takes it in.
const chunkBytes = 1 << 20

// step is a decision that is to be written.
type step struct {
	message *store.Message
	ack     bool  // nothing more is to be done for the message
	base    int64 // version that the decision was made on
	*decide.Decision
}

// commit writes one transition.
func (s *Service) commit(ctx context.Context, x *execution, d step) (store.Outcome, error) {
	c, err := s.transitionOf(x, d)
	if err != nil {
		return store.Fenced, err
	}
	outcome, err := s.store.Commit(ctx, c)
	if err != nil || outcome != store.Committed {
		return outcome, err
	}
	s.committed(&c)
	return outcome, nil
}

// transitionOf is how a decision is written. Whoever cannot write it must not use
// the execution any more.
func (s *Service) transitionOf(x *execution, d step) (store.Commit, error) {
	st := x.state
	for i := range d.Publish {
		if d.Publish[i].Type == event.TaskRequested {
			d.Publish[i].Ext = x.attributes()
		}
	}
	c := store.Commit{
		Message: d.message, Ack: d.ack,
		Tenant: st.Tenant, Execution: st.Execution, Version: d.base,
		History: d.History, Publish: d.Publish, Cancel: d.Cancel, Listen: d.Listen, Unlisten: d.Unlisten,
		Workflow: st.Workflow, Definition: x.definition, Parent: st.Parent, ParentTask: st.ParentTask, Root: s.rootOf(st),
		Status: string(st.Status), Ended: st.Status.Ended(), Now: st.Now, Started: st.StartedAt,
	}
	if err := s.addResult(&c, x); err != nil {
		return c, delivery.As(delivery.Recoverable, err)
	}
	if x.grown(c.History); c.Snapshot != nil {
		x.kept, x.weight, x.since = st.Version, len(c.Snapshot), 0
	}
	return c, nil
}

// rootOf is below which execution one is counted.
func (s *Service) rootOf(st *decide.State) string {
	if s.opts.Descendants == 0 {
		return ""
	}
	return st.RootOf()
}

// attributes are those of a request. They are shared, and nobody changes them.
func (x *execution) attributes() map[string]string {
	if x.ext == nil {
		x.ext = map[string]string{event.DefinitionAttribute: x.definition}
	}
	return x.ext
}

// committed shows what was written.
func (s *Service) committed(c *store.Commit) {
	if s.opts.Committed != nil && len(c.History) > 0 {
		s.opts.Committed(c.Version, c.History)
	}
}

// addResult adds how the execution ended, or, now and then, a snapshot.
func (s *Service) addResult(c *store.Commit, x *execution) (err error) {
	st := x.state
	switch {
	case st.Status == decide.Completed:
		c.Output = expr.Encode(st.Output.V)
	case st.Error != nil:
		c.Error, err = decide.EncodeProblem(st.Error)
	case x.due(s.opts.Snapshots):
		c.Snapshot, err = st.Snapshot()
	}
	return err
}

// Snapshots are written so seldom that they cost less than the history itself:
// after so many entries as the options say, or more where the state is large.
const snapshotWeight = 64 // bytes of snapshot for each entry

// due reports whether reading the history from the last snapshot on has become
// more work than a new snapshot is.
func (x *execution) due(every int) bool {
	return x.state.Version-x.kept >= max(int64(every), int64(x.weight/snapshotWeight))
}

// known is the state of an execution as the process has it from an earlier step; nil
// if it has none, or one so old that its id may be another execution's by now.
func (s *Service) known(m *store.Message, id string) *execution {
	x := s.cache.take(m.Tenant, id)
	if x != nil && s.opts.Trust > 0 && m.Entered().Sub(x.state.Now) > s.opts.Trust {
		return nil
	}
	return x
}

// load finds the state of an event's execution: kept from its last step, or
// rebuilt from the snapshot and the history since. It is nil if there is no
// such execution; one that begins has a new state.
func (s *Service) load(ctx context.Context, m store.Message, e event.Event) (*execution, error) {
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
		case event.ExecutionStarted:
			return s.first(ctx, tenant, e)
		case event.ExecutionCancelled, event.ExecutionSuspended, event.ExecutionResumed:
			// Its start may be on its way still; it is asked for again a little later.
			return nil, delivery.As(delivery.Recoverable, fmt.Errorf("execution %s has not begun: %w", e.Execution, delivery.ErrEarly))
		default:
			return nil, nil
		}
	}
	// What never had a definition has nothing to go on with.
	retried := e.Type == event.ExecutionRetried && kept.Status == string(decide.Faulted) && kept.Definition != ""
	if decide.Status(kept.Status).Ended() && !retried {
		return nil, nil
	}
	env, err := s.documents.Hash(ctx, tenant, kept.Workflow, kept.Definition)
	if err != nil {
		return nil, err
	}
	return s.rebuild(ctx, kept, env)
}

// first is the state of an execution that begins.
func (s *Service) first(ctx context.Context, tenant string, e event.Event) (*execution, error) {
	x := &execution{state: decide.New()}
	name, version, err := decide.StartedWorkflow(e)
	if err != nil {
		return nil, delivery.As(delivery.Permanent, err)
	}
	if x.refused, err = s.admit(ctx, tenant, e); x.refused != nil || err != nil {
		return x, err
	}
	x.env, x.definition, err = s.documents.Version(ctx, tenant, name, version)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return nil, err
	}
	return x, nil
}

// rebuild folds the history since the last snapshot.
func (s *Service) rebuild(ctx context.Context, kept store.Execution, env *decide.Env) (*execution, error) {
	state, err := decide.Restore(env, kept.Snapshot)
	if err != nil {
		return nil, delivery.As(delivery.Recoverable, fmt.Errorf("snapshot of execution %s: %w", kept.ID, err))
	}
	x := &execution{state: state, env: env, definition: kept.Definition, kept: state.Version, weight: len(kept.Snapshot)}
	for at := x.state.Version; at < kept.Version; {
		const batch = 1000
		entries, err := s.store.History(ctx, kept.Tenant, kept.ID, at, int(min(batch, kept.Version-at)))
		if err != nil {
			return nil, err
		}
		if len(entries) == 0 {
			return nil, delivery.As(delivery.Recoverable, fmt.Errorf("history of execution %s ends at version %d, want %d", kept.ID, at, kept.Version))
		}
		at += int64(len(entries))
		if err := x.state.Replay(env, entries); err != nil {
			return nil, delivery.As(delivery.Recoverable, fmt.Errorf("execution %s: %w", kept.ID, err))
		}
		x.grown(entries)
	}
	return x, nil
}

func startedName(e event.Event) string {
	name, version, err := decide.StartedWorkflow(e)
	if err != nil {
		return e.Workflow
	}
	if version == "" {
		return name
	}
	return name + ":" + version
}
