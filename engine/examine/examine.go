// Package examine determines what executions wait for, and whether Redis has it.
package examine

import (
	"context"
	"errors"
	"slices"
	"sync"

	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/definitions"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/inspect"
	"flunq.io/flunq/engine/store/timers"
)

// Examiner compares what executions wait for with what Redis has. It never writes. It
// caches the states of executions, so an unchanged one is not read again. It is safe for
// concurrent use.
type Examiner struct {
	Store       *store.Store
	Definitions *definitions.Cache

	mu    sync.Mutex
	known map[string]examined // by tenant and id
}

// Forget drops the cached states.
func (e *Examiner) Forget() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.known = nil
}

// examined is an execution and its state when it was read.
type examined struct {
	x     store.Execution
	env   *decide.Env
	state *decide.State
}

// Findings describes whether a running execution can continue.
type Findings struct {
	Version int64              // of the execution
	Unsure  bool               // something is missing, but an event that is being handled may still provide it
	Timers  []Needed           // timers that it waits for, the next one first
	Missing timers.Restoration // what is missing and can be restored
	Stuck   []string           // tasks that nothing will ever end, one line each
	Damage  string             // what is wrong with the history; if set, nothing else is known

	requested bool // a task was requested and has no result yet
}

// Needed is a timer that an execution waits for.
type Needed struct {
	timers.Pending        // without an ID if it is not set
	CancelledBy    string // the operator who cancelled it; "" if none did
	Missing        bool   // it is not set, and no event that is being handled will set it
}

// Limits of the work: executions examined together, the length up to which histories
// are read together, and cached states.
const (
	examinedAtOnce = 100
	shortHistory   = 200
	maxKept        = 1000
)

