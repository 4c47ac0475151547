// Package engine assembles the services around one Redis:
//
//	start ─▶ execution.started ─▶ worker ── task.requested ──▶ executor ─▶ the world
//	                              ▲  ▲ │                          │
//	                              │  └─┼──── task.completed ──────┘
//	                 timer.fired  │    │ timer.scheduled
//	                              timer ◀┘       every arrow: one atomic commit in Redis
//
// Each service is a step function. In production Run loops over them; the
// simulator calls them itself, in the order that a seed gives.
package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/redis/go-redis/v9"

	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/executor"
	"flunq.io/flunq/engine/library"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/timer"
	"flunq.io/flunq/engine/worker"
)

// Options of an Engine.
type Options struct {
	Process   string   // names the consumers of this process; unique among all on one Redis
	Tenants   []string // whose work is done
	Workers   int      // instances in this process, likewise below; 1 to 64
	Executors int
	Timers    int

	Transport http.RoundTripper // how calls go out
	Secrets   map[string]any
	Version   string // of the runtime, for $runtime and User-Agent

	Remote bool          // send tasks that only compute through the stream, too
	Block  time.Duration // how long a read waits for events; 0 in simulation
	Lease  time.Duration // after which the messages of a silent consumer are claimed; simulated 1s to 1m
	Limits decide.Limits

	// Observe, if set, is shown what this process' workers committed, in order.
	Observe func([]event.Event)
}

// Defaults are the options of an ordinary deployment of one process.
func Defaults() Options {
	return Options{
		Tenants: []string{"default"}, Workers: 4, Executors: 16, Timers: 2,
		Block: time.Second, Lease: 30 * time.Second, Limits: decide.DefaultLimits(),
	}
}

func (o Options) check() error {
	var errs []error
	if o.Process == "" {
		errs = append(errs, errors.New("the process has no name"))
	}
	if len(o.Tenants) == 0 {
		errs = append(errs, errors.New("there are no tenants"))
	}
	if o.Transport == nil {
		errs = append(errs, errors.New("there is no transport for calls"))
	}
	for name, n := range map[string]int{"workers": o.Workers, "executors": o.Executors, "timers": o.Timers} {
		if n < 1 || n > 64 {
			errs = append(errs, fmt.Errorf("%s is %d, want 1 to 64", name, n))
		}
	}
	return errors.Join(errs...)
}

// Engine is the services of one process.
type Engine struct {
	Store   *store.Store
	Library *library.Library

	opts     Options
	services []Service
	held     []func() []store.Message // what the services have read and not handled
}

// Service is one instance of a service.
type Service struct {
	Group string // what it is one of: "worker", "executor", "timer", "renewal"
	Name  string
	// Step does one round of work. It says when it wants the next one: at once
	// if that is past, never (before something is written to a stream) if it is zero.
	Step func(context.Context) (wake time.Time, err error)
	// Every is how often a service that waits for nothing is called, 0 for all others.
	Every time.Duration
}

// New assembles an Engine on a Redis.
func New(rdb redis.UniversalClient, opts Options) (*Engine, error) {
	if err := opts.check(); err != nil {
		return nil, err
	}
	st := store.New(rdb, store.Options{Secrets: opts.Secrets})
	e := &Engine{Store: st, opts: opts}
	e.Library = library.New(st, decide.Options{
		Secrets: opts.Secrets, Version: opts.Version, Remote: opts.Remote, Limits: opts.Limits,
	})
	for _, add := range []func() error{e.addWorkers, e.addExecutors, e.addTimers} {
		if err := add(); err != nil {
			return nil, err
		}
	}
	return e, nil
}

// cached is how many executions a process keeps the states of.
const cached = 10_000

func (e *Engine) addWorkers() error {
	cache := worker.NewCache(cached)
	for i := range e.opts.Workers {
		opts := worker.Defaults()
		opts.Consumer = fmt.Sprintf("worker-%s-%d", e.opts.Process, i)
		opts.Tenants, opts.Block, opts.Lease = e.opts.Tenants, e.opts.Block, e.opts.Lease
		opts.Observe = e.opts.Observe
		w, err := worker.New(e.Store, e.Library, cache, opts)
		if err != nil {
			return err
		}
		e.held = append(e.held, w.Held)
		e.services = append(e.services, Service{Group: "worker", Name: opts.Consumer, Step: w.Step})
	}
	return nil
}

func (e *Engine) addExecutors() error {
	consumer := "executor-" + e.opts.Process
	reader := store.Reader{Group: store.ExecutorGroup, Consumer: consumer, Tenants: e.opts.Tenants}
	inbox := executor.NewInbox(e.Store, reader, executor.InboxOptions{Batch: 100, Block: e.opts.Block, Lease: e.opts.Lease})
	caller := &executor.Caller{Transport: e.opts.Transport, Limits: executor.DefaultLimits(), Version: e.opts.Version}
	for i := range e.opts.Executors {
		x, err := executor.New(e.Store, e.Library, inbox, executor.Options{
			Caller: caller, Attempts: 3, RetryDelay: 200 * time.Millisecond, Limit: e.opts.Limits.Data,
		})
		if err != nil {
			return err
		}
		e.services = append(e.services, Service{Group: "executor", Name: fmt.Sprintf("%s-%d", consumer, i), Step: x.Step})
	}
	e.held = append(e.held, inbox.Held)
	renewal := executor.NewRenewal(inbox)
	e.services = append(e.services, Service{
		Group: "renewal", Name: "renewal-" + e.opts.Process, Step: renewal.Step, Every: e.opts.Lease / 3,
	})
	return nil
}

func (e *Engine) addTimers() error {
	for i := range e.opts.Timers {
		opts := timer.Defaults()
		opts.Consumer = fmt.Sprintf("timer-%s-%d", e.opts.Process, i)
		opts.Tenants, opts.Block, opts.Lease = e.opts.Tenants, e.opts.Block, e.opts.Lease
		t, err := timer.New(e.Store, opts)
		if err != nil {
			return err
		}
		e.held = append(e.held, t.Held)
		e.services = append(e.services, Service{Group: "timer", Name: opts.Consumer, Step: t.Step})
	}
	return nil
}

// Services are all instances, for whoever steps them instead of Run.
func (e *Engine) Services() []Service { return e.services }

// Prepare makes the consumer groups that the services read with.
func (e *Engine) Prepare(ctx context.Context) error {
	for _, tenant := range e.opts.Tenants {
		if err := e.Store.Groups(ctx, tenant); err != nil {
			return err
		}
	}
	return nil
}

// Start begins an execution of a registered definition. No input is {}.
func (e *Engine) Start(ctx context.Context, tenant, id string, def *dsl.Definition, input json.RawMessage) error {
	now, err := e.Store.Now(ctx)
	if err != nil {
		return err
	}
	if len(input) == 0 {
		input = json.RawMessage("{}")
	}
	doc := def.Document
	data := event.Encode(event.Started{Namespace: doc.Namespace, Name: doc.Name, Version: doc.Version, Input: input})
	return e.Store.Start(ctx, event.Event{
		ID: id + "/start", Source: decide.Prefix + "cli", Type: event.ExecutionStarted, Time: now,
		Tenant: tenant, Workflow: def.ID(), Execution: id, Data: data,
	})
}
