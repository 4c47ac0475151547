// Package engine assembles the services around one Redis:
//
//	start ─▶ execution.started ─▶ worker ── task.requested ──▶ executor ─▶ other systems
//	                              ▲  ▲ │                          │
//	                              │  └─┼──── task.completed ──────┘
//	                 timer.fired  │    │ timer.scheduled
//	                              timer ◀┘       every arrow: one atomic commit in Redis
//
// Each service is a step function. In production, Run loops over them; the simulator
// calls them itself, in an order derived from a seed.
//
// The documentation of package cmd/run follows a document to the commit that starts an execution. Its
// workflow has been registered before:
//
//	engine/definitions/cache.go        Cache.Register     keeps the Definition for the services of this process
//	engine/store/registry/registry.go  Registry.Define    calls define.lua for its version
//	engine/store/scripts/define.lua                       stores its source
//
// A message on its way from XREADGROUP to its acknowledgement:
//
//	engine/store/stream/read.go        Streams.Read       sends XREADGROUP
//	engine/delivery/consumer.go        Consumer.read      counts the events, for the size of the next read
//	                                   Consumer.Fetch     chooses the tenants to read, and claims abandoned messages
//	engine/worker/inbox.go             Inbox.take         lets one worker read for all workers of the process
//	                                   Inbox.pick         chooses the next batch of a tenant
//	engine/worker/worker.go            Service.Step       handles a batch
//	                                   Service.plan       finds the state of the message's execution
//	                                   Service.decide     applies the event and computes what is ready: decide.State
//	                                   Service.newCommit  turns what was decided into a commit
//	                                   Service.flush      writes the commits of the batch
//	engine/store/commit.go             Store.CommitAll    calls commit.lua
//	engine/store/scripts/commit.lua                       writes the commits and acknowledges the messages
//
// A task, from the message that requests it to the one with its result:
//
//	engine/executor/inbox.go           Inbox.take         lets one executor read for all executors of the process
//	                                   Inbox.next         chooses what an executor does next
//	                                   Inbox.begin        chooses the next request
//	engine/executor/executor.go        Service.Step       handles a request
//	                                   Service.perform    finds the task in its definition
//	                                   Caller.Call        calls another system: packages http and openapi
//	engine/executor/outbox.go          outbox.send        lets one executor send the results of all
//	                                   outbox.reply       makes a TaskCompleted
//	engine/store/stream/settle.go      Streams.Replies    calls reply.lua
//	engine/store/scripts/reply.lua                        publishes it and acknowledges the request
//
// A timer, from the decision to the message that says that it has fired:
//
//	engine/decide/timer.go             machine.scheduleAt  publishes a TimerScheduled with the next commit
//	engine/timer/request.go            Service.read        reads it, and waits at most until the next timer is due
//	                                   Service.set         handles what was read
//	                                   Service.apply       reads the timer of each message
//	engine/store/timers/set.go         Timers.Apply        calls set_timers.lua
//	engine/store/scripts/set_timers.lua                    adds it to a sorted set and acknowledges the message
//	engine/timer/timer.go              Service.Step        fires, reads and sets
//	                                   Service.fire        lets one timer service fire for all of the process
//	                                   Service.fireOn      fires the timers that are due
//	engine/store/timers/fire.go        Timers.Poll         reads the first timers of the sorted set
//	                                   Timers.Fire         calls fire.lua
//	engine/store/scripts/fire.lua                          publishes a TimerFired and removes the timer
//
// Functions that only encode or decode one thing are left out.
package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"flunq.io/flunq/engine/bridge"
	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/definitions"
	"flunq.io/flunq/engine/delivery"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/executor"
	"flunq.io/flunq/engine/executor/breaker"
	"flunq.io/flunq/engine/executor/call"
	httpcall "flunq.io/flunq/engine/executor/http"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/stream"
	"flunq.io/flunq/engine/store/wire"
	"flunq.io/flunq/engine/timer"
	"flunq.io/flunq/engine/worker"
)

