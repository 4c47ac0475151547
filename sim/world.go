package sim

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"flunq.io/flunq/engine"
	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/event"
)

// world is a simulation under way.
type world struct {
	cfg      Config
	memory   *memory
	client   *redis.Client
	engine   *engine.Engine
	services []*service
	current  *service // whose turn it is; nil while the world itself acts
	clock    clock
	arrivals []arrival // events from outside that are still to come, the next first
	calls    *calls

	commands int // of services, so far
	living   int // executions that have begun and not ended
	tasks    int
	events   int
	trace    *trace
	failure  error
}

// arrival is an event from outside, and when it comes.
type arrival struct {
	at    time.Time
	event event.Event
}

func newWorld(ctx context.Context, cfg Config) (*world, error) {
	w := &world{cfg: cfg, trace: newTrace(), clock: newClock(cfg.Start, cfg.Pace)}
	var err error
	if w.memory, err = newMemory(cfg.Start); err != nil {
		return nil, err
	}
	if w.client, err = w.memory.client(ctx); err != nil {
		return nil, err
	}
	w.client.AddHook(hook{w})
	w.calls = newCalls(w, cfg.Transport)
	if w.engine, err = engine.New(w.client, w.options()); err != nil {
		return nil, err
	}
	for i, s := range w.engine.Services() {
		w.services = append(w.services, newService(ctx, i, s))
	}
	return w, nil
}

func (w *world) close() {
	for _, s := range w.services {
		s.stop()
	}
	w.calls.stop()
	// The in-memory Redis ends with the process' memory; an error of its end is nobody's concern.
	_ = w.client.Close()
	w.memory.close()
}

// launch registers the definitions and starts the execution.
func (w *world) launch(ctx context.Context) error {
	if err := w.engine.Prepare(ctx); err != nil {
		return err
	}
	for _, def := range w.cfg.With {
		if _, err := w.engine.Library.Register(ctx, w.cfg.Tenant, def); err != nil {
			return err
		}
	}
	if _, err := w.engine.Library.Register(ctx, w.cfg.Tenant, w.cfg.Definition); err != nil {
		return err
	}
	w.living = 1
	if err := w.engine.Start(ctx, w.cfg.Tenant, w.cfg.ID, w.cfg.Definition, w.cfg.Input); err != nil {
		return err
	}
	if w.cfg.Mocks == nil {
		return nil
	}
	for i, mock := range w.cfg.Mocks.Events {
		at := w.cfg.Start.Add(mock.After)
		e := mock.Event(i, at)
		e.Tenant = w.cfg.Tenant
		w.arrivals = append(w.arrivals, arrival{at, e})
	}
	sortArrivals(w.arrivals)
	return nil
}

// run takes turns until all executions have ended, or nothing can happen any more.
func (w *world) run(ctx context.Context) (Stop, error) {
	for {
		if stop := w.limit(ctx); stop != "" || w.failure != nil {
			return stop, w.failure
		}
		if s := w.choose(); s != nil {
			w.turn(s)
			continue
		}
		if w.living == 0 {
			return "", nil
		}
		moved, err := w.advance(ctx)
		if err != nil || !moved && ctx.Err() == nil {
			return Never, err
		}
	}
}

// limit is why the simulation is not to go on, if so.
func (w *world) limit(ctx context.Context) Stop {
	switch {
	case ctx.Err() != nil:
		return Interrupt
	case w.cfg.MaxTasks > 0 && w.tasks > w.cfg.MaxTasks:
		return TasksUp
	case w.cfg.MaxTime > 0 && w.clock.now.Sub(w.cfg.Start) > w.cfg.MaxTime:
		return TimeUp
	default:
		return ""
	}
}

// advance moves the clock to the next moment at which something happens. It
// reports false if there is none.
func (w *world) advance(ctx context.Context) (bool, error) {
	if w.beforeRest() {
		return true, nil
	}
	next := w.nextWake()
	if len(w.arrivals) > 0 && (next.IsZero() || w.arrivals[0].at.Before(next)) {
		next = w.arrivals[0].at
	}
	if next.IsZero() && w.calls.open == 0 {
		return false, nil
	}
	now := w.clock.wait(ctx, next, w.calls)
	w.clock.now = now
	w.memory.setTime(now)
	w.calls.collect()
	return true, w.arrive(ctx)
}

