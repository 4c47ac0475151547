package sim

import (
	"context"
	"slices"
	"time"

	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/timers"
)

// listening checks that each open listen task is on the lists of listeners for the types
// it waits for, if its execution has not ended.
func (w *simulation) listening(ctx context.Context, id string, env *decide.Env, state *decide.State, broken reportFunc) {
	if state.Status.Ended() {
		return
	}
	w.armed(ctx, id, state.Needs(env).Timers, broken)
	for _, n := range state.Open() {
		if n.Listen == nil || n.Listen.Stopped {
			continue
		}
		to := n.Task().Listen.To
		filters := to.Filters
		if to.UntilEvent != nil {
			filters = slices.Concat(filters, to.UntilEvent.Filters)
		}
		for _, typ := range typesIn(filters) {
			if !w.hears(ctx, id, typ) && !w.hears(ctx, id, "*") {
				broken("a listening execution is on the list of listeners", id, "%s waits for %s, and is on no list for it", RunName(n.Run.String()), typ)
			}
		}
	}
}

// armed checks that the timers that an execution waits for exist.
func (w *simulation) armed(ctx context.Context, id string, needed []event.Timer, broken reportFunc) {
	there, err := timers.New(w.engine.Store).Armed(ctx, needed)
	for i, t := range there {
		if err == nil && t.ID == "" {
			broken("a timer that is waited for is there", id, "the %s timer of %s for %v is not", t.Kind, RunName(t.TaskID), needed[i].FireAt)
		}
	}
}

// hears reports whether an execution is on the list of listeners for a type.
func (w *simulation) hears(ctx context.Context, id, typ string) bool {
	there, err := w.client.SIsMember(ctx, store.Keys{}.Listeners(w.tenantOf(id), typ), w.idOf(id)).Result()
	return there || err != nil
}

// typesIn returns the types that filters name literally.
func typesIn(filters []dsl.EventFilter) (types []string) {
	for _, f := range filters {
		for _, attribute := range f.With {
			if attribute.Key != "type" {
				continue
			}
			if v, ok := attribute.Value.Constant(); ok {
				if typ, ok := v.(string); ok {
					types = append(types, typ)
				}
			}
		}
	}
	return types
}

// heard checks that events from outside reached an execution that listened for their type
// the whole time.
func (w *simulation) heard(end End, broken reportFunc) {
	if w.cfg.Mocks == nil || len(w.cfg.Mocks.Events) == 0 || !slices.Contains(w.ids, end.ID) {
		return
	}
	for _, l := range listensIn(w.cfg.Definition, end.History) {
		for i, m := range w.cfg.Mocks.Events {
			at := w.cfg.Start.Add(m.After)
			if e := m.Event(i, at); !w.poison.about(e.ID) && l.within(string(e.Type), at, w.slack()) && !reached(end.History, e) {
				broken("an event reaches the tasks that listen for it", end.ID, "%s %s did not, and %s has listened since %v", e.Type, e.ID, RunName(l.task), l.from)
			}
		}
	}
}

// reached reports whether an event from outside is in a history.
func reached(history []event.Event, e event.Event) bool {
	return slices.ContainsFunc(history, func(h event.Event) bool {
		return h.Type == event.EventReceived && h.ID == e.Source+" "+e.ID
	})
}

// listen is a task that listens for types of events, whatever their other attributes.
type listen struct {
	task        string
	types       []string // empty: all types
	from, until time.Time
}

// within reports whether l listened for typ from slack before at until slack after it.
func (l *listen) within(typ string, at time.Time, slack time.Duration) bool {
	return (len(l.types) == 0 || slices.Contains(l.types, typ)) &&
		!at.Before(l.from.Add(slack)) && (l.until.IsZero() || !l.until.Before(at.Add(slack)))
}

// listensIn returns the simple listen tasks of a history; nil if the execution was
// suspended or retried.
func listensIn(def *dsl.Definition, history []event.Event) (all []listen) {
	for _, e := range history {
		switch e.Type { //nolint:exhaustive // the others do not matter here
		case event.TaskRequested:
			task := def.Task(event.ParseRun(e.Task).Ref)
			if types, ok := simply(task); ok {
				all = append(all, listen{task: e.Task, types: types, from: e.Time})
			}
		case event.TaskCompleted:
			over(all, e.Time, e.Task)
		case event.WorkflowCompleted, event.WorkflowFailed, event.WorkflowCancelled:
			over(all, e.Time, "")
		case event.ExecutionSuspended, event.ExecutionRetried:
			return nil
		}
	}
	return all
}

// over ends the listening of a task, or of all tasks if task is "".
func over(all []listen, at time.Time, task string) {
	for i := range all {
		if l := &all[i]; l.until.IsZero() && (task == "" || l.task == task) {
			l.until = at
		}
	}
}

// simply returns the types that a task listens for until it ends; false if it filters by
// anything else.
func simply(t *dsl.Task) (types []string, ok bool) {
	if t == nil || t.Kind != dsl.Listen || t.Listen.Foreach != nil || t.Listen.To.Mode == "all" {
		return nil, false
	}
	for _, f := range t.Listen.To.Filters {
		named := typesIn([]dsl.EventFilter{f})
		if len(f.With) != 1 || len(named) != 1 || len(f.Correlate) > 0 {
			return nil, false
		}
		types = append(types, named...)
	}
	return types, true
}
