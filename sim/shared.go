package sim

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"flunq.io/flunq/engine"
	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/executor/call"
	httpcall "flunq.io/flunq/engine/executor/http"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/stream"
	"flunq.io/flunq/engine/store/timers"
	"flunq.io/flunq/engine/store/wire"
	"flunq.io/flunq/sim/memory"
)

// shared holds what all parts of a simulation use: its configuration, Redis, the clock, and
// what has happened so far.
type shared struct {
	cfg     Config
	redis   inProcess
	memory  *memory.Server // redis, if it is the simulator's own; nil otherwise
	client  wire.Redis     // the client of pool
	engine  *engine.Engine // of the first process, whose store and definition cache the simulation uses
	clock   clock
	ids     []string // of the executions that are started
	tenants []string // the tenants of the executions
	keys    store.Keys
	streams []string  // the keys of the tenants' events
	timers  []string  // the keys of the tenants' timers: one for all but on a cluster
	last    string    // the stream that was written last
	current *service  // whose turn it is; nil while the simulation itself acts
	outage  time.Time // until when Redis is unreachable
	failure error     // ends the simulation

	tasks, events int // numbers of started tasks and of events in histories
	injected      []InjectedFault
	callCounts    map[CallID]int // number of calls that reached a service
	reached       []Reached      // in order of arrival
	operators     operators
	poison        poisonMessages
	violations    []Violation // in the order in which they were found
}

func newShared(cfg Config) shared {
	sh := shared{cfg: cfg, ids: cfg.IDs(), tenants: cfg.tenants(), keys: store.KeysOf(cfg.Cluster), callCounts: map[CallID]int{}, operators: newOperators(), clock: newClock(cfg.Start, cfg.Pace)}
	for _, tenant := range sh.tenants {
		sh.streams = append(sh.streams, sh.keys.Stream(tenant))
		sh.timers = append(sh.timers, sh.keys.Timers(tenant))
	}
	sh.timers = slices.Compact(sh.timers)
	return sh
}

// tenants returns the tenants of the executions. They share Redis, its timers and the
// processes, and nothing else.
func (cfg Config) tenants() []string {
	out := []string{cfg.Tenant}
	for i := 1; i < cfg.Tenants; i++ {
		out = append(out, fmt.Sprintf("%s-%d", cfg.Tenant, i+1))
	}
	return out
}

// label returns the id that the simulation uses for a tenant's execution. It is unique even if
// tenants have executions with the same ids.
func (sh *shared) label(tenant, id string) string {
	if !sh.cfg.Twins {
		return id
	}
	at := slices.Index(sh.tenants, tenant)
	for i := 0; at > 0 && i+at < len(sh.ids); i += len(sh.tenants) {
		if rest, ok := below(id, sh.ids[i]); ok {
			return sh.ids[i+at] + rest
		}
	}
	return id
}

// idOf returns the id of an execution with a label.
func (sh *shared) idOf(label string) string {
	if !sh.cfg.Twins {
		return label
	}
	for i, root := range sh.ids {
		if rest, ok := below(label, root); ok {
			return sh.ids[i-i%len(sh.tenants)] + rest
		}
	}
	return label
}

// below returns the part of an execution's id after root, if it is root or one of its
// descendants.
func below(id, root string) (rest string, ok bool) {
	rest, ok = strings.CutPrefix(id, root)
	return rest, ok && (rest == "" || rest[0] == '.')
}

// originOf returns the task that a call is made for.
func (sh *shared) originOf(req *http.Request) call.Origin {
	from := httpcall.OriginOf(req)
	if sh.current != nil {
		from.Execution = sh.label(sh.current.tenant, from.Execution)
	}
	return from
}

// tenantOf returns the tenant of an execution.
func (sh *shared) tenantOf(id string) string {
	if len(sh.tenants) > 1 {
		for i, root := range sh.ids {
			if _, ok := below(id, root); ok {
				return sh.tenants[i%len(sh.tenants)]
			}
		}
	}
	return sh.cfg.Tenant
}

// timerMembers returns the timers that are set, as Redis has them.
func (sh *shared) timerMembers() (out []string) {
	for _, key := range sh.timers {
		out = append(out, sh.memory.Members(key)...)
	}
	return out
}

// keyOf returns the key of an execution.
func (sh *shared) keyOf(label string) string {
	return sh.keys.Execution(sh.tenantOf(label), sh.idOf(label))
}

// historyOf returns the key of the history of an execution.
func (sh *shared) historyOf(label string) string {
	return sh.keys.History(sh.tenantOf(label), sh.idOf(label))
}

// executionIn returns the execution that a key belongs to; history reports whether it is
// the key of its history.
func (sh *shared) executionIn(key string) (id string, history, ok bool) {
	for _, tenant := range sh.tenants {
		if rest, ours := strings.CutPrefix(key, sh.keys.Execution(tenant, "")); ours {
			id, history = store.CutHistory(rest)
			return sh.label(tenant, id), history, true
		}
	}
	return "", false, false
}

const ruleTenants = "tenants share nothing"