// arrive publishes the events from outside whose time has come.
func (w *world) arrive(ctx context.Context) error {
	for len(w.arrivals) > 0 && !w.arrivals[0].at.After(w.clock.now) {
		if err := w.engine.Store.Publish(ctx, w.arrivals[0].event); err != nil {
			return fmt.Errorf("send event %s: %w", w.arrivals[0].event.ID, err)
		}
		w.arrivals = w.arrivals[1:]
		w.notify()
	}
	return nil
}

// observe counts what the workers committed.
func (w *world) observe(events []event.Event) {
	w.events += len(events)
	for _, e := range events {
		w.trace.add(e)
		switch e.Type {
		case event.TaskRequested:
			w.tasks++
		case event.ExecutionStarted:
			if e.Execution != w.cfg.ID {
				w.living++
			}
		case event.WorkflowCompleted, event.WorkflowFailed, event.WorkflowCancelled:
			w.living--
		}
	}
	if w.cfg.Observe != nil {
		w.cfg.Observe(events)
	}
}

// result reads how the execution ended out of Redis.
func (w *world) result(ctx context.Context, stop Stop) (*Result, error) {
	ctx = context.WithoutCancel(ctx)
	w.current = nil
	x, err := w.engine.Store.Execution(ctx, w.cfg.Tenant, w.cfg.ID)
	if err != nil {
		return nil, fmt.Errorf("read the result: %w", err)
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
	r.Order, r.Outcome = w.trace.sum(), outcome(r)
	return r, nil
}

// waiting says what the execution waits for that will never come.
func (w *world) waiting(ctx context.Context) ([]string, error) {
	x, err := w.engine.Store.Execution(ctx, w.cfg.Tenant, w.cfg.ID)
	if err != nil {
		return nil, err
	}
	env, err := w.engine.Library.Hash(ctx, w.cfg.Tenant, x.Workflow, x.Definition)
	if err != nil {
		return nil, err
	}
	history, err := w.engine.Store.History(ctx, w.cfg.Tenant, w.cfg.ID, 0, int(x.Version))
	if err != nil {
		return nil, err
	}
	state, err := decide.Rebuild(env, history)
	if err != nil {
		return nil, err
	}
	return state.Awaits(), nil
}

// hook lets another service have its turn before each command.
type hook struct{ w *world }

// DialHook is redis.Hook's.
func (h hook) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook is redis.Hook's.
func (h hook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := h.w.command(func() error { return next(ctx, cmd) }, cmd)
		if err != nil && cmd.Err() == nil {
			cmd.SetErr(err)
		}
		return err
	}
}

// ProcessPipelineHook is redis.Hook's.
func (h hook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		return h.w.command(func() error { return next(ctx, cmds) }, cmds...)
	}
}

// command carries out what a service, or the world itself, asks of Redis.
func (w *world) command(perform func() error, cmds ...redis.Cmder) error {
	if err := w.pass(); err != nil {
		return err
	}
	lost := w.nextFault()
	if lost == lostRequest {
		return errLost
	}
	err := perform()
	w.wrote(cmds...)
	if lost == lostReply {
		return errLost
	}
	return err
}

// errStopped ends a service whose world has ended.
var errStopped = errors.New("the simulation has ended")

// pass is a point at which another service can have its turn.
func (w *world) pass() error {
	if w.current == nil {
		return nil
	}
	if !w.current.pause() {
		return errStopped
	}
	return nil
}

// wrote wakes readers after a command that may have added to a stream.
func (w *world) wrote(cmds ...redis.Cmder) {
	for _, cmd := range cmds {
		switch cmd.Name() {
		case "evalsha", "eval", "xadd":
			w.notify()
			return
		}
	}
}