// Examine returns the findings about a tenant's running executions by id. It leaves out
// executions whose state cannot be determined. Each given execution needs an id, a status and a
// version.
func (e *Examiner) Examine(ctx context.Context, tenant string, executions []store.Execution) (map[string]Findings, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	out := map[string]Findings{}
	going := slices.DeleteFunc(slices.Clone(executions), func(x store.Execution) bool {
		return x.Version == 0 || Ended(x.Status)
	})
	for some := range slices.Chunk(going, examinedAtOnce) {
		read, err := e.read(ctx, tenant, some, out)
		if err != nil {
			return nil, err
		}
		if err := e.look(ctx, tenant, read, out); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// read determines the states of executions. For those with a damaged history it adds findings.
func (e *Examiner) read(ctx context.Context, tenant string, executions []store.Execution, findings map[string]Findings) (out []examined, err error) {
	if e.known == nil || len(e.known) > maxKept {
		e.known = map[string]examined{}
	}
	var wanted []string
	for _, x := range executions {
		if known, ok := e.known[tenant+" "+x.ID]; ok && known.x.Version == x.Version {
			out = append(out, known)
		} else {
			wanted = append(wanted, x.ID)
		}
	}
	if len(wanted) == 0 {
		return out, nil
	}
	wholes, err := e.Store.WithHistories(ctx, tenant, wanted, shortHistory)
	if err != nil {
		return nil, err
	}
	for _, id := range wanted {
		var one examined
		if i := slices.IndexFunc(wholes, func(w store.WithHistory) bool { return w.ID == id }); i >= 0 {
			one, err = e.fold(ctx, wholes[i])
		} else {
			one, err = e.rebuild(ctx, tenant, id)
		}
		if store.Temporary(err) {
			return nil, err
		}
		if damage, is := errors.AsType[*store.HistoryError](err); is {
			findings[id] = Findings{Version: damage.Want, Damage: damage.Error(), Stuck: []string{damage.Error()}}
		}
		if err == nil && one.state != nil {
			e.known[tenant+" "+id] = one
			out = append(out, one)
		}
	}
	return out, nil
}

// fold rebuilds the state of an execution from its whole history.
func (e *Examiner) fold(ctx context.Context, w store.WithHistory) (examined, error) {
	env, err := e.Definitions.Hash(ctx, w.Tenant, w.Workflow, w.Definition)
	if err != nil {
		return examined{}, err
	}
	state := decide.New()
	return examined{w.Execution, env, state}, state.Replay(env, w.History)
}

// rebuild is like fold, for a long history, which it reads in pages after the snapshot.
func (e *Examiner) rebuild(ctx context.Context, tenant, id string) (examined, error) {
	x, err := e.Store.Execution(ctx, tenant, id)
	if errors.Is(err, store.ErrNotFound) {
		return examined{}, nil
	}
	if err != nil {
		return examined{}, err
	}
	env, err := e.Definitions.Hash(ctx, x.Tenant, x.Workflow, x.Definition)
	if err != nil {
		return examined{}, err
	}
	state, err := State(ctx, e.Store, e.Definitions, x)
	return examined{x, env, state}, err
}

// look adds the findings about executions. If something is missing, it looks three times, and in
// between checks which executions have events that are not handled yet. Anything that moves from
// an event to a timer or back in the meantime is seen in one of these places, or the version of
// the execution differs at the end.
func (e *Examiner) look(ctx context.Context, tenant string, all []examined, out map[string]Findings) error {
	sure := map[string]Findings{}
	for looks := 0; len(all) > 0; looks++ {
		var lacking []examined
		err := e.facts(ctx, tenant, all, func(one examined, f facts) {
			sure[one.x.ID], out[one.x.ID] = one.findings(f, true), one.findings(f, false)
			if !sure[one.x.ID].whole() {
				lacking = append(lacking, one)
			}
		})
		if all = lacking; err != nil || len(all) == 0 {
			return err
		}
		if looks == lastLook {
			break
		}
		busy, err := inspect.New(e.Store).InFlight(ctx, tenant)
		if errors.Is(err, inspect.ErrUnsure) {
			return nil
		}
		if err != nil {
			return err
		}
		all = slices.DeleteFunc(all, func(one examined) bool {
			return busy[one.x.ID] || slices.ContainsFunc(one.state.Needs(one.env).Children, func(child string) bool { return busy[child] })
		})
	}
	if slices.ContainsFunc(all, func(one examined) bool { return one.state.Requested() }) {
		// A request that is delayed for a long time may be due after all timers that were read.
		off, err := inspect.New(e.Store).Postponed(ctx, tenant)
		if err != nil {
			return err
		}
		all = slices.DeleteFunc(all, func(one examined) bool { return off[one.x.ID] })
	}
	ids := make([]string, len(all))
	for i, one := range all {
		ids[i] = one.x.ID
	}
	now, err := e.Store.Outlines(ctx, tenant, ids...)
	if err != nil {
		return err
	}
	for i, one := range all {
		if now[i].Version != one.x.Version || Ended(now[i].Status) {
			continue
		}
		o := sure[one.x.ID]
		if o.Missing.Requests, err = one.requests(); err != nil {
			o.Stuck = append(o.Stuck, err.Error())
		}
		out[one.x.ID] = o
	}
	return nil
}

// lastLook is the index of the last of three looks.
const lastLook = 2

// whole reports whether nothing is missing.
func (o Findings) whole() bool {
	return o.Missing.Empty() && len(o.Stuck) == 0 && !o.requested
}

// requests returns the task requests without a result, to be sent again.
func (e examined) requests() ([]event.Event, error) {
	if !e.state.Requested() {
		return nil, nil
	}
	all, err := e.state.Requests(e.env)
	for i := range all {
		all[i].Ext = map[string]string{event.DefinitionAttribute: e.x.Definition}
	}
	return all, err
}

// facts says which of an execution's needs exist in Redis.
type facts struct {
	timers   []timers.Pending // in the order of the needs
	needs    decide.Needs
	listed   map[string]bool
	children map[string]bool
}

// facts reads which of the executions' needs exist, in three round trips, or four
// if a timer was moved.
func (e *Examiner) facts(ctx context.Context, tenant string, all []examined, take func(examined, facts)) error {
	var wanted []event.Timer
	var listeners []store.Listener
	var children []string
	needs := make([]decide.Needs, len(all))
	for i, one := range all {
		needs[i] = one.state.Needs(one.env)
		wanted, children = append(wanted, needs[i].Timers...), append(children, needs[i].Children...)
		for _, typ := range needs[i].Listen {
			listeners = append(listeners, store.Listener{Execution: one.x.ID, Type: typ})
		}
	}
	set, err := timers.New(e.Store).Armed(ctx, wanted)
	if err != nil {
		return err
	}
	listed, err := e.Store.Listed(ctx, tenant, listeners)
	if err != nil {
		return err
	}
	known, err := e.Store.Outlines(ctx, tenant, children...)
	if err != nil {
		return err
	}
	for i, one := range all {
		f := facts{needs: needs[i], listed: map[string]bool{}, children: map[string]bool{}}
		n := len(f.needs.Timers)
		f.timers, set = set[:n], set[n:]
		for j, typ := range f.needs.Listen {
			f.listed[typ] = listed[j]
		}
		for j, id := range f.needs.Children {
			f.children[id] = known[j].Status != "" && !Ended(known[j].Status)
		}
		listed, known = listed[len(f.needs.Listen):], known[len(f.needs.Children):]
		take(one, f)
	}
	return nil
}

// findings derives the findings from facts. sure means that no event is being handled; without it,
// only cancelled timers count as missing.
func (e examined) findings(f facts, sure bool) Findings {
	o := Findings{Version: e.x.Version}
	missing := func(t event.Timer) bool { return !f.set(t) && (sure || e.state.CancelledBy(t) != "") }
	for i, t := range f.needs.Timers {
		needed := Needed{Pending: f.timers[i], CancelledBy: e.state.CancelledBy(t), Missing: missing(t)}
		if needed.Missing {
			o.Missing.Timers = append(o.Missing.Timers, t)
		}
		o.Unsure = o.Unsure || needed.ID == "" && !needed.Missing
		o.Timers = append(o.Timers, needed)
	}
	slices.SortStableFunc(o.Timers, func(a, b Needed) int { return a.Moment().Compare(b.Moment()) })
	for _, typ := range f.needs.Listen {
		if f.listed[typ] {
			continue
		}
		if o.Unsure = o.Unsure || !sure; sure {
			o.Missing.Listen = append(o.Missing.Listen, typ)
		}
	}
	o.Stuck = e.state.Stuck(e.env, decide.Present{
		Timer:     func(t event.Timer) bool { return !missing(t) },
		Listed:    func(typ string) bool { return f.listed[typ] || !sure },
		Child:     func(id string) bool { return f.children[id] || !sure },
		Performed: !sure,
	})
	o.requested = sure && e.state.Requested()
	return o
}

// set reports whether a timer that the execution needs is set.
func (f facts) set(t event.Timer) bool {
	for i, needed := range f.needs.Timers {
		if needed.Same(t) {
			return f.timers[i].ID != ""
		}
	}
	return false
}

// Without predicts what happens to an execution without a timer: it returns one line for each task
// that nothing would end, and none if the execution does not need the timer. known is false if the
// state cannot be determined.
func (e *Examiner) Without(ctx context.Context, tenant, id string, gone event.Timer) (stuck []string, known bool, err error) {
	one, err := e.rebuild(ctx, tenant, id)
	if err != nil || one.state == nil {
		if store.Temporary(err) {
			return nil, false, err
		}
		return nil, false, nil
	}
	err = e.facts(ctx, tenant, []examined{one}, func(one examined, f facts) {
		stuck = one.state.Stuck(one.env, decide.Present{
			Timer:     func(t event.Timer) bool { return !t.Same(gone) && f.set(t) },
			Listed:    func(string) bool { return false }, // it may never come
			Child:     func(string) bool { return false }, // it may never end
			Performed: true,
			Resumed:   true,
		})
	})
	return stuck, true, err
}
