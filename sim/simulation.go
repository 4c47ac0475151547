package sim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"flunq.io/flunq/engine"
	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/scripts"
)

// simulation is a running simulation. It consists of layers: each embeds the layer below and calls
// only lower layers. The receiver's name tells the layer of a method; each layer has its own files:
//
//	sh     shared       configuration, Redis, clock, executions: shared.go
//	sched  scheduler    the turns of the services: scheduler.go, group.go
//	sup    supervisor   crashes, stops and the end of processes: process.go
//	in     injector     the faults of the plan: fault.go
//	mon    monitor      the invariants that are checked during the run: monitor.go, isolation.go,
//	                    retention.go, idempotency_key.go, needs.go
//	ops    operations   actions of operators, and poison messages: operators.go, poison.go
//	env    environment  the responses to calls: environment.go, calls.go, carried_out.go
//	sim    simulation   the main loop: simulation.go, redis.go, observe.go, and the start of a process
//	                    in process.go
//
// Once the run has ended, a checker checks the other invariants: trial.go, checker.go, published.go.
type simulation struct {
	environment

	missed         missedEvents
	arrivals       []Arrival // events from outside that have not arrived yet, the next one first
	openExecutions int       // number of executions that have started and not ended
	trace          *Trace
	seen           map[string]int64 // number of observed entries of each history
}

// Run simulates the execution of cfg until it ends or the simulation stops, see
// Result.Stop. A failed execution is a Result; an error means that the engine or the
// configuration is at fault.
func Run(ctx context.Context, cfg Config) (*Result, error) {
	cfg = cfg.WithDefaults()
	sim, err := newSimulation(ctx, cfg)
	if err != nil {
		return nil, err
	}
	defer sim.close()
	if err := sim.launch(ctx); err != nil {
		return nil, err
	}
	stop, err := sim.run(ctx)
	if err != nil {
		return nil, err
	}
	return sim.result(ctx, stop)
}

func newSimulation(ctx context.Context, cfg Config) (*simulation, error) {
	sim := &simulation{trace: NewTrace(), seen: map[string]int64{}}
	sim.shared, sim.missed = newShared(cfg), missedEvents{shared: &sim.shared, taken: map[string]bool{}}
	sim.sent, sim.called, sim.records = map[string]uint64{}, map[string]uint64{}, newRecords()
	sim.carried.known = map[string]bool{}
	sim.retention = cfg.simulatedRetention()
	sim.lazy, sim.parallel = cfg.lazy(), cfg.parallelCalls()
	if err := sim.openRedis(); err != nil {
		return nil, err
	}
	if cfg.Plan != nil {
		sim.memory.AcceptBlock, sim.memory.Cluster = cfg.Waits > 0, cfg.Cluster
		sim.memory.Page = cfg.chunkSize("pages", 4, 3) // Redis decides this in production
		sim.watch()
	}
	sim.connect()
	if cfg.Bug != nil {
		sim.memory.Tamper = cfg.Bug.Script
	} else if Choice(cfg.Seed, "new redis")%8 != 0 { // in one of eight simulations Redis has no scripts yet
		sim.redis.Preload(engineScripts())
	}
	sim.calls = newCalls(&sim.scheduler, cfg.Transport)
	sim.outward = sim.transport()
	for i := range cfg.Processes {
		p := &process{index: i}
		sim.processes = append(sim.processes, p)
		if err := sim.boot(ctx, p); err != nil {
			return nil, err
		}
	}
	sim.engine = sim.processes[0].engine
	return sim, nil
}

// engineScripts returns the scripts of the engine, which a Redis that the engine has used before has
// in its cache.
//
//nolint:gochecknoglobals // put together once for all simulations; never changes
var engineScripts = sync.OnceValue(scripts.Sources)

func (sim *simulation) close() {
	for _, s := range sim.services {
		s.stop()
	}
	sim.calls.stop()
	_ = sim.client.Close() // a Redis in this process needs no clean shutdown
	sim.redis.Close()
}

