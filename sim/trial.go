package sim

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/expr"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/sim/mock"
)

// Trial is a simulation in which things go wrong, and what the oracles say of it.
type Trial struct {
	*Result
	Ends     []End             // of all executions, children too, by their ids
	Struck   []Struck          // what went wrong, in order
	Broken   []Violation       // promises that were not kept
	Commands map[string]uint64 // sent by each service, over all lives of its process
	Calls    map[string]uint64 // made by each executor
	Actions  map[Action]int    // calls that reached the world: how often each did
	Reached  []Reached         // likewise, in order
	Answered []Answered        // likewise, by when they were carried out
	Shared   map[string]any    // by URL: what mocks keep that the executions share, where that has changed; nil if there is one execution, whose it is
	Rekeyed  []Rekeyed         // likewise, those whose idempotency keys are wrong
	Unmocked []mock.Exchange   // calls that no mock answers
	Operated Operated          // what else befell the executions

	foreign []string // keys of the timers that have fired for none of the executions, and their days, sorted
}

// Lasted is how long it took until all had ended: what comes behind is the engine's
// look at what others may have left.
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
	Calls   []Call         // that were carried out, in order; not those of executions that it began
	Kept    map[string]any // by URL: what its mocks keep in the end, where that has changed; nil for one that another execution began
}

// Violation is a promise that was not kept.
type Violation struct {
	Rule      string `json:"rule"`
	Execution string `json:"execution,omitempty"`
	Detail    string `json:"detail"`
}

// Error says it in one line.
func (v Violation) Error() string {
	if v.Execution == "" {
		return v.Rule + ": " + v.Detail
	}
	return v.Rule + ": execution " + v.Execution + ": " + v.Detail
}

// Try simulates cfg with its plan, to the end of all work, and asks the oracles.
// An error is the configuration's; what the engine does wrong is in Trial.Broken.
func Try(ctx context.Context, cfg Config) (*Trial, error) {
	cfg = cfg.withDefaults()
	if cfg.Plan == nil {
		cfg.Plan = &Plan{}
	}
	w, err := newSimulation(ctx, cfg)
	if err != nil {
		return nil, err
	}
	defer w.close()
	if err := w.launch(ctx); err != nil {
		return nil, err
	}
	stop, broken := w.runOn(ctx)
	for _, s := range w.services {
		w.count(s)
	}
	t := &Trial{Struck: w.struck, Actions: w.actions, Commands: w.sent, Calls: w.called, Reached: w.reached, Answered: w.answered, Rekeyed: w.rekeyed, Unmocked: w.unmocked, Operated: w.operated(), Broken: broken, foreign: slices.Sorted(slices.Values(w.foreign))}
	if stop == Stuck {
		t.Broken = append(t.Broken, Violation{Rule: "all work comes to an end", Detail: fmt.Sprintf("it still went on after %d turns", w.turns)})
	}
	if t.Result, err = w.result(ctx, stop); err != nil {
		return nil, err
	}
	if err := w.check(ctx, t); err != nil {
		return nil, err
	}
	return t, ctx.Err()
}

// runOn runs, and takes what a service breaks off with for a broken promise.
func (w *simulation) runOn(ctx context.Context) (stop Stop, broken []Violation) {
	defer func() {
		if r := recover(); r != nil {
			stop, broken = Never, []Violation{{Rule: "nothing panics", Detail: fmt.Sprint(r)}}
		}
	}()
	stop, err := w.run(ctx)
	if err != nil {
		broken = []Violation{{Rule: "a service fails only with Redis", Detail: err.Error()}}
	}
	return stop, broken
}

