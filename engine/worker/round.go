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

// round takes a batch of messages through: it decides about one after the other,
// each on what the ones before have come to, and writes all of it in one round
// trip. Each of these commits stands for itself. A message whose commit did not
// come about, because somebody else was faster or something is wrong with it, is
// taken through again by itself.
type round struct {
	*Service

	batch       []store.Message
	executions  map[address]*execution // as they are once all is written
	definitions map[string]*execution  // by name and version: what an execution of it begins as
	commits     []store.Commit
	planned     []*store.Message // that each of the commits answers
	arena       arena            // that they are written on
	refused     []store.Message  // for which Redis has no memory …
	full        error            // … as it says; nil if it has
}

func newRound(s *Service) *round {
	return &round{Service: s, executions: map[address]*execution{}, definitions: map[string]*execution{}}
}

// end forgets what the round was about, but for the memory that it took.
func (r *round) end() {
	r.keep()
	clear(r.executions)
	clear(r.definitions)
	clear(r.commits)
	clear(r.planned)
	r.batch, r.commits, r.planned = nil, r.commits[:0], r.planned[:0]
	r.refused, r.full = nil, nil
}

// work takes a batch through, and returns what of it is left to do after an error. What
// Redis has no memory for keeps nothing else of the batch: an operator may cancel in it
// what takes the memory.
func (s *Service) work(ctx context.Context, batch []store.Message) (left []store.Message, err error) {
	r := s.round
	r.batch = batch
	r.arena.fresh(s.opts)
	defer r.end()
	if err := r.gather(ctx); err != nil {
		return batch, r.broken(batch, err)
	}
	from := 0 // all before it is done
	for i := range batch {
		m := &batch[i]
		s.consumer().Tell(delivery.Activity{What: delivery.Began, Message: *m})
		planned, err := r.plan(ctx, m)
		if err != nil {
			return r.left(from), r.broken(r.left(from), err)
		}
		if !planned || s.over() {
			if err := r.flush(ctx); err != nil {
				return r.left(from), r.broken(r.left(from), err)
			}
		}
		if !planned {
			from = i
			r.keep()
			if err := r.single(ctx, m); err != nil {
				return r.left(from), err
			}
			from = i + 1
		}
		if s.over() {
			return append(r.refused, batch[i+1:]...), r.full
		}
	}
	if err := r.flush(ctx); err != nil {
		return r.left(from), r.broken(r.left(from), err)
	}
	return r.refused, r.full
}

// left is what is to be done again after an error; all before a place is done, unless Redis
// was full for some of it. What was done is recognised.
func (r *round) left(from int) []store.Message {
	if r.full != nil {
		return r.batch
	}
	return r.batch[from:]
}

// single takes a message through by itself. That Redis is full for it is not an error yet.
func (r *round) single(ctx context.Context, m *store.Message) error {
	err := r.consumer().Handle(ctx, *m, r.handle)
	if store.Full(err) {
		r.refused, r.full = append(r.refused, *m), err
		return nil
	}
	return err
}

// broken tells that Redis did not let messages be finished, and forgets what was
// decided about them.
func (r *round) broken(msgs []store.Message, err error) error {
	clear(r.executions)
	for _, m := range msgs {
		r.consumer().Tell(delivery.Activity{What: delivery.Broken, Message: m, Err: err})
	}
	return err
}

// keep hands back the executions that go on.
func (r *round) keep() {
	for i := range r.batch {
		m := &r.batch[i]
		if x := r.executions[addressOf(m)]; x != nil && !x.state.Status.Ended() {
			r.cache.put(m.Tenant, m.Event.Execution, x)
		}
		delete(r.executions, addressOf(m))
	}
}

// short is how many entries a history has at most that is read with others.
const short = 200