// launch registers the definitions and starts the executions.
func (sim *simulation) launch(ctx context.Context) error {
	if err := sim.engine.Prepare(ctx); err != nil {
		return err
	}
	for _, tenant := range sim.tenants {
		for _, def := range sim.definitions(tenant) {
			if _, err := sim.engine.Definitions.Register(ctx, tenant, def); err != nil {
				return err
			}
		}
	}
	for _, id := range sim.ids {
		sim.openExecutions++
		start := engine.StartRequest{Tenant: sim.tenantOf(id), ID: sim.idOf(id), Input: sim.cfg.Input, Nonce: sim.cfg.Nonce}
		if err := sim.engine.Start(ctx, sim.cfg.Definition, start); err != nil {
			return err
		}
		if sim.cfg.Plan == nil || sim.endsEarly() {
			continue
		}
		// A client that missed the reply starts it again.
		if err := sim.engine.Start(ctx, sim.cfg.Definition, start); !errors.Is(err, store.ErrExists) {
			sim.report("an execution starts once", id, "starting it again returned %v, want %v", err, store.ErrExists)
		}
	}
	sim.arrivals = sim.expected()
	if sim.cfg.Plan != nil { // simultaneous events come in any order
		slices.SortStableFunc(sim.arrivals, func(a, b Arrival) int {
			return cmp.Compare(Choice(sim.cfg.Seed, a.Event.ID), Choice(sim.cfg.Seed, b.Event.ID))
		})
	}
	slices.SortStableFunc(sim.arrivals, func(a, b Arrival) int { return a.At.Compare(b.At) })
	return nil
}

// expected returns the events from outside and the operator actions to expect.
func (sim *simulation) expected() []Arrival {
	out := slices.Concat(sim.cfg.Scripted.Arrivals, sim.planned())
	if sim.cfg.Mocks == nil {
		return out
	}
	for i, mocked := range sim.cfg.Mocks.Events {
		at := sim.cfg.Start.Add(mocked.After)
		e := mocked.Event(i, at)
		if e.Addressed() {
			for _, id := range sim.ids {
				e := mocked.Event(i, at)
				e.Tenant, e.Ext[event.InputExecutionAttribute] = sim.tenantOf(id), sim.idOf(id)
				out = append(out, Arrival{At: at, Event: e})
			}
			continue
		}
		for _, e.Tenant = range sim.tenants {
			out = append(out, Arrival{At: at, Event: e})
		}
	}
	return out
}

// run gives the services turns until all executions have ended or nothing more can happen.
func (sim *simulation) run(ctx context.Context) (Stop, error) {
	for {
		if stop := sim.limit(ctx); stop != "" || sim.failure != nil {
			return stop, sim.failure
		}
		if s := sim.nextService(); s != nil {
			sim.turn(s)
			sim.removeDead()
			continue
		}
		// With faults a reply may be lost, so the simulation continues until all work is done.
		if sim.openExecutions == 0 && sim.cfg.Plan == nil {
			return "", nil
		}
		if moved, err := sim.move(ctx); err != nil || !moved && ctx.Err() == nil && (sim.openExecutions == 0 && sim.endsEarly() || !sim.catchUp()) {
			return Never, err
		}
	}
}

// limit returns the reason to stop now, or "".
func (sim *simulation) limit(ctx context.Context) Stop {
	switch {
	case ctx.Err() != nil:
		return Interrupt
	case sim.cfg.MaxTasks > 0 && sim.tasks > sim.cfg.MaxTasks:
		return TasksUp
	case sim.cfg.MaxTurns > 0 && sim.turns > sim.cfg.MaxTurns:
		return Stuck
	case sim.timeUp:
		return TimeUp
	default:
		return ""
	}
}

// move advances the clock to the next moment; if there is none, it lets operators act. It
// returns false if nothing happened.
func (sim *simulation) move(ctx context.Context) (bool, error) {
	moved, err := sim.advance(ctx)
	if err == nil && !moved && ctx.Err() == nil {
		return sim.resumeAndRetry(ctx)
	}
	return moved, err
}

// ErrClockEnds is wrapped by the error of a run that waits for a later time than the clock can show.
var ErrClockEnds = errors.New("the virtual clock ends in the year")