// Options of an Engine. A simulation uses the zero values of Open, Descendants and RedisPercent.
type Options struct {
	// The process.

	Process   string   // part of the consumer names of this process; unique on one Redis
	Tenants   []string // tenants to serve
	Discover  bool     // also serve tenants found in Redis that are not private
	Command   string   // command to register the process under while it runs, see processes.Process; "": do not register
	Transient bool     // remove the registration when the process stops
	Version   string   // of the runtime, for $runtime and User-Agent
	Secrets   map[string]any

	// Its services: the number of instances of each, 0 to 256, and how they read events.

	Workers, Executors, Timers int
	Worker, Executor, Timer    Reading
	Lease                      time.Duration // time without a heartbeat after which a consumer's messages are claimed
	Retry                      delivery.Policy
	Retention                  Retention     // zero: streams are not trimmed
	Sweep                      time.Duration // interval between searches for timers, subscriptions and requests that Redis has lost; 0: no search, as in simulation

	// Redis.

	Embedded     bool          // Redis runs inside this process
	Cluster      bool          // use the key names of a Redis Cluster, as in some simulations; a cluster client sets it itself
	LongRead     time.Duration // longest time that a read blocks; 0: 5 s; simulated up to days
	RedisPercent int           // percentage of Redis' maxmemory, 1 to 100, above which no execution starts; 0: no limit

	// Workers.

	Limits       decide.Limits
	Chunk        int  // approximate number of history entries in one commit; 0: 256; sometimes simulated as 1 to 12
	Snapshots    int  // minimum number of entries between snapshots; 0: 256; sometimes simulated as 1 to 12
	Open         int  // maximum number of open executions of one tenant; 0: no limit
	Descendants  int  // maximum number of open executions below a root execution; 0: no limit
	Remote       bool // send tasks that only compute to the executors, too
	Observations bool // record what became of each input, see store.Observation
	Lifecycle    bool // publish lifecycle events, for bridges

	// Executors.

	// ExtraExecutors is the number of additional executors, 0 to 2048. One tenant's tasks
	// occupy at most Executors at a time so that other tenants always find free ones. If it is
	// 0, as in simulation, one tenant may occupy all.
	ExtraExecutors int
	Transport      http.RoundTripper // performs calls
	Breakers       *breaker.Set      // nil: no call is refused
	Answers        *call.Memory      // for large responses to calls; nil: unbounded

	// Timer services.

	Fires     int           // timers to fire in one batch
	MaxSleep  time.Duration // longest wait between two checks for due timers
	Lookahead time.Duration // see timer.Options

	// Bridges to Kafka or NATS.

	Bridge           *bridge.Options // makes the process a bridge; New fills in the process, the tenants and the lease
	BridgeGroup      string          // the consumer group of the bridges, even if this process is not one; "": there are none
	OutsideExecutors bool            // only external programs perform tasks, through the bridge: streams need no consumer group for executors

	// Observers, each of which may be nil.

	// Observe receives the history entries that this process' workers commit, in order, and the
	// version of the execution before them. It must not keep the slice.
	Observe func(after int64, entries []event.Event)
	// Trace returns the traceparent header for the requests of a task run.
	Trace func(tenant, execution string, run event.Run) string
	// Activity receives what the services do.
	Activity delivery.Observer
}

// Reading holds a service's options for reading events.
type Reading struct {
	Group   string
	Batch   int           // events of a tenant per read, 1 to 1000
	Block   time.Duration // how long a read blocks; 0 in most simulations
	Reclaim bool          // claim abandoned events
}

// Defaults are the options of an ordinary deployment of one process.
func Defaults() Options {
	clock := timer.Defaults()
	reading := func(group string) Reading {
		return Reading{Group: group, Batch: 100, Block: time.Second, Reclaim: true}
	}
	timers := reading(store.TimerGroup)
	timers.Block = clock.Block
	return Options{
		Tenants: []string{"default"},
		Workers: 4, Executors: 16, Timers: 2,
		Worker: reading(store.WorkerGroup), Executor: reading(store.ExecutorGroup), Timer: timers,
		Lease: 30 * time.Second, Retry: delivery.DefaultPolicy(),
		RedisPercent: 90,
		Limits:       decide.DefaultLimits(), Open: 200_000, Descendants: 2_000,
		ExtraExecutors: 112,
		Fires:          clock.Fires, MaxSleep: clock.MaxSleep, Lookahead: clock.Lookahead,
	}
}

// Block sets how long the reads of all services block.
func (o *Options) Block(d time.Duration) {
	o.Worker.Block, o.Executor.Block, o.Timer.Block = d, d, d
}

func (o Options) check() error {
	var errs []error
	if o.Process == "" {
		errs = append(errs, errors.New("the process has no name"))
	}
	if len(o.Tenants) == 0 && !o.Discover {
		errs = append(errs, errors.New("there are no tenants"))
	}
	if o.Transport == nil {
		errs = append(errs, errors.New("there is no transport for calls"))
	}
	for _, s := range []struct {
		name string
		n    int
	}{{"workers", o.Workers}, {"executors", o.Executors}, {"timers", o.Timers}} {
		if s.n < 0 || s.n > maxInstances {
			errs = append(errs, fmt.Errorf("%s is %d, want 0 to %d", s.name, s.n, maxInstances))
		}
	}
	if o.ExtraExecutors < 0 || o.ExtraExecutors > maxExtraExecutors {
		errs = append(errs, fmt.Errorf("number of extra executors is %d, want 0 to %d", o.ExtraExecutors, maxExtraExecutors))
	}
	return errors.Join(errs...)
}

