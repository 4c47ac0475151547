package sim

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/sim/mock"
)

// Trial is a simulation with faults, together with the verdict of the invariants.
type Trial struct {
	*Result
	Ends       []End             // of all executions including children, ordered by id
	Injected   []InjectedFault   // the faults in order
	Broken     []Violation       // the violated invariants, in the order in which they were found
	Commands   map[string]uint64 // sent by each service, over all incarnations of its process
	Calls      map[string]uint64 // made by each executor
	CallCounts map[CallID]int    // how many times each call reached its service
	Reached    []Reached         // calls in order of arrival
	Answered   []Answered        // calls in order of completion
	Shared     map[string]any    // by URL: changed mock state that the executions share; nil if there is only one execution, which then owns it
	Rekeyed    []KeyMisuse       // calls with wrong idempotency keys
	Unmocked   []mock.Exchange   // calls that no mock answers
	Operated   Operated          // operator actions and poison messages

	StrayTimers []string // keys of the timers that fired for executions that do not exist, each with the day it was due, sorted
}

// Lasted returns how long it took all executions to end. It excludes the time that services
// then spend looking for abandoned work.
func (t *Trial) Lasted() time.Duration {
	last := time.Time{}
	for _, end := range t.Ends {
		n := len(end.History)
		if n == 0 || !end.Status.Ended() {
			return t.Elapsed
		}
		last = later(last, end.History[n-1].Time)
	}
	if len(t.Ends) == 0 {
		return t.Elapsed
	}
	return last.Sub(t.Ends[0].History[0].Time)
}

// End is how one execution of a trial ended.
type End struct {
	ID      string
	Status  decide.Status
	Outcome string // hash of status, output and error
	Output  json.RawMessage
	Error   *event.Problem
	History []event.Event
	Calls   []Call         // calls that were carried out, in order, without those of child executions
	Kept    map[string]any // by URL: changed mock state at the end; nil for child executions
}

// Child reports whether another execution started this one.
func (e *End) Child() bool { return Parent(e.ID) != "" }

// End returns how an execution ended; nil if it is unknown.
func (t *Trial) End(id string) *End {
	i := slices.IndexFunc(t.Ends, func(end End) bool { return end.ID == id })
	if i < 0 {
		return nil
	}
	return &t.Ends[i]
}

// Parent returns the id of the execution that started another; "" if that was started from outside.
func Parent(id string) string { return id[:max(0, strings.LastIndexByte(id, '.'))] }

// Root returns the id of the execution that was started from outside and led to execution id;
// id itself if that was started from outside.
func Root(id string) string {
	root, _, _ := strings.Cut(id, ".")
	return root
}

// Violation is a broken invariant.
type Violation struct {
	Rule      string `json:"rule"`
	Execution string `json:"execution,omitempty"`
	Detail    string `json:"detail"`
}

// Error returns the violation as one line.
func (v Violation) Error() string {
	if v.Execution == "" {
		return v.Rule + ": " + v.Detail
	}
	return v.Rule + ": execution " + v.Execution + ": " + v.Detail
}

// Try simulates cfg with its plan until all work is done, and then checks the invariants. An
// error means that the configuration is at fault; bugs of the engine are in Trial.Broken.
func Try(ctx context.Context, cfg Config) (*Trial, error) {
	cfg = cfg.WithDefaults()
	if cfg.Plan == nil {
		cfg.Plan = &Plan{}
	}
	sim, err := newSimulation(ctx, cfg)
	if err != nil {
		return nil, err
	}
	defer sim.close()
	if err := sim.launch(ctx); err != nil {
		return nil, err
	}
	stop, err := sim.runToEnd(ctx)
	if err != nil {
		return nil, err
	}
	for _, s := range sim.services {
		sim.countCommands(s)
	}
	if stop == Stuck {
		sim.report("all work ends", "", "the services were still busy after %d turns", sim.turns)
	}
	t := &Trial{
		Injected: sim.injected, Commands: sim.sent, Calls: sim.called,
		CallCounts: sim.callCounts, Reached: sim.reached, Answered: sim.answered, Rekeyed: sim.rekeyed, Unmocked: sim.unmocked,
		Operated: sim.operated(), StrayTimers: slices.Sorted(slices.Values(sim.strayTimers)),
	}
	if t.Result, err = sim.result(ctx, stop); err != nil {
		return nil, err
	}
	if err := sim.check(ctx, t); err != nil {
		return nil, err
	}
	t.Broken = sim.violations
	return t, ctx.Err()
}

// runToEnd runs the simulation and turns errors and panics of services into violations. It returns an
// error only if that wraps ErrClockEnds.
func (sim *simulation) runToEnd(ctx context.Context) (stop Stop, err error) {
	defer func() {
		if r := recover(); r != nil {
			stop = Never
			sim.report("nothing panics", "", "%v", r)
		}
	}()
	stop, err = sim.run(ctx)
	if err != nil && !errors.Is(err, ErrClockEnds) {
		sim.report("a service fails only if Redis fails", "", "%v", err)
		err = nil
	}
	return stop, err
}

// check checks all invariants.
func (sim *simulation) check(ctx context.Context, t *Trial) error {
	sim.current, sim.cfg.Plan = nil, nil // no more faults
	ctx = context.WithoutCancel(ctx)
	chk := &checker{&sim.monitor}
	var err error
	for _, id := range sim.executions(ctx) {
		end, err := chk.inspect(ctx, id)
		if err != nil {
			return err
		}
		end.Calls, end.Kept = sim.effectsOf(id)
		t.Ends = append(t.Ends, end)
	}
	if len(sim.ids) > 1 {
		t.Shared = sim.kept("")
	}
	if t.Stop == "" && chk.allEnded(t.Ends) {
		err = chk.checkLeftovers(ctx)
		chk.checkLeftoverListeners()
		chk.checkLeftoverKeys(t)
	}
	chk.checkRepeatedCalls()
	chk.checkPublished(t)
	chk.checkIndexes(t)
	chk.checkActs(t.Ends)
	return errors.Join(err, chk.checkDeadLetters(ctx, t))
}

// DeadLetter reports whether the violation is a dead letter that no fault justifies.
func (v Violation) DeadLetter() bool { return v.Rule == ruleDeadLetter }