// check asks all oracles.
func (w *simulation) check(ctx context.Context, t *Trial) error {
	w.current, w.cfg.Plan = nil, nil // from here on nothing goes wrong
	ctx = context.WithoutCancel(ctx)
	note := func(rule, execution, format string, args ...any) {
		t.Broken = append(t.Broken, Violation{rule, execution, fmt.Sprintf(format, args...)})
	}
	var err error
	for _, id := range w.executions() {
		end, err := w.ending(ctx, id, note)
		if err != nil {
			return err
		}
		end.Calls, end.Kept = w.done(id)
		t.Ends = append(t.Ends, end)
	}
	if len(w.ids) > 1 {
		t.Shared = w.kept("")
	}
	if t.Stop == "" && w.over(t.Ends) {
		err = w.leftovers(ctx, note)
		w.abandonedChildren(note)
		w.strays(t.Ends, note)
	}
	w.unprovoked(note)
	t.Broken = append(t.Broken, w.breaches...)
	w.outlived(t, note)
	w.listed(t.Ends, note)
	w.noted(t.Ends, note)
	return errors.Join(err, w.deadLetters(ctx, t, note))
}

// over reports whether all executions that were started have ended: what one that waits
// may still need is not left over, and why it waits is for who knows the other runs.
func (w *simulation) over(ends []End) bool {
	return !slices.ContainsFunc(ends, func(end End) bool {
		return slices.Contains(w.ids, end.ID) && !end.Status.Ended() && end.Status != Removed
	})
}

// breaks notes a broken promise.
type breaks func(rule, execution, format string, args ...any)

