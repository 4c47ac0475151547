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
	"flunq.io/flunq/engine/store/stream"
	"flunq.io/flunq/sim/mock"
)

// Trial is a simulation with faults, together with the verdict of the invariants.
type Trial struct {
	*Result
	Ends     []End             // of all executions including children, by id
	Struck   []Struck          // the faults in order
	Broken   []Violation       // the violations
	Commands map[string]uint64 // sent by each service, over all incarnations of its process
	Calls    map[string]uint64 // made by each executor
	Actions  map[Action]int    // how often each call reached its service
	Reached  []Reached         // calls in order of arrival
	Answered []Answered        // calls in order of completion
	Shared   map[string]any    // by URL: changed mock state that the executions share; nil if there is only one execution, which then owns it
	Rekeyed  []Rekeyed         // calls with wrong idempotency keys
	Unmocked []mock.Exchange   // calls that no mock answers
	Operated Operated          // operator actions and poison messages

	strayTimers []string // keys of the timers that fired for executions that do not exist, with the days they were due, sorted
}

// Lasted returns how long it took until all executions had ended. It excludes the time in
// which services then look for abandoned work.
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

// Try simulates cfg with its plan until all work is done, and then checks the invariants.
// An error means that the configuration is at fault; mistakes of the engine are in
// Trial.Broken.
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
	t := &Trial{Struck: w.struck, Actions: w.actions, Commands: w.sent, Calls: w.called, Reached: w.reached, Answered: w.answered, Rekeyed: w.rekeyed, Unmocked: w.unmocked, Operated: w.operated(), Broken: broken, strayTimers: slices.Sorted(slices.Values(w.strayTimers))}
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

// runOn runs the simulation and turns errors and panics of services into violations.
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

// check checks all invariants.
func (w *simulation) check(ctx context.Context, t *Trial) error {
	w.current, w.cfg.Plan = nil, nil // no more faults from now on
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
		w.leftoverKeys(note)
		w.checkKeys(t.Ends, note)
	}
	w.checkRepeatedCalls(note)
	t.Broken = append(t.Broken, w.violations...)
	w.checkPublished(t, note)
	w.listed(t.Ends, note)
	w.checkActs(t.Ends, note)
	return errors.Join(err, w.deadLetters(ctx, t, note))
}

// over reports whether all executions that were started have ended. A waiting execution
// may still need what is left in Redis, and whether it may wait depends on other runs.
func (w *simulation) over(ends []End) bool {
	return !slices.ContainsFunc(ends, func(end End) bool {
		return slices.Contains(w.ids, end.ID) && !end.Status.Ended() && end.Status != Removed
	})
}

// reportFunc records a violation.
type reportFunc func(rule, execution, format string, args ...any)

// executions returns the ids of all executions, sorted.
func (w *simulation) executions() []string {
	known := map[string]bool{}
	for _, id := range w.ids {
		known[id] = true
	}
	for _, tenant := range w.tenants {
		for _, list := range executionIndexes() {
			for _, id := range w.memory.Members(store.Keys{}.Executions(tenant, list)) {
				known[w.label(tenant, id)] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(known))
}

// inspect checks an execution against its history and its definition.
func (w *simulation) inspect(ctx context.Context, id string, broken reportFunc) (End, error) {
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
		broken("a history is complete", id, "%v", err)
		return end, nil
	}
	if n := int64(len(end.History)); n != x.Version {
		broken("a history is complete", id, "it has %d entries, its version is %d", n, x.Version)
	}
	x.ID = id
	w.dated(x, end.History, broken)
	w.follow(ctx, x, end.History, broken)
	end.History = relabeled(end.History, id)
	return end, nil
}

// follow checks a history against the decisions of package decide.
func (w *simulation) follow(ctx context.Context, x store.Execution, history []event.Event, broken reportFunc) {
	w.checkTimerTimes(x.ID, history, broken)
	if x.Definition == "" {
		return // the execution was refused
	}
	env, err := w.engine.Definitions.Hash(ctx, w.tenantOf(x.ID), x.Workflow, x.Definition)
	if err != nil {
		broken("a definition stays", x.ID, "%v", err)
		return
	}
	w.checkDefinitionTenant(ctx, x, broken)
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

// rebuild replays a history. At some point it replaces the state by its snapshot, which
// must behave like the state itself.
func (w *simulation) rebuild(env *decide.Env, id string, history []event.Event) (*decide.State, error) {
	state := decide.New()
	cut := int(w.cut(id)) * (len(history) + 1) / cuts //nolint:gosec // less than the length
	if err := state.Replay(env, history[:cut]); err != nil {
		return nil, err
	}
	for ; cut < len(history) && !state.Settled(); cut++ {
		if err := state.Replay(env, history[cut:cut+1]); err != nil {
			return nil, err
		}
	}
	if cut == len(history) { // the state at the end must be complete, too
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

const ruleKept = "the stored state follows from the history"

// leftovers checks that no timers and no unhandled events are left once all executions
// have ended.
func (w *simulation) leftovers(ctx context.Context, broken reportFunc) error {
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
		return nil // an execution that has not ended may wait for something
	}
	if n := len(w.memory.Members(timersKey)); n > 0 {
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

// undone reports events that concern a service and that it has not read or acknowledged.
func (w *simulation) undone(broken reportFunc) {
	for _, s := range w.services {
		if s.consumerGroup.concerns == nil {
			continue
		}
		if unread, pending := w.open(s); unread+pending > 0 {
			broken("no work is left", "", "%s has %d events pending that concern it, and %d unread", s.Name, pending, unread)
		}
	}
}

// deadLetters reports dead letters. Temporary faults do not justify any.
func (w *simulation) deadLetters(ctx context.Context, t *Trial, broken reportFunc) error {
	reported := 0
	for _, tenant := range w.tenants {
		deadLetters, _, err := stream.New(w.engine.Store).DeadLetters(ctx, stream.DeadLetterQuery{Tenant: tenant, Range: store.Range{Count: 10}})
		if err != nil {
			return err
		}
		for _, l := range deadLetters {
			if slices.Contains(l.Fields, event.AttemptAttribute) {
				broken("a dead letter is what was sent", w.label(tenant, l.Event.Execution), "that of %s %s says that it was delivered before", l.Event.Type, l.Event.ID)
			}
			if own, along := w.explainedByPoison(tenant, l); own || along {
				if own {
					reported++
				}
				continue
			}
			broken(ruleGiven, w.label(tenant, l.Event.Execution), "%s %s by the %s after %d: %s", l.Event.Type, l.Event.ID, l.Service, l.Attempts, l.Reason)
		}
	}
	w.checkPoison(reported, broken)
	t.Operated.AlsoDeadLettered = w.poison.alsoDeadLettered
	return nil
}

// problem decodes an error from Redis; nil if there is none.
func problem(text json.RawMessage) *event.Problem {
	var p *event.Problem
	_ = json.Unmarshal(text, &p) // anything else is no problem
	return p
}