// maxInstances limits the instances of one service in a process.
const maxInstances = 256

// maxExtraExecutors limits the additional executors of a process.
const maxExtraExecutors = 2048

// Engine holds the services of one process.
type Engine struct {
	Store       *store.Store
	Definitions *definitions.Cache

	opts      Options
	tenantSet *delivery.TenantSet
	services  []Service
	holders   []delivery.Holder // the services that hold messages
	closing   []func()          // keep services from beginning new work
	releasing []func(context.Context) error

	mu      sync.Mutex
	running []*serviceHealth // of the running services
	runs    atomic.Bool      // Run has been called, so the services run in real time
}

// Service is one instance of a service.
type Service struct {
	Kind string // "worker", "executor", "timer", "bridge", "renewal", "housekeeping", "sweep" or "heartbeat"
	Name string
	// Step does one round of work and returns when to call it again: immediately for a time in
	// the past, and for the zero time only when something is written to a stream. After
	// delivery.ErrBusy, call it again a little later.
	Step func(context.Context) (wake time.Time, err error)
	// Every is the interval between the steps of a service that does not block; 0 for all
	// others.
	Every time.Duration
	// Handles reports whether the service handles events of a type; it only acknowledges
	// others, at any time. It is nil for a bridge and for a service that reads no events.
	Handles func(event.Type) bool
}

// New assembles an Engine on rdb.
func New(rdb wire.Redis, opts Options) (*Engine, error) {
	if err := opts.check(); err != nil {
		return nil, err
	}
	st := store.New(rdb, store.Options{Secrets: opts.Secrets, Block: opts.LongRead, Cluster: opts.Cluster, Embedded: opts.Embedded})
	e := &Engine{Store: st, opts: opts, tenantSet: delivery.NewTenantSet(opts.Tenants...)}
	if !opts.Discover {
		e.tenantSet.Fix()
	}
	e.Definitions = definitions.New(st, decide.Options{
		Secrets: opts.Secrets, Version: opts.Version, Remote: opts.Remote, Limits: opts.Limits,
	})
	for _, add := range []func() error{e.addWorkers, e.addExecutors, e.addTimers, e.addBridge} {
		if err := add(); err != nil {
			return nil, err
		}
	}
	renewal := delivery.NewRenewal(st, e.holders, opts.Lease)
	e.add(Service{Kind: "renewal", Name: "renewal-" + opts.Process, Step: renewal.Step, Every: opts.Lease / 3})
	if opts.Discover || opts.Retention != (Retention{}) {
		e.addHousekeeping()
	}
	if opts.Sweep > 0 {
		e.addSweep()
	}
	return e, nil
}

func (e *Engine) add(s Service) { e.services = append(e.services, s) }

// reading returns the delivery options of a service that reads as r says.
func (e *Engine) reading(service string, r Reading, consumer string) delivery.Options {
	opts := delivery.Options{
		Service: service, Group: r.Group, Consumer: consumer, Tenants: e.tenantSet,
		Batch: r.Batch, Block: r.Block, Reclaim: r.Reclaim,
		Lease: e.opts.Lease, Retry: e.opts.Retry, Observe: e.opts.Activity,
	}
	if r.Block > 0 {
		opts.Alarm = e.unblockReads
	}
	return opts
}

// Limits of the cache of execution states: number and bytes of data.
const (
	cached      = 20_000
	cachedBytes = 32 << 20
)

func (e *Engine) addWorkers() error {
	if e.opts.Workers == 0 {
		return nil
	}
	consumer := e.consumers("worker", 1)[0]
	inbox, err := worker.NewInbox(e.Store, e.reading("worker", e.opts.Worker, consumer))
	if err != nil {
		return err
	}
	cache, opts := worker.NewCache(cached, cachedBytes), worker.Defaults()
	opts.Chunk, opts.Snapshots = cmp.Or(e.opts.Chunk, opts.Chunk), cmp.Or(e.opts.Snapshots, opts.Snapshots)
	opts.Clock, opts.Descendants = e.now, e.opts.Descendants
	opts.Observations, opts.Lifecycle = e.opts.Observations, e.opts.Lifecycle
	if e.opts.Open > 0 {
		opts.OpenLimit = &worker.OpenLimit{Most: e.opts.Open}
	}
	if e.opts.RedisPercent > 0 {
		opts.Headroom = &worker.Headroom{Percent: e.opts.RedisPercent}
	}
	opts.Committed, opts.Trust = e.opts.Observe, e.opts.Retention.Finished.Shortest()/2
	for i := range e.opts.Workers {
		w := worker.New(e.Store, e.Definitions, cache, inbox, opts)
		e.add(Service{Kind: "worker", Name: fmt.Sprintf("%s-%d", consumer, i), Step: w.Step, Handles: worker.Handles})
	}
	e.holders = append(e.holders, delivery.Holder{Held: inbox.Held, Finish: inbox.Finish})
	return nil
}