// gather finds the executions of the batch that the process has, and reads those
// that it has not, if they are several, together. One that is missing after that is
// looked for by itself.
func (r *round) gather(ctx context.Context) error {
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
		switch {
		case x == nil && m.Event.Type != event.ExecutionStarted:
			missing = append(missing, m.Event.Execution)
		case x == nil:
		case x.state.Expects(m.Event):
			r.executions[key] = x
		default:
			r.executions[key] = x
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

// catchUp takes in what others have made of executions that the process has: most that
// do not expect an event are old. One that cannot be brought up to date is forgotten.
func (r *round) catchUp(ctx context.Context, behind []store.Tail) error {
	if len(behind) == 0 {
		return nil
	}
	tenant := r.batch[0].Tenant
	if err := r.store.Tails(ctx, tenant, behind, short); err != nil {
		return r.redis(ctx, err)
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

// fetch reads executions that the process does not have, together.
func (r *round) fetch(ctx context.Context, missing []string) error {
	found, err := r.store.Wholes(ctx, r.batch[0].Tenant, missing, short)
	if err != nil {
		return r.redis(ctx, err)
	}
	for _, w := range found {
		if x := r.whole(ctx, w); x != nil {
			r.executions[address{w.Tenant, w.ID}] = x
		}
	}
	return nil
}

// whole is an execution that goes on, by its history; nil if it does not, or if
// something is wrong with it.
func (r *round) whole(ctx context.Context, w store.Whole) *execution {
	if w.Version == 0 || decide.Status(w.Status).Ended() {
		return nil
	}
	env, err := r.documents.Hash(ctx, w.Tenant, w.Workflow, w.Definition)
	if err != nil {
		return nil
	}
	x := &execution{state: decide.New(), env: env, definition: w.Definition, kept: w.SnapshotVersion}
	if x.state.Replay(env, w.History) != nil {
		return nil
	}
	x.grown(w.History)
	return x
}

// plan decides what a message comes to. It reports false if that is not known
// before others have been written, or if the message needs to be by itself; what is
// wrong with it is told by whoever takes it through then.
func (r *round) plan(ctx context.Context, m *store.Message) (bool, error) {
	if !plain(m) {
		return false, nil
	}
	x, err := r.find(ctx, m)
	if x == nil || err != nil {
		return false, r.redis(ctx, err)
	}
	key := addressOf(m)
	delete(r.executions, key) // until it is known that nothing is wrong with it
	base := x.state.Version
	before := base
	d := r.arena.decision()
	if _, err := apply(x, m.Event, &d); err != nil {
		return false, r.redis(ctx, err)
	}
	for {
		last, ok := r.draft(x, m, before, step{m, true, base, &d})
		if !ok {
			return false, nil
		}
		r.executions[key] = x
		if last {
			return true, nil
		}
		// There is more to do than one commit holds.
		if err := r.flush(ctx); err != nil {
			return false, err
		}
		if r.executions[key] == nil {
			return true, nil // it has been taken through by itself
		}
		base, d = x.state.Version, r.arena.decision()
	}
}

// plain reports whether a message is an event of the engine's own about an execution.
func plain(m *store.Message) bool {
	return m.Err == nil && !delivery.PoisonCandidate(*m) && m.Event.Execution != "" && strings.HasPrefix(string(m.Event.Type), event.Prefix)
}

// redis is an error if it is Redis', or one of the way to it.
func (*round) redis(ctx context.Context, err error) error {
	if err != nil && delivery.ClassOf(ctx, err) == "" {
		return err
	}
	return nil
}

// draft goes on from what was decided, and plans the commit of it, which is the last one
// of the message or not. It reports false if that cannot be.
func (r *round) draft(x *execution, m *store.Message, before int64, d step) (last, ok bool) {
	if r.advance(x, d.Decision) != nil {
		return false, false
	}
	last = r.handOn(x, d, before)
	d.ack = last
	c, err := r.transitionOf(x, d)
	if err != nil {
		return false, false
	}
	r.arena.used(d.Decision)
	r.commits, r.planned = append(r.commits, c), append(r.planned, m)
	return last, true
}

// find is the execution of a message; nil if it is not known how it stands.
func (r *round) find(ctx context.Context, m *store.Message) (*execution, error) {
	if x := r.executions[addressOf(m)]; x != nil {
		return x, nil
	}
	if x := r.known(m, m.Event.Execution); x != nil {
		return x, nil
	}
	if m.Event.Type == event.ExecutionStarted {
		return r.begin(ctx, m) // or it has begun already, which the commit finds out
	}
	return r.load(ctx, *m, m.Event)
}

// begin is an execution at its beginning.
func (r *round) begin(ctx context.Context, m *store.Message) (*execution, error) {
	name, version, err := decide.StartedWorkflow(m.Event)
	if err != nil {
		return nil, delivery.As(delivery.Permanent, err)
	}
	name += ":" + version
	if r.definitions[name] == nil {
		known, err := r.first(ctx, m.Tenant, m.Event)
		if err != nil || known.refused != nil {
			return known, err
		}
		r.definitions[name] = known
	}
	known := r.definitions[name]
	if known.env != nil {
		refused, err := r.admit(ctx, m.Tenant, m.Event)
		if refused != nil || err != nil {
			return &execution{state: decide.New(), refused: refused}, err
		}
	}
	return &execution{state: decide.New(), env: known.env, definition: known.definition, ext: known.attributes()}, nil
}

// flush writes what was planned, and takes through by themselves the messages whose
// commits did not come about.
func (r *round) flush(ctx context.Context) error {
	if len(r.commits) == 0 {
		return nil
	}
	commits, planned := r.commits, r.planned
	defer clear(commits)
	r.commits, r.planned = r.commits[:0], r.planned[:0]
	done, err := r.store.CommitAll(ctx, commits)
	if store.Full(err) {
		done, err = slices.Repeat([]store.Committing{{Err: err}}, len(commits)), nil
	}
	if err != nil {
		return err
	}
	var again []*store.Message
	for i := range commits {
		if !r.finish(&commits[i], done[i], planned[i]) && (len(again) == 0 || again[len(again)-1] != planned[i]) {
			again = append(again, planned[i])
		}
	}
	r.arena.fresh(r.opts)
	for _, m := range again {
		if err := r.single(ctx, m); err != nil {
			return err
		}
	}
	return nil
}

// finish takes in what became of a commit, and reports whether its message is dealt with.
func (r *round) finish(c *store.Commit, done store.Committing, m *store.Message) bool {
	written := done.Err == nil && done.Outcome == store.Committed
	fenced := done.Err == nil && done.Outcome == store.Fenced
	if written {
		r.committed(c)
	} else {
		delete(r.executions, addressOf(m))
	}
	if written && c.Ack || fenced {
		r.consumer().Tell(delivery.Activity{What: delivery.Done, Message: *m})
	}
	return written || fenced
}
