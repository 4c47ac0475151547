package top

import (
	"context"
	"sync"

	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/examine"
	"flunq.io/flunq/engine/store"
)

// follower caches the states of the executions viewed last, so that only later events are
// read.
type follower struct {
	mu    sync.Mutex
	known map[string]*followed
}

// followed is an execution up to a version.
type followed struct {
	version int64
	state   *decide.State     // nil if it cannot be rebuilt
	left    *decide.Leftovers // instead of the state: what the history leaves open
	problem error             // why there is no state
}

// open is what an execution waits for.
type open struct {
	waits   []string
	timers  []event.Timer
	problem error // why the waits are unknown
}

// maxFollowed is the size of the cache.
const maxFollowed = 8

// catchUp reads the events of an execution since the last read.
func (f *follower) catchUp(ctx context.Context, l *Live, x store.Execution) (open, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	one := f.known[x.ID]
	if one == nil || one.version > x.Version || one.advance(ctx, l, x) != nil {
		delete(f.known, x.ID)
		var err error
		if one, err = read(ctx, l, x); err != nil {
			return open{}, err
		}
	}
	if f.known == nil || len(f.known) >= maxFollowed && f.known[x.ID] == nil {
		f.known = map[string]*followed{}
	}
	f.known[x.ID] = one
	return one.open(), nil
}

// read reads an execution from its start.
func read(ctx context.Context, l *Live, x store.Execution) (*followed, error) {
	state, err := examine.State(ctx, l.store, l.definitions, x)
	if err == nil {
		return &followed{version: state.Version, state: state}, nil
	}
	if store.Temporary(err) {
		return nil, err
	}
	one := &followed{left: new(decide.Leftovers), problem: err}
	return one, one.advance(ctx, l, x)
}

// advance reads up to the current version. After an error f must not be used.
func (f *followed) advance(ctx context.Context, l *Live, x store.Execution) error {
	take := func(events []event.Event) error {
		f.left.Add(events)
		return nil
	}
	if f.state != nil {
		env, err := l.definitions.Hash(ctx, x.Tenant, x.Workflow, x.Definition)
		if err != nil {
			return err
		}
		take = func(events []event.Event) error { return f.state.Replay(env, events) }
	}
	if err := l.store.EachPage(ctx, x, f.version, take); err != nil {
		return err
	}
	f.version = max(f.version, x.Version)
	return nil
}

func (f *followed) open() open {
	if f.state == nil {
		return open{timers: f.left.Timers, problem: f.problem}
	}
	out := open{waits: f.state.Awaits(nil)}
	if f.state.Timeout != nil {
		out.timers = append(out.timers, *f.state.Timeout)
	}
	for _, n := range f.state.Open() {
		out.timers = append(out.timers, n.Timers...)
	}
	return out
}
