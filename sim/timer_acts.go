package sim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/timers"
)

// changed is an operator's change that must appear in the history of an execution.
type changed struct {
	execution string
	typ       event.Type
	task      string
}

// operatorName is the name of the operator in a simulation.
const operatorName = "ada"

// changeTimer moves, fires or cancels one of the timers of an execution, if it has any.
func (w *simulation) changeTimer(ctx context.Context, what ActKind, id string) error {
	all, _, err := timers.New(w.engine.Store).List(ctx, timers.Filter{Tenant: w.tenantOf(id), Execution: w.idOf(id)}, "", 100) //nolint:mnd // more than there are
	all = slices.DeleteFunc(all, func(p timers.Pending) bool { return p.Kind == event.DeliveryTimer })
	if err != nil || len(all) == 0 {
		return err
	}
	o := &w.operators
	n := Draw(w.cfg.Seed, "operated on", uint64(o.acts)) //nolint:gosec // there are few
	p := all[n%uint64(len(all))]
	done, typ := false, event.Type("")
	switch what {
	case Move:
		left := max(p.Due.Due().Sub(w.clock.now), 0)
		to := w.clock.now.Add(time.Duration((n >> 8) % uint64(2*left+time.Hour))) //nolint:gosec // never negative
		typ = event.TimerScheduled
		_, done, err = timers.New(w.engine.Store).Move(ctx, p, to, operatorName)
	case Fire:
		_, err = timers.New(w.engine.Store).FireNow(ctx, p, operatorName)
	case CancelTimer:
		typ = event.TimerCancelled
		done, err = timers.New(w.engine.Store).Cancel(ctx, p, operatorName)
	default:
		panic(fmt.Sprintf("%v is nothing that is done to a timer", what))
	}
	if done {
		o.changed = append(o.changed, changed{id, typ, p.TaskID})
	}
	return err
}

// restore sets the missing timers of an execution and adds it to the missing lists of
// listeners. It reports whether anything was missing. If nothing else happens (still),
// only an operator can have removed a timer; anything else is a violation.
func (w *simulation) restore(ctx context.Context, id string, still bool) (found bool, err error) {
	x, err := w.engine.Store.Execution(ctx, w.tenantOf(id), w.idOf(id))
	if err != nil || x.Definition == "" || decide.Status(x.Status).Ended() {
		return false, errUnless(err, store.ErrNotFound)
	}
	past, err := w.stateOf(ctx, id)
	if err != nil || past == nil {
		return false, err
	}
	needs := past.state.Needs(past.env)
	there, err := timers.New(w.engine.Store).Armed(ctx, needs.Timers)
	if err != nil {
		return false, err
	}
	var missing timers.Restoration
	for i, t := range needs.Timers {
		if there[i].ID == "" {
			missing.Timers = append(missing.Timers, t)
		}
	}
	for _, typ := range needs.Listen {
		if !w.hears(ctx, id, typ) {
			missing.Listen = append(missing.Listen, typ)
		}
	}
	if len(missing.Timers)+len(missing.Listen) == 0 {
		return false, nil
	}
	if still && (len(missing.Listen) > 0 || !slices.ContainsFunc(w.operators.changed, func(c changed) bool { return c.execution == id && c.typ == event.TimerCancelled })) {
		w.report("what an execution waits for is there", id, fmt.Sprintf("%d of its timers and %d of its entries in lists of listeners are gone", len(missing.Timers), len(missing.Listen)))
	}
	outcome, err := timers.New(w.engine.Store).Restore(ctx, x, missing, operatorName)
	if err == nil && outcome == store.Committed {
		for _, t := range missing.Timers {
			w.operators.changed = append(w.operators.changed, changed{id, event.TimerScheduled, t.TaskID})
		}
	}
	return true, err
}

// errUnless returns err, or nil if it is ignored.
func errUnless(err, meant error) error {
	if errors.Is(err, meant) {
		return nil
	}
	return err
}

// migrate migrates an execution to another text of its document with the same meaning.
func (w *simulation) migrate(ctx context.Context, id string) error {
	past, err := w.stateOf(ctx, id)
	if err != nil || past == nil || past.state.Status.Ended() {
		return err
	}
	tenant := w.tenantOf(id)
	x, err := w.engine.Store.Execution(ctx, tenant, w.idOf(id))
	if err != nil {
		return err
	}
	old := past.env.Definition()
	text := fmt.Sprintf("%s\n# %d\n", old.Source, w.operators.acts)
	hash, err := w.engine.Store.Define(ctx, tenant, x.Workflow, old.Document.Version, text)
	if err != nil {
		return err
	}
	if _, err := w.engine.Store.Define(ctx, tenant, x.Workflow, old.Document.Version, string(old.Source)); err != nil { // others begin with the original text
		return err
	}
	env, err := w.engine.Definitions.Hash(ctx, tenant, x.Workflow, hash)
	if err != nil {
		return err
	}
	var d decide.Decision
	e := event.Event{
		ID: fmt.Sprintf("%s/migrate/%d", x.ID, w.operators.acts), Source: timers.OperatorSource, Type: event.ExecutionMigrated, Time: w.clock.now,
		Tenant: tenant, Workflow: x.Workflow, Execution: x.ID,
		Data: event.Encode(event.Migrated{Definition: hash, Version: old.Document.Version, From: x.Definition, FromVersion: old.Document.Version, By: operatorName}),
	}
	next, err := past.state.Migrate(env, e, &d)
	if err != nil {
		return err
	}
	if a, b := past.state.Listening(past.env), next.Listening(env); !slices.Equal(a, b) {
		w.report("a migrated execution continues as before", id, fmt.Sprintf("it listened for %v, and then for %v", a, b))
	}
	snapshot, err := next.Snapshot()
	if err != nil {
		return err
	}
	outcome, err := w.engine.Store.Commit(ctx, store.Commit{
		Tenant: tenant, Execution: x.ID, Version: x.Version, Workflow: x.Workflow, Migrated: hash,
		History: d.History, Publish: []event.Event{e}, Status: string(next.Status), Snapshot: snapshot, Now: w.clock.now, Started: x.CreatedAt,
	})
	if err == nil && outcome == store.Committed {
		w.operators.changed = append(w.operators.changed, changed{execution: id, typ: event.ExecutionMigrated})
	}
	return err
}

// checkActs checks that each operator change is in a history.
func (w *simulation) checkActs(ends []End, broken reportFunc) {
	left := slices.Clone(w.operators.changed)
	for _, end := range ends {
		for _, e := range end.History {
			if e.Source != timers.OperatorSource {
				continue
			}
			is := changed{end.ID, e.Type, e.Task}
			if i := slices.Index(left, is); i >= 0 {
				left = slices.Delete(left, i, i+1)
			}
		}
		if end.Status == Removed {
			left = slices.DeleteFunc(left, func(c changed) bool { return c.execution == end.ID })
		}
	}
	for _, c := range left {
		broken("operator actions are in the history", c.execution, "%s of %s is not", c.typ, RunName(c.task))
	}
}