// executions are the ids of all, sorted.
func (w *simulation) executions() []string {
	known := map[string]bool{}
	for _, id := range w.ids {
		known[id] = true
	}
	for _, tenant := range w.tenants {
		for _, list := range timerIndexes() {
			for _, id := range w.memory.Members(timerIndex(tenant, list)) {
				known[w.label(tenant, id)] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(known))
}

// inspect holds an execution against its history and its definition.
func (w *simulation) inspect(ctx context.Context, id string, broken breaks) (End, error) {
	end := End{ID: id}
	x, err := w.engine.Store.Execution(ctx, w.tenantOf(id), w.idOf(id))
	if errors.Is(err, store.ErrNotFound) && w.tidied.removed[id] {
		end.Status = Removed
		return end, nil
	}
	if errors.Is(err, store.ErrNotFound) {
		broken("no execution is lost", id, "there is nothing of it in Redis")
		return end, nil
	}
	if err != nil {
		return end, err
	}
	end.Status = decide.Status(x.Status)
	end.Output, end.Error = x.Output, problem(x.Error)
	end.Outcome = outcome(&Result{Status: end.Status, Output: end.Output, Error: end.Error})
	if end.History, err = w.engine.Store.History(ctx, w.tenantOf(id), w.idOf(id), 0, int(x.Version)+1); err != nil {
		broken("a history has no gap", id, "%v", err)
		return end, nil
	}
	if n := int64(len(end.History)); n != x.Version {
		broken("a history has no gap", id, "it has %d entries, its version is %d", n, x.Version)
	}
	x.ID = id
	w.dated(x, end.History, broken)
	w.follow(ctx, x, end.History, broken)
	end.History = called(end.History, id)
	return end, nil
}

// follow holds a history against what decide makes of it.
func (w *simulation) follow(ctx context.Context, x store.Execution, history []event.Event, broken breaks) {
	w.punctual(x.ID, history, broken)
	if x.Definition == "" {
		return // it was refused
	}
	env, err := w.engine.Definitions.Hash(ctx, w.tenantOf(x.ID), x.Workflow, x.Definition)
	if err != nil {
		broken("a definition stays", x.ID, "%v", err)
		return
	}
	w.native(ctx, x, broken)
	audit(env.Definition(), x.ID, history, broken)
	state, err := w.rebuild(env, x.ID, history)
	switch {
	case err != nil:
		broken("a history is a run of its definition", x.ID, "%v", err)
	case string(state.Status) != x.Status:
		broken(ruleKept, x.ID, "it is %s, its history says %s", x.Status, state.Status)
	case state.Status == decide.Completed && !bytes.Equal(expr.Encode(state.Output.V), x.Output):
		broken(ruleKept, x.ID, "its output is %s, its history says %s", x.Output, expr.Encode(state.Output.V))
	case state.Status == decide.Completed && len(x.Error) > 0:
		broken(ruleKept, x.ID, "it is completed, and its error is %s", x.Error)
	case state.Error != nil && problem(x.Error).Error() != state.Error.Error():
		broken(ruleKept, x.ID, "its error is %s, its history says %v", x.Error, state.Error)
	default:
		w.listening(ctx, x.ID, env, state, broken)
	}
}

// rebuild folds a history into the state that it led to. Somewhere on the way the
// state becomes a snapshot, which has to go on as what it was made of.
func (w *simulation) rebuild(env *decide.Env, id string, history []event.Event) (*decide.State, error) {
	state := decide.New()
	cut := int(w.cut(id)) * (len(history) + 1) / cuts //nolint:gosec // it is below cuts
	if err := state.Replay(env, history[:cut]); err != nil {
		return nil, err
	}
	for ; cut < len(history) && !state.Settled(); cut++ {
		if err := state.Replay(env, history[cut:cut+1]); err != nil {
			return nil, err
		}
	}
	if cut == len(history) { // the end, too, is to be whole
		return decide.Rebuild(env, history)
	}
	text, err := state.Snapshot()
	if err == nil {
		state, err = decide.Restore(env, text)
	}
	if err == nil {
		err = state.Replay(env, history[cut:])
	}
	switch {
	case err != nil:
		return nil, fmt.Errorf("with a snapshot of version %d: %w", cut, err)
	case !state.Settled():
		return decide.Rebuild(env, history)
	default:
		return state, nil
	}
}

const ruleGiven = "nothing is given up"

const ruleKept = "what is kept is what follows from the history"

// leftovers looks for what stands in Redis though all has ended.
func (w *simulation) leftovers(ctx context.Context, broken breaks) error {
	open := int64(0)
	for _, tenant := range w.tenants {
		counts, err := w.engine.Store.Counts(ctx, tenant)
		if err != nil {
			return err
		}
		open += counts.Open
	}
	if open > 0 {
		broken("every execution ends", "", "%d have not", open)
		return nil // whoever has not ended may well wait for something
	}
	if n := len(w.memory.Members(timers)); n > 0 {
		broken("no timer is left", "", "%d are", n)
	}
	if w.brief() {
		w.undone(broken)
		return nil
	}
	for _, stream := range w.streams {
		for _, g := range w.memory.Groups(stream) {
			if g.Pending > 0 || g.Unread > 0 {
				broken("no work is left", "", "group %s has %d events pending and %d unread", g.Name, g.Pending, g.Unread)
			}
		}
	}
	return nil
}

// undone looks for events that concern somebody who has not read or acknowledged them.
func (w *simulation) undone(broken breaks) {
	for _, s := range w.services {
		if s.consumerGroup.concerns == nil {
			continue
		}
		if unread, pending := w.open(s); unread+pending > 0 {
			broken("no work is left", "", "%s has %d events pending that concern it, and %d unread", s.Name, pending, unread)
		}
	}
}

// deadLetters says what has been given up. Faults that pass are no reason to.
func (w *simulation) deadLetters(ctx context.Context, t *Trial, broken breaks) error {
	reported := 0
	for _, tenant := range w.tenants {
		deadLetters, _, err := w.engine.Store.DeadLetters(ctx, store.DeadLetterQuery{Tenant: tenant, Count: 10})
		if err != nil {
			return err
		}
		for _, l := range deadLetters {
			if slices.Contains(l.Fields, event.AttemptAttribute) {
				broken("a dead letter is what was sent", w.label(tenant, l.Event.Execution), "that of %s %s says that it was delivered before", l.Event.Type, l.Event.ID)
			}
			if own, along := w.doomed(tenant, l); own || along {
				if own {
					reported++
				}
				continue
			}
			broken(ruleGiven, w.label(tenant, l.Event.Execution), "%s %s by the %s after %d: %s", l.Event.Type, l.Event.ID, l.Service, l.Attempts, l.Reason)
		}
	}
	w.reported(reported, broken)
	t.Operated.Along = w.victims.along
	return nil
}

// problem reads an error as Redis has it; nil if there is none.
func problem(text json.RawMessage) *event.Problem {
	var p *event.Problem
	_ = json.Unmarshal(text, &p) // what is no problem is none
	return p
}
