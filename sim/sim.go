// Package sim runs the real engine inside one process: on an in-memory Redis,
// with a clock that jumps from one moment at which something happens to the
// next, and in an order that follows from a seed alone.
package sim

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"time"

	"flunq.io/flunq/engine"
	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/executor"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/sim/mock"
)

// Config says what to simulate.
type Config struct {
	Definition *dsl.Definition
	With       []*dsl.Definition // further definitions that it may run
	Input      json.RawMessage   // {} if there is none
	ID         string            // of the execution; derived from the seed if empty
	Tenant     string            // "default" if empty
	Nonce      string            // in the idempotency keys of calls; derived from tenant, id and start if empty
	Seed       uint64
	Start      time.Time // of the virtual clock; Epoch() if zero
	Mocks      *mock.Set // nil: calls go out through Transport
	Onward     bool      // what no mock answers goes out, too
	Transport  http.RoundTripper
	Secrets    map[string]any
	Version    string  // of flunq, for $runtime
	Pace       float64 // virtual seconds for each real one; 0: no waiting at all
	Remote     bool    // send tasks that only compute through the stream, too
	Executors  int     // calls that can be under way at once; 64 if 0
	Limits     decide.Limits

	MaxTime  time.Duration // of the virtual clock, which stops there; 0: none
	MaxTasks int           // started; 0: none
	MaxTurns uint64        // that services may have; 0: any number

	// Observe, if set, is shown every event of a history as it is committed, in a
	// slice that it must not keep, and Exchange every one with a mock or the world.
	Observe  func([]event.Event)
	Exchange func(mock.Exchange)
	Missed   func(Missed) // an event that nobody took, when the clock is about to move on; not where there is a Plan

	Plan       *Plan // of what goes wrong; nil: nothing
	Processes  int   // that share the work; 1 if 0
	Executions int   // of the definition, all started at once; 1 if 0
	Tenants    int   // over which they are spread, Tenant and such as it; 1 if 0
	Twins      bool  // each tenant has executions of the same ids

	Acts     []Act         // of operators, who let go on in the end what rests
	Slow     bool          // calls take longer than leases
	Waits    time.Duration // timer services wait in their reads, and look at the timers at least this often; 0: they ask again when there is something new
	Thorough bool          // services look for what others may have left, though nothing goes wrong
	Watchful bool          // what executions wait for is looked at whenever nothing is under way
	Deadly   uint64        // of all messages that are begun with, the one that whoever does so dies of; 0: none

	bug       *bug                      // planted by the tests of the simulator itself
	acts      []arrival                 // of operators, likewise
	lethal    string                    // whoever calls this dies of it, likewise
	fatal     event.Type                // whoever begins with such an event does, likewise
	breakers  func() *executor.Breakers // those of a process, likewise; nil: it has none
	retention *engine.Retention         // likewise; nil: as the seed has it
	record    *recording
	abroad    []*dsl.Definition // as other tenants have them than the first; nil: all have the same
	known     *judged           // ends that were found to be right, by all worlds of a search; nil: none
	replay    *Recording        // what answers the calls, in the place of Mocks and Transport
}

// ids are those of the executions that are started.
func (cfg Config) ids() []string {
	ids := []string{cfg.ID}
	for i := 1; i < cfg.Executions; i++ {
		ids = append(ids, fmt.Sprintf("%s-%d", cfg.ID, i+1))
	}
	return ids
}

// Epoch is when simulations begin unless told otherwise, so that two runs agree.
func Epoch() time.Time { return time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC) }

// Result is how a simulation ended.
type Result struct {
	Status  decide.Status // running or waiting: it did not end
	Output  json.RawMessage
	Error   *event.Problem
	Stop    Stop     // why it did not end, "" if it did
	Waiting []string // for what, one line each
	Busiest string   // tasks that were started most often, where it was stopped because of their number
	Missed  []Missed // events that nobody took; not where there is a Plan

	Execution string
	Tasks     int // started
	Events    int // in all histories
	Elapsed   time.Duration
	Order     string // hash of what happened in its order: equal for equal seeds
	Effects   string // hash of the calls that were carried out, and of what mocks keep; "" if there are none
	Outcome   string // hash of how it ended, with its effects: equal for all seeds of a workflow without races
}

// Stop is why a simulation ended before its execution did.
type Stop string

// The reasons to stop.
const (
	Never     Stop = "never"     // it waits for something that will never come
	TimeUp    Stop = "max-time"  // Config.MaxTime
	TasksUp   Stop = "max-steps" // Config.MaxTasks
	Interrupt Stop = "interrupt" // the context ended
	Stuck     Stop = "stuck"     // Config.MaxTurns: services would have turns for ever
)

