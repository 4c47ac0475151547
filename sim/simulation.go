package sim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"flunq.io/flunq/engine"
	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/scripts"
	"flunq.io/flunq/sim/lua"
	"flunq.io/flunq/sim/memory"
)

// simulation is a running simulation. Its parts are layers, each of which knows only those
// below it: what they share, the scheduler, the supervisor of the processes, the faults, the
// invariants that are checked while it runs, the operations, and the environment.
type simulation struct {
	environment

	missed         missedEvents
	arrivals       []Arrival // events from outside that are still to come, the next first
	openExecutions int       // number of executions that have started and not ended
	trace          *Trace
	seen           map[string]int64 // number of observed entries of each history
}

func newSimulation(ctx context.Context, cfg Config) (*simulation, error) {
	w := &simulation{trace: NewTrace(), seen: map[string]int64{}}
	w.shared, w.missed.shared = newShared(cfg), &w.shared
	w.sent, w.called, w.records = map[string]uint64{}, map[string]uint64{}, newRecords()
	w.retention = cfg.simulatedRetention()
	w.lazy, w.parallel = cfg.lazy(), cfg.parallelCalls()
	if err := w.openRedis(); err != nil {
		return nil, err
	}
	if cfg.Plan != nil {
		w.memory.Waited = cfg.Waits > 0
		w.memory.Page = cfg.chunkSize("pages", 4, 3) //nolint:mnd // Redis decides this in production
		w.watch()
	}
	w.connect()
	if cfg.Bug != nil {
		w.memory.Tamper = cfg.Bug.Script
	} else if Choice(cfg.Seed, "new redis")%8 != 0 { //nolint:mnd // in one simulation of eight Redis knows no script yet
		known, err := engineScripts()
		if err != nil {
			return nil, err
		}
		w.redis.Know(known)
	}
	w.calls = newCalls(&w.scheduler, cfg.Transport)
	w.outward = w.transport()
	for i := range cfg.Processes {
		p := &process{index: i}
		w.processes = append(w.processes, p)
		if err := w.boot(ctx, p); err != nil {
			return nil, err
		}
	}
	w.engine = w.processes[0].engine
	return w, nil
}

// engineScripts returns the compiled scripts of the engine, which a Redis that the engine has
// used before has in its cache.
//
//nolint:gochecknoglobals // compiled once for all simulations; never changes
var engineScripts = sync.OnceValues(func() (map[string]*lua.Script, error) {
	from := memory.New(Epoch())
	client := memory.Client(from.Dial)
	for _, script := range scripts.All() {
		if err := script.Load(context.Background(), client).Err(); err != nil { //nolint:forbidigo // loading does not block
			return nil, fmt.Errorf("load the scripts: %w", err)
		}
	}
	return from.All(), client.Close()
})

func (w *simulation) close() {
	for _, s := range w.services {
		s.stop()
	}
	w.calls.stop()
	w.pool.disconnect()
	w.redis.Close()
}

// launch registers the definitions and starts the executions.
func (w *simulation) launch(ctx context.Context) error {
	if err := w.engine.Prepare(ctx); err != nil {
		return err
	}
	for _, tenant := range w.tenants {
		for _, def := range w.definitions(tenant) {
			if _, err := w.engine.Definitions.Register(ctx, tenant, def); err != nil {
				return err
			}
		}
	}
	for _, id := range w.ids {
		w.openExecutions++
		if err := w.begin(ctx, id); err != nil {
			return err
		}
		w.restart(ctx, id)
	}
	w.arrivals = w.expected()
	if w.cfg.Plan != nil { // simultaneous events come in any order
		slices.SortStableFunc(w.arrivals, func(a, b Arrival) int {
			return cmp.Compare(mix(w.cfg.Seed, hashed(a.Event.ID), 0), mix(w.cfg.Seed, hashed(b.Event.ID), 0))
		})
	}
	sortArrivals(w.arrivals)
	return nil
}

// begin starts an execution of the definition.
func (w *simulation) begin(ctx context.Context, id string) error {
	return w.engine.StartExecution(ctx, w.cfg.Definition, engine.StartRequest{Tenant: w.tenantOf(id), ID: w.idOf(id), Input: w.cfg.Input, Nonce: w.cfg.Nonce})
}

// restart starts an execution a second time, like a client that did not receive the reply.
func (w *simulation) restart(ctx context.Context, id string) {
	if w.cfg.Plan == nil || w.endsEarly() {
		return
	}
	if err := w.begin(ctx, id); !errors.Is(err, store.ErrExists) {
		w.report("an execution starts once", id, fmt.Sprintf("starting it again returned %v, want %v", err, store.ErrExists))
	}
}

// expected returns the events from outside and the operator actions that are to come.
func (w *simulation) expected() []Arrival {
	out := slices.Concat(w.cfg.Scripted.Arrivals, w.planned())
	if w.cfg.Mocks == nil {
		return out
	}
	for i, mocked := range w.cfg.Mocks.Events {
		at := w.cfg.Start.Add(mocked.After)
		e := mocked.Event(i, at)
		for _, e.Tenant = range w.tenants {
			out = append(out, Arrival{At: at, Event: e})
		}
	}
	return out
}

// run gives the services turns until all executions have ended or nothing more can happen.
func (w *simulation) run(ctx context.Context) (Stop, error) {
	for {
		if stop := w.limit(ctx); stop != "" || w.failure != nil {
			return stop, w.failure
		}
		if s := w.nextService(); s != nil {
			w.turn(s)
			w.removeDead()
			continue
		}
		// With faults a reply may be lost, so the simulation continues until all work is done.
		if w.openExecutions == 0 && w.cfg.Plan == nil {
			return "", nil
		}
		if moved, err := w.move(ctx); err != nil || !moved && ctx.Err() == nil && (w.openExecutions == 0 && w.endsEarly() || !w.catchUp()) {
			return Never, err
		}
	}
}