// advance moves the clock to the next moment at which something happens. It returns false
// if there is none.
func (sim *simulation) advance(ctx context.Context) (bool, error) {
	if sim.wakeRenewals() {
		return true, nil
	}
	if err := sim.missed.explainMissed(ctx); err != nil {
		return false, err
	}
	sim.checkNeeds(ctx)
	next := sim.nextWake()
	if len(sim.arrivals) > 0 {
		next = event.Earlier(next, sim.arrivals[0].At)
	}
	if next.IsZero() && sim.calls.open == 0 {
		return false, nil
	}
	if !next.IsZero() {
		next = later(next, sim.clock.now) // a clock jump may have passed it
	}
	end, ends := sim.cfg.Start.Add(sim.cfg.MaxTime), sim.cfg.MaxTime > 0
	if ends = ends && (next.IsZero() || next.After(end)); ends {
		next = later(end, sim.clock.now)
	}
	if lastMoment := time.Unix(0, math.MaxInt64); next.After(lastMoment) { // miniredis counts in nanoseconds
		return false, fmt.Errorf("%w %d, but the workflow waits until the year %d", ErrClockEnds, lastMoment.Year(), next.Year())
	}
	now := sim.clock.wait(ctx, next, sim.calls)
	sim.timeUp = ends && !now.Before(next)
	sim.clock.now = now
	sim.redis.SetTime(now)
	sim.calls.collect()
	if err := sim.reboot(ctx); err != nil {
		return false, err
	}
	return true, sim.arrive(ctx)
}

// arrive publishes the events from outside that are due.
func (sim *simulation) arrive(ctx context.Context) error {
	for len(sim.arrivals) > 0 && !sim.arrivals[0].At.After(sim.clock.now) {
		if err := sim.receive(ctx, sim.arrivals[0]); err != nil {
			return fmt.Errorf("send event %s: %w", sim.arrivals[0].Event.ID, err)
		}
		if sim.cfg.Arrived != nil {
			sim.cfg.Arrived(sim.arrivals[0].Event, sim.clock.now)
		}
		sim.arrivals = sim.arrivals[1:]
	}
	return nil
}

// receive performs an arrival.
func (sim *simulation) receive(ctx context.Context, a Arrival) error {
	if a.Do != nil {
		return a.Do(ctx, Operator{Store: sim.engine.Store, Elapsed: sim.clock.now.Sub(sim.cfg.Start), Report: sim.report})
	}
	e, err := decide.InputRequest(a.Event, "", sim.clock.now)
	if err != nil {
		return err
	}
	if !a.Event.Addressed() {
		sim.missed.recordArrival(e)
	}
	return sim.engine.Store.Publish(ctx, e)
}

// result reads from Redis how the execution ended.
func (sim *simulation) result(ctx context.Context, stop Stop) (*Result, error) {
	ctx = context.WithoutCancel(ctx)
	sim.current = nil
	sim.showUnobserved(ctx)
	x, err := sim.engine.Store.Execution(ctx, sim.cfg.Tenant, sim.cfg.ID)
	if err != nil {
		return nil, fmt.Errorf("read the result: %w", err)
	}
	if decide.Status(x.Status).Ended() && stop == Never {
		stop = ""
	}
	r := &Result{
		Status: decide.Status(x.Status), Output: x.Output, Error: problem(x.Error), Execution: sim.cfg.ID, Stop: stop,
		Tasks: sim.tasks, Events: sim.events, Elapsed: sim.clock.now.Sub(sim.cfg.Start),
	}
	if stop == Never {
		if r.Waiting, err = sim.waiting(ctx); err != nil {
			return nil, err
		}
	}
	if stop == TasksUp && sim.cfg.Plan == nil {
		starts := Starts{}
		if err := sim.engine.Store.EachPage(ctx, x, 0, starts.Add); err != nil {
			return nil, err
		}
		r.Busiest = starts.Busiest(sim.cfg.Definition)
	}
	if r.Missed, err = sim.missed.allMissed(ctx); err != nil {
		return nil, err
	}
	r.Order, r.Effects = sim.trace.Sum(), sim.effectsHash()
	r.Outcome = OutcomeOf(r)
	return r, nil
}

// waiting describes what the execution waits for in vain.
func (sim *simulation) waiting(ctx context.Context) ([]string, error) {
	past, err := sim.stateOf(ctx, sim.cfg.ID)
	if past == nil || err != nil && sim.cfg.Plan != nil { // it has not begun, or the invariants report the error
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return past.state.Awaits(nil), nil
}