// WithForeignDefinitions returns cfg with definitions for the tenants other than the first:
// they have the same names, versions and meaning, but different source.
func (cfg Config) WithForeignDefinitions() Config {
	var out []*dsl.Definition
	for _, def := range cfg.Definitions() {
		text := append([]byte("# of another tenant\n"), def.Source...)
		own, _, err := dsl.Parse(def.ID(), text)
		if err != nil || own.ID() != def.ID() {
			return cfg // then all tenants share the same source
		}
		out = append(out, own)
	}
	cfg.foreignDefinitions = out
	return cfg
}

// definitions returns the definitions that a tenant registers, the main one last.
func (sh *shared) definitions(tenant string) []*dsl.Definition {
	own := sh.cfg.Definitions()
	if tenant != sh.cfg.Tenant && len(sh.cfg.foreignDefinitions) > 0 {
		own = sh.cfg.foreignDefinitions
	}
	return append(own[1:len(own):len(own)], own[0])
}

// definition returns the definition of a workflow; nil if it is unknown.
func (sh *shared) definition(workflow string) *dsl.Definition {
	for _, def := range sh.definitions(sh.cfg.Tenant) {
		if def.ID() == workflow {
			return def
		}
	}
	return nil
}

// slack is how long the faults can have delayed a timer.
func (sh *shared) slack() time.Duration {
	slack := time.Second
	for _, s := range sh.injected {
		slack += s.Cost() + 2*sh.cfg.Waits // the service that knew of a timer may be gone
	}
	slack += sh.operators.pausedTime + time.Duration(sh.poison.crashes())*Recovery
	for _, r := range sh.reached {
		if r.URL == sh.cfg.Scripted.CrashURL {
			slack += Recovery
		}
	}
	return slack
}

// report records a violation; it is an invariant.Report.
func (sh *shared) report(rule, execution, format string, args ...any) {
	sh.violations = append(sh.violations, Violation{rule, execution, fmt.Sprintf(format, args...)})
}

// executions returns the ids of all executions, sorted.
func (sh *shared) executions(ctx context.Context) []string {
	known := map[string]bool{}
	for _, id := range sh.ids {
		known[id] = true
	}
	for _, tenant := range sh.tenants {
		for _, list := range executionIndexes() {
			for _, id := range sh.client.ZRange(ctx, sh.keys.Executions(tenant, list), 0, -1).Val() {
				known[sh.label(tenant, id)] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(known))
}

// history returns an execution with its history.
func (sh *shared) history(ctx context.Context, id string) (x store.Execution, events []event.Event, err error) {
	if x, err = sh.engine.Store.Execution(ctx, sh.tenantOf(id), sh.idOf(id)); err != nil {
		return x, nil, err
	}
	events, err = sh.engine.Store.History(ctx, sh.tenantOf(id), sh.idOf(id), 0, int(x.Version))
	return x, events, err
}

// missingTimers returns the timers of a list that are not set.
func (sh *shared) missingTimers(ctx context.Context, needed []event.Timer) (missing []event.Timer, err error) {
	there, err := timers.New(sh.engine.Store).Armed(ctx, needed)
	if err != nil {
		return nil, err
	}
	for i, t := range there {
		if t.ID == "" {
			missing = append(missing, needed[i])
		}
	}
	return missing, nil
}

// deadLetters returns the dead letters of a tenant.
func (sh *shared) deadLetters(ctx context.Context, tenant string) ([]stream.DeadLetter, error) {
	const limit = 100 // more than there are
	found, _, err := stream.New(sh.engine.Store).DeadLetters(ctx, stream.DeadLetterQuery{Tenant: tenant, Range: store.Range{Count: limit}})
	return found, err
}

// stateOf rebuilds the state of an execution from its history; nil if it never began.
func (sh *shared) stateOf(ctx context.Context, id string) (*pastState, error) {
	x, events, err := sh.history(ctx, id)
	if errors.Is(err, store.ErrNotFound) || err == nil && x.Definition == "" {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	env, err := sh.engine.Definitions.Hash(ctx, sh.tenantOf(id), x.Workflow, x.Definition)
	if err != nil {
		return nil, err
	}
	state, err := decide.Rebuild(env, events)
	if err != nil {
		return nil, err
	}
	return &pastState{state, env}, nil
}

// pastState is the state of an execution together with its environment.
type pastState struct {
	state *decide.State
	env   *decide.Env
}

// listensFor reports whether an execution is on the list of listeners for a type.
func (sh *shared) listensFor(ctx context.Context, id, typ string) bool {
	there, err := sh.client.SIsMember(ctx, sh.keys.Listeners(sh.tenantOf(id), typ), sh.idOf(id)).Result()
	return there || err != nil
}

// asSimulation runs do as a command of the simulation itself during a service's turn.
func (sh *shared) asSimulation(do func(context.Context) error) {
	current := sh.current
	sh.current = nil
	if err := do(context.Background()); err != nil { //nolint:forbidigo // the simulation's own commands never block
		sh.failure = err
	}
	sh.current = current
}

// duplicated reports whether a fault has published an event a second time.
func (sh *shared) duplicated() bool {
	return slices.ContainsFunc(sh.injected, func(s InjectedFault) bool { return s.Kind == Duplicate })
}