// move advances the clock to the next moment; if there is none, it lets operators act. It
// returns false if nothing happened.
func (w *simulation) move(ctx context.Context) (bool, error) {
	moved, err := w.advance(ctx)
	if err == nil && !moved && ctx.Err() == nil {
		return w.resumeAndRetry(ctx)
	}
	return moved, err
}

// limit returns the reason to stop now, "" if there is none.
func (w *scheduler) limit(ctx context.Context) Stop {
	switch {
	case ctx.Err() != nil:
		return Interrupt
	case w.cfg.MaxTasks > 0 && w.tasks > w.cfg.MaxTasks:
		return TasksUp
	case w.cfg.MaxTurns > 0 && w.turns > w.cfg.MaxTurns:
		return Stuck
	case w.timeUp:
		return TimeUp
	default:
		return ""
	}
}

// advance moves the clock to the next moment at which something happens. It returns false
// if there is none.
func (w *simulation) advance(ctx context.Context) (bool, error) {
	if w.wakeRenewals() {
		return true, nil
	}
	if err := w.missed.explainMissed(ctx); err != nil {
		return false, err
	}
	w.checkNeeds(ctx)
	next := w.nextWake()
	if len(w.arrivals) > 0 && (next.IsZero() || w.arrivals[0].At.Before(next)) {
		next = w.arrivals[0].At
	}
	if next.IsZero() && w.calls.open == 0 {
		return false, nil
	}
	if !next.IsZero() {
		next = later(next, w.clock.now) // a clock jump may have passed it
	}
	end, ends := w.cfg.Start.Add(w.cfg.MaxTime), w.cfg.MaxTime > 0
	if ends = ends && (next.IsZero() || next.After(end)); ends {
		next = later(end, w.clock.now)
	}
	now := w.clock.wait(ctx, next, w.calls)
	w.timeUp = ends && !now.Before(next)
	w.clock.now = now
	w.redis.SetTime(now)
	w.calls.collect()
	if err := w.reboot(ctx); err != nil {
		return false, err
	}
	return true, w.arrive(ctx)
}

// arrive publishes the events from outside that are due.
func (w *simulation) arrive(ctx context.Context) error {
	for len(w.arrivals) > 0 && !w.arrivals[0].At.After(w.clock.now) {
		if err := w.receive(ctx, w.arrivals[0]); err != nil {
			return fmt.Errorf("send event %s: %w", w.arrivals[0].Event.ID, err)
		}
		if w.cfg.Arrived != nil {
			w.cfg.Arrived(w.arrivals[0].Event, w.clock.now)
		}
		w.arrivals = w.arrivals[1:]
	}
	return nil
}

// receive performs an arrival.
func (w *simulation) receive(ctx context.Context, a Arrival) error {
	if a.Do != nil {
		return a.Do(ctx, Operator{Store: w.engine.Store, Elapsed: w.clock.now.Sub(w.cfg.Start), Report: w.report})
	}
	w.missed.recordArrival(a.Event)
	return w.engine.Store.Publish(ctx, a.Event)
}

// result reads from Redis how the execution ended.
func (w *simulation) result(ctx context.Context, stop Stop) (*Result, error) {
	ctx = context.WithoutCancel(ctx)
	w.current = nil
	w.showUnobserved(ctx)
	x, err := w.engine.Store.Execution(ctx, w.cfg.Tenant, w.cfg.ID)
	if err != nil {
		return nil, fmt.Errorf("read the result: %w", err)
	}
	if decide.Status(x.Status).Ended() && stop == Never {
		stop = ""
	}
	r := &Result{
		Status: decide.Status(x.Status), Output: x.Output, Execution: w.cfg.ID, Stop: stop,
		Tasks: w.tasks, Events: w.events, Elapsed: w.clock.now.Sub(w.cfg.Start),
	}
	if len(x.Error) > 0 {
		r.Error = new(event.Problem)
		if err := unmarshal(x.Error, r.Error); err != nil {
			return nil, fmt.Errorf("read the error of execution %s: %w", x.ID, err)
		}
	}
	if stop == Never {
		if r.Waiting, err = w.waiting(ctx); err != nil {
			return nil, err
		}
	}
	if stop == TasksUp && w.cfg.Plan == nil {
		if r.Busiest, err = Busiest(ctx, w.engine.Store, w.cfg.Definition, w.cfg.Tenant, w.cfg.ID); err != nil {
			return nil, err
		}
	}
	if r.Missed, err = w.missed.allMissed(ctx); err != nil {
		return nil, err
	}
	r.Order, r.Effects = w.trace.Sum(), w.effectsHash()
	r.Outcome = OutcomeOf(r)
	return r, nil
}

// waiting returns what the execution waits for that will never come.
func (w *simulation) waiting(ctx context.Context) ([]string, error) {
	x, err := w.engine.Store.Execution(ctx, w.cfg.Tenant, w.cfg.ID)
	if err != nil {
		return nil, err
	}
	if x.Definition == "" {
		return nil, nil // it has not begun
	}
	env, err := w.engine.Definitions.Hash(ctx, w.cfg.Tenant, x.Workflow, x.Definition)
	if err != nil {
		return nil, err
	}
	history, err := w.engine.Store.History(ctx, w.cfg.Tenant, w.cfg.ID, 0, int(x.Version))
	if err != nil {
		return nil, err
	}
	state, err := decide.Rebuild(env, history)
	if err != nil && w.cfg.Plan != nil {
		return nil, nil // the invariants report it
	}
	if err != nil {
		return nil, err
	}
	return state.Awaits(), nil
}