func (e *Engine) addExecutors() error {
	if e.opts.Executors == 0 {
		return nil
	}
	consumer := e.consumers("executor", 1)[0]
	each := 0
	if e.opts.ExtraExecutors > 0 {
		each = e.opts.Executors
	}
	inbox, err := executor.NewInbox(e.Store, e.Definitions, e.reading("executor", e.opts.Executor, consumer), each)
	if err != nil {
		return err
	}
	caller := &executor.Caller{HTTP: &httpcall.Caller{Transport: e.opts.Transport, Version: e.opts.Version, Breakers: e.opts.Breakers, Trace: e.opts.Trace}, Memory: e.opts.Answers}
	for i := range e.opts.Executors + e.opts.ExtraExecutors {
		x := executor.New(inbox, caller, e.opts.Limits)
		e.add(Service{Kind: "executor", Name: consumer + "-" + strconv.Itoa(i), Step: x.Step, Handles: executor.Handles})
	}
	e.holders = append(e.holders, delivery.Holder{Held: inbox.Held, Lost: inbox.Lost, Finish: inbox.Finish})
	e.closing = append(e.closing, inbox.Close)
	return nil
}

func (e *Engine) addTimers() error {
	watch := timer.NewWatch()
	for _, consumer := range e.consumers("timer", e.opts.Timers) {
		opts := timer.Options{
			Options: e.reading("timer", e.opts.Timer, consumer),
			Fires:   e.opts.Fires, MaxSleep: e.opts.MaxSleep, Lookahead: e.opts.Lookahead, Watch: watch,
		}
		t, err := timer.New(e.Store, opts)
		if err != nil {
			return err
		}
		e.holders = append(e.holders, delivery.Holder{Held: t.Held, Finish: t.Finish})
		e.add(Service{Kind: "timer", Name: opts.Consumer, Step: t.Step, Handles: timer.Handles})
	}
	e.closing = append(e.closing, watch.Close)
	return nil
}

func (e *Engine) addBridge() error {
	if e.opts.Bridge == nil {
		return nil
	}
	opts := *e.opts.Bridge
	opts.Process, opts.Tenants, opts.Lease, opts.Group = e.opts.Process, e.tenantSet, e.opts.Lease, e.opts.BridgeGroup
	b, err := bridge.New(e.Store, opts)
	if err != nil {
		return err
	}
	name := "bridge-" + e.opts.Process
	e.add(Service{Kind: "bridge", Name: name, Step: b.Step, Every: time.Second})
	e.add(Service{Kind: "bridge", Name: name + "-out", Step: b.Out.Step})
	if b.In != nil {
		e.add(Service{Kind: "bridge", Name: name + "-in", Step: b.In.Step})
	}
	e.closing, e.releasing = append(e.closing, b.Close), append(e.releasing, b.Release)
	return nil
}

// consumers returns the consumer names of a service: all workers share one, all executors
// share one, and each timer service has its own.
func (e *Engine) consumers(service string, count int) []string {
	var names []string
	for i := range count {
		name := service + "-" + e.opts.Process
		if service == "timer" {
			name += "-" + strconv.Itoa(i)
		}
		names = append(names, name)
	}
	return names
}

// Services returns all instances, for a caller that steps them instead of calling Run.
func (e *Engine) Services() []Service { return e.services }

// Tenants returns the tenants that are currently served, sorted.
func (e *Engine) Tenants() []string { return e.tenantSet.Names() }

// Breakers returns the circuit breakers of the process, or nil if there are none.
func (e *Engine) Breakers() *breaker.Set { return e.opts.Breakers }

// groups returns the names of the services' consumer groups.
func (e *Engine) groups() []string {
	groups := []string{e.opts.Worker.Group, e.opts.Timer.Group}
	if !e.opts.OutsideExecutors {
		groups = append(groups, e.opts.Executor.Group)
	}
	if e.opts.BridgeGroup != "" {
		groups = append(groups, e.opts.BridgeGroup)
	}
	return groups
}

// Prepare creates the consumer groups of the services.
func (e *Engine) Prepare(ctx context.Context) error {
	for _, tenant := range e.tenantSet.Names() {
		err := stream.New(e.Store).Groups(ctx, tenant, e.groups()...)
		if s := e.Store; err != nil && (!s.Clustered() || !store.Temporary(err)) { // other masters may serve other tenants
			return err
		}
	}
	return nil
}
