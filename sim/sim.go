// Package sim runs the real engine inside one process, with a virtual clock that jumps from
// one event to the next, and in an order that depends only on a seed. It uses miniredis or,
// to inject faults, an in-memory Redis of its own.
//
// The type simulation describes the layers of a run. Invariants are checked by the monitor during
// the run and by the checker after it, those of a single history by package invariant; each reports
// a violation with the name of its rule. The tests of package workload plant bugs, in Lua
// (scriptBugs) and in Go (mutants), which the invariants must find.
package sim

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"time"

	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/sim/mock"
)

// Config says what to simulate.
type Config struct {
	Definition *dsl.Definition
	With       []*dsl.Definition // other definitions that it may run
	Input      json.RawMessage   // {} if there is none
	ID         string            // of the execution; derived from the seed if empty
	Tenant     string            // "default" if empty
	Nonce      string            // in the idempotency keys of calls; derived from tenant, id and start if empty
	Seed       uint64
	Start      time.Time // of the virtual clock; Epoch() if zero
	Mocks      *mock.Set // nil: calls go out through Transport
	Onward     bool      // calls that no mock answers go out through Transport
	Transport  http.RoundTripper
	Secrets    map[string]any
	Version    string  // of flunq, for $runtime
	Pace       float64 // virtual seconds per real second; 0: never waits
	Remote     bool    // send computed tasks through the stream, too
	Executors  int     // maximum number of concurrent calls; 64 if 0
	Limits     decide.Limits

	MaxTime  time.Duration // of the virtual clock, which stops there; 0: no limit
	MaxTasks int           // the simulation stops once more tasks have started; 0: no limit
	MaxTurns uint64        // maximum number of turns of services; 0: no limit

	// Observe, if set, is called with the events of each commit to a history; it must not
	// keep the slice. Exchange is called for each exchange with a mock or a real service.
	// Missed is called for each event that no execution received, before the clock moves
	// on; not if there is a Plan.
	Observe  func([]event.Event)
	Exchange func(mock.Exchange)
	Missed   func(Missed)

	// Arrived, if set, is called for each event from outside with the time when it arrived, and
	// Injected for each injected fault. Wrap returns the transport that the engine's calls
	// enter; Answers returns one that answers them instead of Mocks and Transport.
	Arrived  func(event.Event, time.Time)
	Injected func(InjectedFault)
	Wrap     func(next http.RoundTripper, now func() time.Time) http.RoundTripper
	Answers  func(sleep func(context.Context, time.Duration) error) http.RoundTripper

	Plan       *Plan // what goes wrong; nil: nothing
	Processes  int   // number of engine processes; 1 if 0
	Executions int   // of the definition, all started together; 1 if 0
	Tenants    int   // number of tenants that share the executions; 1 if 0
	Cluster    bool  // the keys and rules of a Redis Cluster, which refuses scripts and commands that cross slots; needs a Plan
	Twins      bool  // each tenant has executions with the same ids

	Acts     []Act         // operator actions; in the end operators resume suspended executions
	Slow     bool          // calls take longer than leases
	Waits    time.Duration // how long timer services block in their reads; 0: they do not block, and read when something new is written
	Thorough bool          // services look for abandoned work even without faults
	Watchful bool          // check what executions wait for whenever the services are idle
	Poison   uint64        // the number of the message that crashes each process that handles it; 0: none

	Scripted Scripted // what happens by script rather than by chance
	Bug      *Bug     // an engine bug that a test plants; nil: none

	redis              opener            // nil: miniredis, or the simulator's own for a Plan or a Bug
	foreignDefinitions []*dsl.Definition // the definitions of the other tenants; nil: all tenants have the same
}

// IDs returns the ids of the executions that are started.
func (cfg Config) IDs() []string {
	ids := []string{cfg.ID}
	for i := 1; i < cfg.Executions; i++ {
		ids = append(ids, fmt.Sprintf("%s-%d", cfg.ID, i+1))
	}
	return ids
}

// Epoch is the default start of the virtual clock. It is fixed, so runs are reproducible.
func Epoch() time.Time { return time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC) }

// Result is the outcome of a simulation.
type Result struct {
	Status  decide.Status // running or waiting if the execution did not end
	Output  json.RawMessage
	Error   *event.Problem
	Stop    Stop     // why it did not end; "" if it did
	Waiting []string // what it waits for, one line each
	Busiest string   // the tasks that were started most often, if Stop is TasksUp
	Missed  []Missed // events that no execution received; only without a Plan

	Execution string
	Tasks     int // number of started tasks
	Events    int // in all histories
	Elapsed   time.Duration
	Order     string // hash of the events in their order: equal for equal seeds
	Effects   string // hash of the calls that were carried out and of the state of mocks; "" if there are none
	Outcome   string // hash of the result and the effects: equal for all seeds of a workflow without races
}

// Stop is why a simulation ended before its execution did.
type Stop string

// The reasons to stop.
const (
	Never     Stop = "never"     // the execution waits for something that can never happen
	TimeUp    Stop = "max-time"  // Config.MaxTime
	TasksUp   Stop = "max-steps" // Config.MaxTasks
	Interrupt Stop = "interrupt" // the context ended
	Stuck     Stop = "stuck"     // Config.MaxTurns: the services never become idle
)

// Prepared returns cfg for the simulations of a search, which differ in their seeds and
// faults. They share the definitions of other tenants.
func (cfg Config) Prepared() Config {
	cfg = cfg.WithDefaults()
	cfg.redis = openOwn
	return cfg.WithForeignDefinitions()
}

// WithDefaults returns cfg with the defaults of its zero fields.
func (cfg Config) WithDefaults() Config {
	if cfg.Start.IsZero() {
		cfg.Start = Epoch()
	}
	cfg.Tenant, cfg.Executors = cmp.Or(cfg.Tenant, "default"), cmp.Or(cfg.Executors, 64)
	if cfg.ID == "" {
		cfg.ID = fmt.Sprintf("run-%013x", Choice(cfg.Seed, cfg.Definition.ID())>>12)
	}
	cfg.Processes, cfg.Executions = max(cfg.Processes, 1), max(cfg.Executions, 1)
	if cfg.Limits == (decide.Limits{}) {
		cfg.Limits = decide.DefaultLimits()
	}
	if len(cfg.Input) == 0 {
		cfg.Input = json.RawMessage("{}")
	}
	return cfg
}

// Definitions returns the main definition, and then those that it may run.
func (cfg Config) Definitions() []*dsl.Definition {
	return append([]*dsl.Definition{cfg.Definition}, cfg.With...)
}

// HasTask reports whether some task of a definition has a property.
func HasTask(def *dsl.Definition, is func(*dsl.Task) bool) bool {
	for _, t := range def.Tasks() {
		if is(t) {
			return true
		}
	}
	return false
}

// callsOut reports whether tasks may go to an executor.
func (cfg Config) callsOut() bool {
	return cfg.Remote || slices.ContainsFunc(cfg.Definitions(), CallsOut)
}

// CallsOut reports whether a definition has a task that needs more than decisions.
func CallsOut(def *dsl.Definition) bool {
	computed := []dsl.Kind{dsl.Set, dsl.Wait, dsl.Do, dsl.For, dsl.Fork, dsl.Switch, dsl.Try, dsl.Raise, dsl.Inject}
	return HasTask(def, func(t *dsl.Task) bool { return !slices.Contains(computed, t.Kind) })
}
