package worker

import (
	"context"
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

	executions  map[string]*execution // as they are once all is written
	definitions map[string]*execution // by name and version: what an execution of it begins as
	commits     []store.Commit
	planned     []store.Message // that each of the commits answers
}

// work takes a batch through, and returns what of it is left to do after an error.
func (s *Service) work(ctx context.Context, batch []store.Message) (left []store.Message, err error) {
	r := &round{
		Service: s, executions: make(map[string]*execution, len(batch)), definitions: map[string]*execution{},
		commits: make([]store.Commit, 0, len(batch)), planned: make([]store.Message, 0, len(batch)),
	}
	defer r.keep()
	from := 0 // all before it is done
	for i, m := range batch {
		s.desk().Tell(delivery.Activity{What: delivery.Began, Message: m})
		if planned, err := r.plan(ctx, m); err != nil {
			return batch[from:], r.broken(batch[from:], err)
		} else if planned {
			continue
		}
		if err := r.flush(ctx); err != nil {
			return batch[from:], r.broken(batch[from:], err)
		}
		from = i
		r.keep()
		if err := s.desk().Handle(ctx, m, s.handle); err != nil {
			return batch[from:], err
		}
		from = i + 1
	}
	if err := r.flush(ctx); err != nil {
		return batch[from:], r.broken(batch[from:], err)
	}
	return nil, nil
}

// broken tells that Redis did not let messages be finished, and forgets what was
// decided about them.
func (r *round) broken(msgs []store.Message, err error) error {
	clear(r.executions)
	for _, m := range msgs {
		r.desk().Tell(delivery.Activity{What: delivery.Broken, Message: m, Err: err})
	}
	return err
}

// keep hands back the executions that go on.
func (r *round) keep() {
	for key, x := range r.executions {
		if x != nil && !x.state.Status.Ended() {
			tenant, id, _ := strings.Cut(key, "/")
			r.cache.put(tenant, id, x)
		}
	}
	clear(r.executions)
}

// plan decides what a message comes to. It reports false if that is not known
// before others have been written, or if the message needs to be by itself.
func (r *round) plan(ctx context.Context, m store.Message) (bool, error) {
	if m.Err != nil || delivery.Suspect(m) || m.Event.Execution == "" || !strings.HasPrefix(string(m.Event.Type), event.Prefix) {
		return false, nil
	}
	key := keyOf(m)
	x, err := r.find(ctx, key, m)
	switch {
	case err != nil && delivery.ClassOf(ctx, err) == "":
		return false, err
	case err != nil || x == nil:
		return false, nil
	}
	delete(r.executions, key) // until it is known that nothing is wrong with it
	base := x.state.Version
	var d decide.Decision
	// What goes wrong is found again by whoever takes the message through by itself.
	if _, err := apply(x, m.Event, &d); err != nil {
		return false, nil
	}
	for {
		if r.advance(x, &d) != nil {
			return false, nil
		}
		last := !x.state.Ready()
		c, err := r.transitionOf(x, step{m, last, base, &d})
		if err != nil {
			return false, nil
		}
		r.commits, r.planned = append(r.commits, c), append(r.planned, m)
		r.executions[key] = x
		if last {
			return true, nil
		}
		if err := r.flush(ctx); err != nil {
			return false, err
		}
		if r.executions[key] == nil {
			return true, nil // it has been taken through by itself
		}
		base, d = x.state.Version, decide.Decision{History: make([]event.Event, 0, r.opts.Chunk+8)}
	}
}

// find is the execution of a message; nil if it is not known how it stands.
func (r *round) find(ctx context.Context, key string, m store.Message) (*execution, error) {
	x := r.executions[key]
	if x != nil {
		return x, nil
	}
	if x = r.cache.take(m.Tenant, m.Event.Execution); x != nil {
		return x, nil
	}
	if m.Event.Type != event.ExecutionStarted {
		return r.load(ctx, m.Tenant, m.Event)
	}
	// It has not begun, or else the commit finds out.
	name, version, err := decide.StartedWorkflow(m.Event)
	if err != nil {
		return nil, nil
	}
	known := r.definitions[name+":"+version]
	if known == nil {
		if known, err = r.first(ctx, m.Tenant, m.Event); err != nil {
			return nil, err
		}
		r.definitions[name+":"+version] = known
	}
	return &execution{state: decide.New(), env: known.env, definition: known.definition}, nil
}

// flush writes what was planned.
func (r *round) flush(ctx context.Context) error {
	if len(r.commits) == 0 {
		return nil
	}
	commits, planned := r.commits, r.planned
	r.commits, r.planned = r.commits[:0], r.planned[:0]
	done, err := r.store.CommitAll(ctx, commits)
	if err != nil {
		return err
	}
	var again []store.Message
	for i, c := range commits {
		switch {
		case done[i].Err == nil && done[i].Outcome == store.Committed:
			r.committed(c)
		case done[i].Err == nil && done[i].Outcome == store.Fenced:
			delete(r.executions, keyOf(planned[i]))
		default:
			delete(r.executions, keyOf(planned[i]))
			if len(again) == 0 || !again[len(again)-1].Same(planned[i]) {
				again = append(again, planned[i])
			}
			continue
		}
		if c.Ack || done[i].Outcome == store.Fenced {
			r.desk().Tell(delivery.Activity{What: delivery.Done, Message: planned[i]})
		}
	}
	for _, m := range again {
		if err := r.desk().Handle(ctx, m, r.handle); err != nil {
			return err
		}
	}
	return nil
}