// Run simulates one execution to its end. An error is the engine's or the
// configuration's: what becomes of the execution is the Result.
func Run(ctx context.Context, cfg Config) (*Result, error) {
	cfg = cfg.withDefaults()
	w, err := newSimulation(ctx, cfg)
	if err != nil {
		return nil, err
	}
	defer w.close()
	if err := w.launch(ctx); err != nil {
		return nil, err
	}
	stop, err := w.run(ctx)
	if err != nil {
		return nil, err
	}
	return w.result(ctx, stop)
}

// Prepared is cfg for many simulations that differ in what goes wrong only: they share
// what need not be found out by each.
func (cfg Config) Prepared() Config {
	cfg = cfg.withDefaults()
	cfg.known, cfg.abroad = newChecked(), abroad(cfg)
	return cfg
}

func (cfg Config) withDefaults() Config {
	if cfg.Start.IsZero() {
		cfg.Start = Epoch()
	}
	if cfg.Tenant == "" {
		cfg.Tenant = "default"
	}
	if cfg.ID == "" {
		cfg.ID = fmt.Sprintf("run-%013x", Choice(cfg.Seed, cfg.Definition.ID())>>12)
	}
	if cfg.Executors == 0 {
		cfg.Executors = 64
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

// options of the engine under simulation: nothing blocks, nothing waits.
func (w *simulation) options(p *process) engine.Options {
	opts := engine.Defaults()
	opts.Process = p.name()
	opts.Tenants = w.tenants
	opts.Workers, opts.Executors, opts.Timers = 1, w.cfg.Executors, 1
	if !w.cfg.callsOut() {
		opts.Executors = 1 // it has nothing to do
	}
	opts.Block(0)
	opts.WarmProcesses, opts.Descendants, opts.RedisPercent = 0, 0, 0
	if w.lazy {
		opts.Worker.Reclaim, opts.Executor.Reclaim, opts.Timer.Reclaim = false, false, false // nobody dies
	}
	if w.cfg.Plan != nil {
		batch := w.cfg.batch()
		opts.Worker.Batch, opts.Executor.Batch, opts.Timer.Batch = batch, batch, batch
		opts.Activity = w.acted
		const one, most = 8, 12 // what is small is done at once in almost all worlds
		opts.Chunk, opts.Snapshots = w.cfg.pieces("chunk", one, most), w.cfg.pieces("snapshots", one, most)
		opts.Fires = cmp.Or(w.cfg.pieces("fires", one, most), opts.Fires)
		opts.Workers, opts.Timers = w.cfg.several("workers"), w.cfg.several("timers")
		if waits := w.cfg.Waits; waits > 0 { // in a read, where a service is alone: two of a process would wait for one another
			opts.Timers, opts.Timer.Block, opts.MaxSleep, opts.LongRead = 1, waits, waits, waits
		}
	}
	opts.Secrets, opts.Version, opts.Remote, opts.Limits = w.cfg.Secrets, w.cfg.Version, w.cfg.Remote, w.cfg.Limits
	opts.Observe, opts.Retention = w.observe, w.retention
	opts.Transport, opts.Memory = w.outward, &memories
	if w.cfg.breakers != nil {
		opts.Breakers = w.cfg.breakers()
	}
	return opts
}

// memories are what the Stores of all worlds work in.
//
//nolint:gochecknoglobals // pools of what is empty
var memories store.Memory

// callsOut reports whether tasks may go to an executor.
func (cfg Config) callsOut() bool {
	return cfg.Remote || CallsOut(cfg.Definition) || slices.ContainsFunc(cfg.With, CallsOut)
}

// CallsOut reports whether a definition has a task that is more than decisions.
func CallsOut(def *dsl.Definition) bool {
	for _, t := range def.Tasks() {
		switch t.Kind {
		case dsl.Set, dsl.Wait, dsl.Do, dsl.For, dsl.Fork, dsl.Switch, dsl.Try, dsl.Raise:
		default:
			return true
		}
	}
	return false
}

// several is how many services of a kind each of the processes of a search's world
// has: one, or in some of them two, which then share what their process holds.
func (cfg Config) several(kind string) int {
	const one = 4 // of so many worlds
	if cfg.Processes > 1 && Choice(cfg.Seed, kind)%one == 1 {
		return 2
	}
	return 1
}

// pieces are how large the pieces are in which something is done that is done at once as
// a rule, for which 0 stands: in one of so many worlds they are up to so large.
func (cfg Config) pieces(what string, one, most uint64) int {
	if n := Choice(cfg.Seed, what); n%one == 1 {
		return int(n/one%most) + 1 //nolint:gosec // most is small
	}
	return 0
}

// batch is how many events the services of a search's world read at once: many, as
// they usually do, or so few that what comes together is done by different ones. Of
// many executions without faults some race in any world.
func (cfg Config) batch() int {
	usual := engine.Defaults().Worker.Batch
	batches := []int{usual, 1, usual, 2}
	if cfg.harmless() && cfg.Executions > 1 {
		batches = []int{usual, 1, usual, 2, usual, 2, usual, usual}
	}
	return batches[mix(cfg.Seed, hashed("batch"), 0)%uint64(len(batches))]
}
