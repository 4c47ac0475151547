package sim

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/expr/canonical"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/stream"
	"flunq.io/flunq/engine/store/timers"
	"flunq.io/flunq/sim/invariant"
)

// checker checks the invariants when the simulation is over.
type checker struct{ *monitor }

// inspect checks an execution against its history and its definition.
func (chk *checker) inspect(ctx context.Context, id string, broken invariant.Report) (End, error) {
	end := End{ID: id}
	x, err := chk.engine.Store.Execution(ctx, chk.tenantOf(id), chk.idOf(id))
	if errors.Is(err, store.ErrNotFound) && chk.finished.removed[id] {
		end.Status = Removed
		return end, nil
	}
	if errors.Is(err, store.ErrNotFound) {
		broken("no execution is lost", id, "it is not in Redis")
		return end, nil
	}
	if err != nil {
		return end, err
	}
	end.Status = decide.Status(x.Status)
	end.Output, end.Error = x.Output, problem(x.Error)
	end.Outcome = OutcomeOf(&Result{Status: end.Status, Output: end.Output, Error: end.Error})
	if end.History, err = chk.engine.Store.History(ctx, chk.tenantOf(id), chk.idOf(id), 0, int(x.Version)+1); err != nil {
		broken("a history is complete", id, "%v", err)
		return end, nil
	}
	if n := int64(len(end.History)); n != x.Version {
		broken("a history is complete", id, "it has %d entries, but its version is %d", n, x.Version)
	}
	x.ID = id
	chk.checkTimes(x, end.History, broken)
	chk.checkHistory(ctx, x, end.History, broken)
	end.History = relabeled(end.History, id)
	return end, nil
}

// checkHistory checks a history against the decisions of package decide.
func (chk *checker) checkHistory(ctx context.Context, x store.Execution, history []event.Event, broken invariant.Report) {
	chk.checkTimerTimes(x.ID, history, broken)
	if x.Definition == "" {
		return // the execution was refused
	}
	env, err := chk.engine.Definitions.Hash(ctx, chk.tenantOf(x.ID), x.Workflow, x.Definition)
	if err != nil {
		broken("a definition is kept while an execution uses it", x.ID, "%v", err)
		return
	}
	chk.checkDefinitionTenant(ctx, x, broken)
	invariant.History(env.Definition(), x.ID, history, broken)
	state, err := chk.rebuild(env, x.ID, history)
	switch {
	case err != nil:
		broken("a history follows from its definition", x.ID, "%v", err)
	case string(state.Status) != x.Status:
		broken(ruleKept, x.ID, "it is %s, but its history says %s", x.Status, state.Status)
	case state.Status == decide.Completed && !bytes.Equal(canonical.Encode(state.Output.V), x.Output):
		broken(ruleKept, x.ID, "its output is %s, but its history says %s", x.Output, canonical.Encode(state.Output.V))
	case state.Status == decide.Completed && len(x.Error) > 0:
		broken(ruleKept, x.ID, "it is completed, but has the error %s", x.Error)
	case state.Error != nil && problem(x.Error).Error() != state.Error.Error():
		broken(ruleKept, x.ID, "its error is %s, but its history says %v", x.Error, state.Error)
	default:
		chk.checkListeners(ctx, x.ID, env, state, broken)
	}
}

// rebuild replays a history. At some point it replaces the state by its snapshot, which
// must behave like the state itself.
func (chk *checker) rebuild(env *decide.Env, id string, history []event.Event) (*decide.State, error) {
	state := decide.New()
	cut := int(chk.cut(id)) * (len(history) + 1) / cuts //nolint:gosec // less than the length
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

const ruleKept = "the stored state follows from the history"

// checkTimes checks the times of an execution against its history.
func (chk *checker) checkTimes(x store.Execution, history []event.Event, broken invariant.Report) {
	if len(history) == 0 {
		return
	}
	if first := history[0].Time; !x.CreatedAt.Equal(first) {
		broken(ruleKept, x.ID, "it was created at %v, but its history begins at %v", x.CreatedAt, first)
	}
	last := history[len(history)-1].Time
	switch ended := decide.Status(x.Status).Ended(); {
	case ended && !x.EndedAt.Equal(last):
		broken(ruleKept, x.ID, "it ended at %v, but its history at %v", x.EndedAt, last)
	case !ended && !x.EndedAt.IsZero():
		broken(ruleKept, x.ID, "it has not ended, but its end time is %v", x.EndedAt)
	}
}

// openList is the list of running executions; there is one more list for each final
// status.
const openList = "open"

func executionIndexes() []string { return []string{openList, "completed", "faulted", "cancelled"} }

const ruleListed = "every execution is listed by its status"

// checkIndexes checks the lists of executions: each execution is in exactly one list, the one
// of its status, ordered by creation time.
func (chk *checker) checkIndexes(ends []End, broken invariant.Report) {
	places := map[string]string{}
	for _, tenant := range chk.tenants {
		for _, list := range executionIndexes() {
			chk.memory.Ranked(chk.keys.Executions(tenant, list), func(id string, score float64) {
				id = chk.label(tenant, id)
				if chk.tenantOf(id) != tenant {
					broken(ruleTenants, id, "it is listed under tenant %s", tenant)
				}
				checkIndexEntry(id, list, score, ends, broken)
				recordList(id, list, places, broken)
			})
		}
	}
	misplaced(ends, places, broken)
}

// recordList records the list of an execution, and checks that it is in no other one.
func recordList(id, list string, places map[string]string, broken invariant.Report) {
	if other := places[id]; other != "" {
		broken(ruleListed, id, "it is listed as both %s and %s", other, list)
	}
	places[id] = list
}

// checkIndexEntry checks that a listed execution exists and that its score is its creation
// time.
func checkIndexEntry(id, list string, at float64, ends []End, broken invariant.Report) {
	i := slices.IndexFunc(ends, func(end End) bool { return end.ID == id })
	if i < 0 {
		broken(ruleListed, id, "it is listed as %s, but does not exist", list)
	} else if h := ends[i].History; len(h) > 0 && int64(at) != h[0].Time.UnixMilli() {
		broken(ruleListed, id, "it is listed as started at %v, but started at %v", time.UnixMilli(int64(at)).UTC(), h[0].Time)
	}
}

// misplaced reports executions that are not in the list of their status.
func misplaced(ends []End, places map[string]string, broken invariant.Report) {
	for _, end := range ends {
		want := openList
		if end.Status.Ended() {
			want = string(end.Status)
		}
		if end.Status != "" && end.Status != Removed && places[end.ID] != want {
			broken(ruleListed, end.ID, "it is %s, but listed as %q", end.Status, places[end.ID])
		}
	}
}

// documented reports whether the engine documents a key.
func (chk *checker) documented(key string, ends []End) bool {
	for _, tenant := range chk.tenants {
		if rest, ours := strings.CutPrefix(key, chk.keys.Tenant(tenant)+":"); ours {
			return chk.documentedOf(tenant, rest, ends)
		}
	}
	return strings.HasPrefix(key, "flunq:timers:") || key == chk.keys.Tenants()
}

// documentedOf reports whether a tenant's key, without its prefix, is documented.
func (chk *checker) documentedOf(tenant, rest string, ends []End) bool {
	if rest == "workflows" || rest == "events" {
		return true
	}
	for _, prefix := range []string{"events:", "executions:", "workflow:definition:", "listen:"} {
		if strings.HasPrefix(rest, prefix) {
			return true
		}
	}
	id, isExecution := strings.CutPrefix(rest, "execution:")
	id, _ = store.CutHistory(id)
	id = chk.label(tenant, id)
	return isExecution && chk.tenantOf(id) == tenant && slices.ContainsFunc(ends, func(end End) bool { return end.ID == id })
}

// checkKeys checks that no unknown keys and no timers are left.
func (chk *checker) checkKeys(ends []End, broken invariant.Report) {
	for _, key := range chk.memory.Keys("") {
		if !chk.documented(key, ends) {
			broken("no key is left over", "", "%s belongs to no execution", key)
		}
	}
	const order = 40 // digits, and a blank before the timer
	for _, tenant := range chk.tenants {
		chk.memory.Fields(chk.keys.TimerKeys(tenant), func(identity, timer string) {
			if len(timer) > order+1 {
				broken("no timer is left", "", "the timer of %s is still registered", identity)
			}
		})
	}
	chk.checkWorkingData(ends, broken)
}

// checkWorkingData checks that ended executions keep no working data.
func (chk *checker) checkWorkingData(ends []End, broken invariant.Report) {
	for _, end := range ends {
		if !end.Status.Ended() {
			continue
		}
		chk.memory.Fields(chk.keyOf(end.ID), func(name, _ string) {
			if strings.Contains(name, ":") || name == "snapshot" || name == "snapshot_version" {
				broken("an ended execution keeps no working data", end.ID, "field %s is left", name)
			}
		})
	}
}

// checkChildren checks parents and children: a parent learns how its child ended, and a child
// that its parent no longer waits for is cancelled.
func (chk *checker) checkChildren(ends []End, published map[eventKey]bool, broken invariant.Report) {
	for _, end := range ends {
		if len(end.History) == 0 || end.History[0].Type != event.ExecutionStarted {
			continue
		}
		var begun event.Started
		if decide.DecodeData(end.History[0], &begun) != nil || begun.ParentTask == "" {
			continue
		}
		id, parent := chk.idOf(end.ID), end.ID[:max(0, strings.LastIndexByte(end.ID, '.'))]
		if end.Status.Ended() && !published[eventKey{parent, id + "/parent"}] {
			broken("a parent learns how its child ends", end.ID, "%s did not", parent)
		}
		at := slices.IndexFunc(ends, func(e End) bool { return e.ID == parent })
		if at >= 0 {
			checkChildResult(ends[at], end, begun.ParentTask, id, broken)
		}
		if at >= 0 && abandoned(ends[at].History, begun.ParentTask, id, end.History) && !published[eventKey{end.ID, id + "/cancel"}] {
			broken("a child that no task waits for is cancelled", end.ID, "%s of %s ended before it, and it was not cancelled", begun.ParentTask, parent)
		}
	}
}

const ruleChild = "a parent receives the result of its child"

// checkChildResult checks that a parent received the result of its child.
func checkChildResult(parent, child End, task, id string, broken invariant.Report) {
	for _, e := range parent.History {
		if e.Type != event.TaskCompleted || e.Task != task || e.ID != id+"/parent" {
			continue
		}
		var c event.Completed
		switch {
		case decide.DecodeData(e, &c) != nil:
		case c.Success != (child.Status == decide.Completed):
			broken(ruleChild, parent.ID, "%s received success: %t, but %s is %s", task, c.Success, child.ID, child.Status)
		case c.Success && !invariant.SameData(c.Output, child.Output):
			broken(ruleChild, parent.ID, "%s received the output %s, but that of %s is %s", task, c.Output, child.ID, child.Output)
		case !c.Success && child.Status == decide.Faulted && child.Error != nil && (c.Error == nil || c.Error.Type != child.Error.Type || c.Error.Status != child.Error.Status):
			broken(ruleChild, parent.ID, "%s received the error %v, but %s failed with %v", task, c.Error, child.ID, child.Error)
		}
		return
	}
}

// abandoned reports whether the task that waits for a child ended without its result, or the
// engine gave up the task's execution before the child ended.
func abandoned(history []event.Event, task, child string, childHistory []event.Event) bool {
	asked := false
	for _, e := range history {
		switch {
		case e.Type == event.TaskRequested && e.Task == task:
			asked = true
		case e.Type == event.TaskCompleted && e.Task == task:
			return e.ID != child+"/parent"
		case asked && invariant.GivenUp(e):
			last := childHistory[len(childHistory)-1]
			return !ended(last) || last.Time.After(e.Time)
		}
	}
	return false
}

// checkListeners checks that each open listen task is on the lists of listeners for the types
// it waits for, if its execution has not ended.
func (chk *checker) checkListeners(ctx context.Context, id string, env *decide.Env, state *decide.State, broken invariant.Report) {
	if state.Status.Ended() {
		return
	}
	chk.checkTimersSet(ctx, id, state.Needs(env).Timers, broken)
	for _, n := range state.Open() {
		if n.Listen == nil || n.Listen.Stopped {
			continue
		}
		to := n.Task().Listen.To
		filters := to.Filters
		if to.UntilEvent != nil {
			filters = slices.Concat(filters, to.UntilEvent.Filters)
		}
		for _, typ := range invariant.EventTypes(filters) {
			if !chk.listensFor(ctx, id, typ) && !chk.listensFor(ctx, id, "*") {
				broken("a listening execution is on the list of listeners", id, "%s waits for %s, but is on no list for it", invariant.RunName(n.Run.String()), typ)
			}
		}
	}
}

// checkTimersSet checks that the timers that an execution waits for exist.
func (chk *checker) checkTimersSet(ctx context.Context, id string, needed []event.Timer, broken invariant.Report) {
	there, err := timers.New(chk.engine.Store).Armed(ctx, needed)
	for i, t := range there {
		if err == nil && t.ID == "" {
			broken("every timer that a task waits for exists", id, "the %s timer of %s for %v does not", t.Kind, invariant.RunName(t.TaskID), needed[i].FireAt)
		}
	}
}

// checkReceived checks that events from outside reached an execution that listened for their
// type the whole time.
func (chk *checker) checkReceived(end End, broken invariant.Report) {
	if chk.cfg.Mocks == nil || len(chk.cfg.Mocks.Events) == 0 || !slices.Contains(chk.ids, end.ID) {
		return
	}
	for _, l := range listensIn(chk.cfg.Definition, end.History) {
		for i, m := range chk.cfg.Mocks.Events {
			at := chk.cfg.Start.Add(m.After)
			if e := m.Event(i, at); !e.Addressed() && !chk.poison.includes(e.ID) && l.within(string(e.Type), at, chk.slack()) && !reached(end.History, e) {
				broken("an event reaches the tasks that listen for it", end.ID, "%s %s did not reach %s, which had listened since %v", e.Type, e.ID, invariant.RunName(l.task), l.from)
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
			if types, ok := plainTypes(task); ok {
				all = append(all, listen{task: e.Task, types: types, from: e.Time})
			}
		case event.TaskCompleted:
			endListening(all, e.Time, e.Task)
		case event.WorkflowCompleted, event.WorkflowFailed, event.WorkflowCancelled:
			endListening(all, e.Time, "")
		case event.ExecutionSuspended, event.ExecutionRetried:
			return nil
		}
	}
	return all
}

// endListening ends the listening of a task, or of all tasks if task is "".
func endListening(all []listen, at time.Time, task string) {
	for i := range all {
		if l := &all[i]; l.until.IsZero() && (task == "" || l.task == task) {
			l.until = at
		}
	}
}

// plainTypes returns the types that a task listens for until it ends; false if it filters by
// anything else.
func plainTypes(t *dsl.Task) (types []string, ok bool) {
	if t == nil || t.Kind != dsl.Listen || t.Listen.Foreach != nil || t.Listen.To.Mode == "all" {
		return nil, false
	}
	for _, f := range t.Listen.To.Filters {
		named := invariant.EventTypes([]dsl.EventFilter{f})
		if len(f.With) != 1 || len(named) != 1 || len(f.Correlate) > 0 {
			return nil, false
		}
		types = append(types, named...)
	}
	return types, true
}

// checkTimerTimes checks that timers fire neither early, nor later than the faults explain.
func (chk *checker) checkTimerTimes(id string, history []event.Event, broken invariant.Report) {
	slack := chk.slack()
	for fired := range firedTimers(history) {
		if fired.early {
			broken("no timer is early", id, "%s fired at %v, was due at %v", fired.task, fired.at, fired.due)
		}
		if fired.late > slack {
			broken("no timer is late", id, "%s fired at %v, was due at %v, and the faults explain %v", fired.task, fired.at, fired.at.Add(-fired.late), slack)
		}
	}
}

// latest returns the largest delay of a timer in a history.
func latest(history []event.Event) (late time.Duration) {
	for fired := range firedTimers(history) {
		late = max(late, fired.late)
	}
	return late
}

// firedTimer is a timer that has fired.
type firedTimer struct {
	task    string
	at, due time.Time
	late    time.Duration // since it was both due and set
	early   bool          // and no operator fired it
}

// firedTimers returns the fired timers of a history.
func firedTimers(history []event.Event) iter.Seq[firedTimer] {
	return func(yield func(firedTimer) bool) {
		eachFiredTimer(history, yield)
	}
}

func eachFiredTimer(history []event.Event, yield func(firedTimer) bool) {
	set := map[string]time.Time{}
	for _, e := range history {
		var t event.Fired
		if e.Type != event.TimerFired && e.Type != event.TimerScheduled || decide.DecodeData(e, &t) != nil {
			continue
		}
		key := t.TaskID + " " + string(t.Kind) + " " + t.Key
		if e.Type == event.TimerScheduled {
			set[key] = e.Time
			continue
		}
		when := t.Due() // an operator may have moved it
		early := t.By == "" && e.Time.Before(when)
		if !yield(firedTimer{t.TaskID, e.Time, when, e.Time.Sub(later(when, set[key])), early}) {
			return
		}
	}
}

// checkRepeatedCalls checks that without faults no call reaches its service twice.
func (chk *checker) checkRepeatedCalls(broken invariant.Report) {
	if len(chk.injected) > 0 || chk.cfg.Scripted.CrashURL != "" || chk.cfg.Poison > 0 {
		return
	}
	for d, n := range chk.actions {
		if n > 1 {
			broken("without faults a call is made once", d.Execution, "%s %s of %s reached its service %d times", d.Method, d.URL, d.Task, n)
		}
	}
}

// checkLeftoverKeys checks that no list of listeners is left once all executions have
// ended.
func (chk *checker) checkLeftoverKeys(broken invariant.Report) {
	for _, tenant := range chk.tenants {
		for _, key := range chk.memory.Keys(chk.keys.Listeners(tenant, "")) {
			broken("no listener is left once all executions have ended", "", "%s is left", key)
		}
	}
}

// allEnded reports whether all executions that were started have ended. A waiting execution
// may still need what is left in Redis, and whether it may wait depends on other runs.
func (chk *checker) allEnded(ends []End) bool {
	return !slices.ContainsFunc(ends, func(end End) bool {
		return slices.Contains(chk.ids, end.ID) && !end.Status.Ended() && end.Status != Removed
	})
}

const ruleDeadLetter = "no message becomes a dead letter without a reason"

// checkLeftovers checks that no timers and no unhandled events are left once all executions
// have ended.
func (chk *checker) checkLeftovers(ctx context.Context, broken invariant.Report) error {
	open := int64(0)
	for _, tenant := range chk.tenants {
		counts, err := chk.engine.Store.Counts(ctx, tenant)
		if err != nil {
			return err
		}
		open += counts.Open
	}
	if open > 0 {
		broken("every execution ends", "", "%d have not", open)
		return nil // an execution that has not ended may wait for something
	}
	if n := len(chk.timerMembers()); n > 0 {
		broken("no timer is left", "", "%d are", n)
	}
	if chk.endsEarly() {
		chk.checkUnhandled(broken)
		return nil
	}
	for _, key := range chk.streams {
		for _, g := range chk.memory.Groups(key) {
			if g.Pending > 0 || g.Unread > 0 {
				broken("no work is left", "", "group %s has %d events pending and %d unread", g.Name, g.Pending, g.Unread)
			}
		}
	}
	return nil
}

// checkUnhandled reports events that concern a service and that it has not read or
// acknowledged.
func (chk *checker) checkUnhandled(broken invariant.Report) {
	for _, s := range chk.services {
		if s.consumerGroup.handles == nil {
			continue
		}
		if unread, pending := chk.open(s); unread+pending > 0 {
			broken("no work is left", "", "%s has %d events pending that concern it, and %d unread", s.Name, pending, unread)
		}
	}
}

// checkDeadLetters reports dead letters. Temporary faults do not justify any.
func (chk *checker) checkDeadLetters(ctx context.Context, t *Trial, broken invariant.Report) error {
	reported := 0
	for _, tenant := range chk.tenants {
		deadLetters, _, err := stream.New(chk.engine.Store).DeadLetters(ctx, stream.DeadLetterQuery{Tenant: tenant, Range: store.Range{Count: 10}})
		if err != nil {
			return err
		}
		for _, l := range deadLetters {
			if slices.Contains(l.Fields, event.AttemptAttribute) {
				broken("a dead letter holds the original entry", chk.label(tenant, l.Event.Execution), "that of %s %s has the attribute of a redelivery", l.Event.Type, l.Event.ID)
			}
			if own, along := chk.explainedByPoison(tenant, l); own || along {
				if own {
					reported++
				}
				continue
			}
			broken(ruleDeadLetter, chk.label(tenant, l.Event.Execution), "%s %s by the %s after %d attempts: %s", l.Event.Type, l.Event.ID, l.Service, l.Attempts, l.Reason)
		}
	}
	chk.checkPoison(reported, broken)
	t.Operated.AlsoDeadLettered = chk.poison.alsoDeadLettered
	return nil
}

// problem decodes an error from Redis; nil if there is none.
func problem(text json.RawMessage) *event.Problem {
	var p *event.Problem
	_ = json.Unmarshal(text, &p) // anything else is not an error
	return p
}

// checkActs checks that each operator change is in a history.
func (chk *checker) checkActs(ends []End, broken invariant.Report) {
	left := slices.Clone(chk.operators.changed)
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
		broken("every operator action is in the history", c.execution, "%s of %s is not", c.typ, invariant.RunName(c.task))
	}
}

// checkDefinitionTenant checks that the definition of an execution belongs to its own tenant.
func (chk *checker) checkDefinitionTenant(ctx context.Context, x store.Execution, broken invariant.Report) {
	if len(chk.cfg.foreignDefinitions) == 0 || len(chk.tenants) == 1 {
		return
	}
	key := chk.keys.Definition(chk.tenantOf(x.ID), x.Workflow)
	if there, err := chk.client.HExists(ctx, key, "text:"+x.Definition).Result(); err == nil && !there {
		broken(ruleTenants, x.ID, "its definition %s belongs to another tenant", x.Definition)
	}
}
