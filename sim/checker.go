package sim

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/expr/canonical"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/timers"
	"flunq.io/flunq/sim/invariant"
)

// checker checks the invariants when the simulation is over.
type checker struct{ *monitor }

// inspect checks an execution against its history and its definition.
func (chk *checker) inspect(ctx context.Context, id string) (End, error) {
	end := End{ID: id}
	x, err := chk.engine.Store.Execution(ctx, chk.tenantOf(id), chk.idOf(id))
	if errors.Is(err, store.ErrNotFound) && chk.removals[id] {
		end.Status = Removed
		return end, nil
	}
	if errors.Is(err, store.ErrNotFound) {
		chk.report("no execution is lost", id, "it is not in Redis")
		return end, nil
	}
	if err != nil {
		return end, err
	}
	end.Status = decide.Status(x.Status)
	end.Output, end.Error = x.Output, problem(x.Error)
	end.Outcome = OutcomeOf(&Result{Status: end.Status, Output: end.Output, Error: end.Error})
	if end.History, err = chk.engine.Store.History(ctx, chk.tenantOf(id), chk.idOf(id), 0, int(x.Version)+1); err != nil {
		chk.report("a history is complete", id, "%v", err)
		return end, nil
	}
	if n := int64(len(end.History)); n != x.Version {
		chk.report("a history is complete", id, "it has %d entries, but its version is %d", n, x.Version)
	}
	x.ID = id
	chk.checkTimes(x, end.History)
	chk.checkHistory(ctx, x, end.History)
	end.History = relabeled(end.History, id)
	return end, nil
}

const ruleKept = "the stored state follows from the history"

// checkTimes checks the times of an execution against its history.
func (chk *checker) checkTimes(x store.Execution, history []event.Event) {
	if len(history) == 0 {
		return
	}
	if first := history[0].Time; !x.CreatedAt.Equal(first) {
		chk.report(ruleKept, x.ID, "it was created at %v, but its history begins at %v", x.CreatedAt, first)
	}
	last := history[len(history)-1].Time
	switch ended := decide.Status(x.Status).Ended(); {
	case ended && !x.EndedAt.Equal(last):
		chk.report(ruleKept, x.ID, "it ended at %v, but its history at %v", x.EndedAt, last)
	case !ended && !x.EndedAt.IsZero():
		chk.report(ruleKept, x.ID, "it has not ended, but its end time is %v", x.EndedAt)
	}
}

// checkHistory checks a history against the decisions of package decide.
func (chk *checker) checkHistory(ctx context.Context, x store.Execution, history []event.Event) {
	chk.checkTimerTimes(x.ID, history)
	if x.Definition == "" {
		return // the execution was refused
	}
	env, err := chk.engine.Definitions.Hash(ctx, chk.tenantOf(x.ID), x.Workflow, x.Definition)
	if err != nil {
		chk.report("a definition is kept while an execution uses it", x.ID, "%v", err)
		return
	}
	chk.checkDefinitionTenant(ctx, x)
	invariant.History(env.Definition(), x.ID, history, chk.report)
	state, err := chk.rebuild(env, x.ID, history)
	switch {
	case err != nil:
		chk.report("a history follows from its definition", x.ID, "%v", err)
	case string(state.Status) != x.Status:
		chk.report(ruleKept, x.ID, "it is %s, but its history says %s", x.Status, state.Status)
	case state.Status == decide.Completed && !bytes.Equal(canonical.Encode(state.Output.V), x.Output):
		chk.report(ruleKept, x.ID, "its output is %s, but its history says %s", x.Output, canonical.Encode(state.Output.V))
	case state.Status == decide.Completed && len(x.Error) > 0:
		chk.report(ruleKept, x.ID, "it is completed, but has the error %s", x.Error)
	case state.Error != nil && problem(x.Error).Error() != state.Error.Error():
		chk.report(ruleKept, x.ID, "its error is %s, but its history says %v", x.Error, state.Error)
	default:
		chk.checkWaiting(ctx, x.ID, env, state)
	}
}

// checkTimerTimes checks that timers fire neither early, unless an operator fired them, nor
// later than the faults explain.
func (chk *checker) checkTimerTimes(id string, history []event.Event) {
	slack, set := chk.slack(), map[string]time.Time{}
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
		due := t.Due() // an operator may have moved it
		if t.By == "" && e.Time.Before(due) {
			chk.report("no timer is early", id, "%s fired at %v, was due at %v", t.TaskID, e.Time, due)
		}
		if dueAndSet := later(due, set[key]); e.Time.Sub(dueAndSet) > slack {
			chk.report("no timer is late", id, "%s fired at %v, was due at %v, and the faults explain %v", t.TaskID, e.Time, dueAndSet, slack)
		}
	}
}

// checkDefinitionTenant checks that the definition of an execution belongs to its own tenant.
func (chk *checker) checkDefinitionTenant(ctx context.Context, x store.Execution) {
	if len(chk.cfg.foreignDefinitions) == 0 || len(chk.tenants) == 1 {
		return
	}
	key := chk.keys.Definition(chk.tenantOf(x.ID), x.Workflow)
	if there, err := chk.client.HExists(ctx, key, "text:"+x.Definition).Result(); err == nil && !there {
		chk.report(ruleTenants, x.ID, "its definition %s belongs to another tenant", x.Definition)
	}
}

// rebuild replays a history. At some point it replaces the state by its snapshot, which
// must behave like the state itself.
func (chk *checker) rebuild(env *decide.Env, id string, history []event.Event) (*decide.State, error) {
	state := decide.New()
	cut := int(Draw(chk.cfg.Seed, "snapshot "+id, 0) % uint64(len(history)+1)) // at most the length
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

// checkWaiting checks that what an execution that has not ended waits for exists: its timers, and
// its entries in the lists of listeners for the types that its open tasks listen for.
func (chk *checker) checkWaiting(ctx context.Context, id string, env *decide.Env, state *decide.State) {
	if state.Status.Ended() {
		return
	}
	missing, _ := chk.missingTimers(ctx, state.Needs(env).Timers) // it was just read, so it can be read
	for _, t := range missing {
		chk.report("every timer that a task waits for exists", id, "the %s timer of %s for %v does not", t.Kind, invariant.RunName(t.TaskID), t.FireAt)
	}
	for _, n := range state.Open() {
		if n.Listen == nil || n.Listen.Stopped {
			continue
		}
		for _, typ := range decide.ListensFor(n.Task()) {
			if !chk.listensFor(ctx, id, typ) && !chk.listensFor(ctx, id, "*") {
				chk.report("a listening execution is on the list of listeners", id, "%s waits for %s, but is on no list for it", invariant.RunName(n.Run.String()), typ)
			}
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

// checkLeftovers checks that no timers and no unhandled events are left once all executions
// have ended.
func (chk *checker) checkLeftovers(ctx context.Context) error {
	open := int64(0)
	for _, tenant := range chk.tenants {
		counts, err := chk.engine.Store.Counts(ctx, tenant)
		if err != nil {
			return err
		}
		open += counts.Open
	}
	if open > 0 {
		chk.report("every execution ends", "", "%d have not", open)
		return nil // an execution that has not ended may wait for something
	}
	if n := len(chk.timerMembers()); n > 0 {
		chk.report("no timer is left", "", "%d are", n)
	}
	if chk.endsEarly() {
		chk.checkUnhandled()
		return nil
	}
	for _, key := range chk.streams {
		for _, g := range chk.memory.Groups(key) {
			if g.Pending > 0 || g.Unread > 0 {
				chk.report("no work is left", "", "group %s has %d events pending and %d unread", g.Name, g.Pending, g.Unread)
			}
		}
	}
	return nil
}

// checkUnhandled reports events that concern a service and that it has not read or
// acknowledged.
func (chk *checker) checkUnhandled() {
	for _, s := range chk.services {
		if s.consumerGroup.handles == nil {
			continue
		}
		if unread, pending := chk.open(s.consumerGroup, s.consumer); unread+pending > 0 {
			chk.report("no work is left", "", "%s has %d events pending that concern it, and %d unread", s.Name, pending, unread)
		}
	}
}

// checkLeftoverListeners checks that no list of listeners is left once all executions have
// ended.
func (chk *checker) checkLeftoverListeners() {
	for _, tenant := range chk.tenants {
		for _, key := range chk.memory.Keys(chk.keys.Listeners(tenant, "")) {
			chk.report("no listener is left once all executions have ended", "", "%s is left", key)
		}
	}
}

// checkLeftoverKeys checks that no unknown keys and no timers are left, and that ended executions keep no
// working data.
func (chk *checker) checkLeftoverKeys(t *Trial) {
	for _, key := range chk.memory.Keys("") {
		if !chk.documented(key, t) {
			chk.report("no key is left over", "", "%s belongs to no execution", key)
		}
	}
	const order = 40 // digits, and a blank before the timer
	for _, tenant := range chk.tenants {
		chk.memory.Fields(chk.keys.TimerKeys(tenant), func(identity, timer string) {
			if len(timer) > order+1 {
				chk.report("no timer is left", "", "the timer of %s is still registered", identity)
			}
		})
	}
	for _, end := range t.Ends {
		if !end.Status.Ended() {
			continue
		}
		chk.memory.Fields(chk.keyOf(end.ID), func(name, _ string) {
			if strings.Contains(name, ":") || name == "snapshot" || name == "snapshot_version" {
				chk.report("an ended execution keeps no working data", end.ID, "field %s is left", name)
			}
		})
	}
}

// documented reports whether the engine documents a key.
func (chk *checker) documented(key string, t *Trial) bool {
	for _, tenant := range chk.tenants {
		rest, ours := strings.CutPrefix(key, chk.keys.Tenant(tenant)+":")
		if !ours {
			continue
		}
		begins := func(prefix string) bool { return strings.HasPrefix(rest, prefix) }
		if slices.ContainsFunc([]string{"events:", "executions:", "workflow:definition:", "listen:"}, begins) {
			return true
		}
		id, isExecution := strings.CutPrefix(rest, "execution:")
		id, _ = store.CutHistory(id)
		id = chk.label(tenant, id)
		return rest == "workflows" || rest == "events" || isExecution && chk.tenantOf(id) == tenant && t.End(id) != nil
	}
	return strings.HasPrefix(key, "flunq:timers:") || key == chk.keys.Tenants()
}

// checkRepeatedCalls checks that without faults no call reaches its service twice.
func (chk *checker) checkRepeatedCalls() {
	if len(chk.injected) > 0 || chk.cfg.Scripted.CrashURL != "" || chk.cfg.Poison > 0 {
		return
	}
	for d, n := range chk.callCounts {
		if n > 1 {
			chk.report("without faults a call is made once", d.Execution, "%s %s of %s reached its service %d times", d.Method, d.URL, d.Task, n)
		}
	}
}

// checkChildren checks parents and children: a parent learns how its child ended, and a child
// that its parent no longer waits for is cancelled.
func (chk *checker) checkChildren(t *Trial, published map[eventKey]bool) {
	for _, end := range t.Ends {
		if len(end.History) == 0 || end.History[0].Type != event.ExecutionStarted {
			continue
		}
		var begun event.Started
		if decide.DecodeData(end.History[0], &begun) != nil || begun.ParentTask == "" {
			continue
		}
		id, parent := chk.idOf(end.ID), Parent(end.ID)
		if end.Status.Ended() && !published[eventKey{parent, id + "/parent"}] {
			chk.report("a parent learns how its child ends", end.ID, "%s did not", parent)
		}
		above := t.End(parent)
		if above == nil {
			continue
		}
		chk.checkChildResult(*above, end, begun.ParentTask, id)
		if abandoned(above.History, begun.ParentTask, id, end.History) && !published[eventKey{end.ID, id + "/cancel"}] {
			chk.report("a child that no task waits for is cancelled", end.ID, "%s of %s ended before it, and it was not cancelled", begun.ParentTask, parent)
		}
	}
}

const ruleChild = "a parent receives the result of its child"

// checkChildResult checks that a parent received the result of its child.
func (chk *checker) checkChildResult(parent, child End, task, id string) {
	for _, e := range parent.History {
		if e.Type != event.TaskCompleted || e.Task != task || e.ID != id+"/parent" {
			continue
		}
		var c event.Completed
		switch {
		case decide.DecodeData(e, &c) != nil:
		case c.Success != (child.Status == decide.Completed):
			chk.report(ruleChild, parent.ID, "%s received success: %t, but %s is %s", task, c.Success, child.ID, child.Status)
		case c.Success && !invariant.SameData(c.Output, child.Output):
			chk.report(ruleChild, parent.ID, "%s received the output %s, but that of %s is %s", task, c.Output, child.ID, child.Output)
		case !c.Success && child.Status == decide.Faulted && child.Error != nil && (c.Error == nil || c.Error.Type != child.Error.Type || c.Error.Status != child.Error.Status):
			chk.report(ruleChild, parent.ID, "%s received the error %v, but %s failed with %v", task, c.Error, child.ID, child.Error)
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

// checkReceived checks that events from outside reached an execution that listened for their
// type the whole time.
func (chk *checker) checkReceived(end End) {
	if chk.cfg.Mocks == nil || len(chk.cfg.Mocks.Events) == 0 || len(end.History) == 0 {
		return
	}
	def := chk.definition(end.History[0].Workflow)
	if def == nil {
		return
	}
	spans, steady := listenSpans(def, end.History)
	for i, m := range chk.cfg.Mocks.Events {
		e := m.Event(i, chk.cfg.Start.Add(m.After))
		if !steady || e.Addressed() || chk.poison.includes(e.ID) || reached(end.History, e) {
			continue
		}
		for _, l := range spans {
			if l.awaited(string(e.Type), chk.cfg.Start.Add(m.After), chk.slack()) {
				chk.report("an event reaches the tasks that listen for it", end.ID, "%s %s did not reach %s, which had listened since %v", e.Type, e.ID, invariant.RunName(l.run), l.began)
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

// awaited reports whether a task listened for all events of a type from slack before at until
// slack after it.
func (l *listenSpan) awaited(typ string, at time.Time, slack time.Duration) bool {
	to := l.task.Listen.To
	if l.task.Listen.Foreach != nil || to.Mode == "all" || at.Before(l.began.Add(slack)) || !l.end.IsZero() && l.end.Before(at.Add(slack)) {
		return false
	}
	accepts := len(to.Filters) == 0
	for _, f := range to.Filters {
		types := invariant.EventTypes(f)
		if len(f.With) != 1 || len(types) != 1 || len(f.Correlate) > 0 { // it filters by more than the type
			return false
		}
		accepts = accepts || types[0] == typ
	}
	return accepts
}

// openList is the list of running executions; there is one more list for each final
// status.
const openList = "open"

func executionIndexes() []string { return []string{openList, "completed", "faulted", "cancelled"} }

const ruleListed = "every execution is listed by its status"

// checkIndexes checks the lists of executions: each execution is in exactly one list, the one
// of its status, ordered by creation time.
func (chk *checker) checkIndexes(t *Trial) {
	places := map[string]string{}
	for _, tenant := range chk.tenants {
		for _, list := range executionIndexes() {
			chk.memory.Ranked(chk.keys.Executions(tenant, list), func(id string, score float64) {
				id = chk.label(tenant, id)
				if chk.tenantOf(id) != tenant {
					chk.report(ruleTenants, id, "it is listed under tenant %s", tenant)
				}
				if end := t.End(id); end == nil {
					chk.report(ruleListed, id, "it is listed as %s, but does not exist", list)
				} else if h := end.History; len(h) > 0 && int64(score) != h[0].Time.UnixMilli() {
					chk.report(ruleListed, id, "it is listed as started at %v, but started at %v", time.UnixMilli(int64(score)).UTC(), h[0].Time)
				}
				if other := places[id]; other != "" {
					chk.report(ruleListed, id, "it is listed as both %s and %s", other, list)
				}
				places[id] = list
			})
		}
	}
	for _, end := range t.Ends {
		want := openList
		if end.Status.Ended() {
			want = string(end.Status)
		}
		if end.Status != "" && end.Status != Removed && places[end.ID] != want {
			chk.report(ruleListed, end.ID, "it is %s, but listed as %q", end.Status, places[end.ID])
		}
	}
}

// checkActs checks that each operator change is in a history.
func (chk *checker) checkActs(ends []End) {
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
		chk.report("every operator action is in the history", c.execution, "%s of %s is not", c.typ, invariant.RunName(c.task))
	}
}

const ruleDeadLetter = "no message becomes a dead letter without a reason"

// checkDeadLetters reports dead letters. Temporary faults do not justify any.
func (chk *checker) checkDeadLetters(ctx context.Context, t *Trial) error {
	reported := 0
	for _, tenant := range chk.tenants {
		deadLetters, err := chk.deadLetters(ctx, tenant)
		if err != nil {
			return err
		}
		for _, l := range deadLetters {
			if slices.Contains(l.Fields, event.AttemptAttribute) {
				chk.report("a dead letter holds the original entry", chk.label(tenant, l.Event.Execution), "that of %s %s has the attribute of a redelivery", l.Event.Type, l.Event.ID)
			}
			if own, along := chk.explainedByPoison(tenant, l); own || along {
				if own {
					reported++
				}
				continue
			}
			chk.report(ruleDeadLetter, chk.label(tenant, l.Event.Execution), "%s %s by the %s after %d attempts: %s", l.Event.Type, l.Event.ID, l.Service, l.Attempts, l.Reason)
		}
	}
	chk.checkPoison(reported)
	t.Operated.AlsoDeadLettered = chk.poison.alsoDeadLettered
	return nil
}

// checkPoison checks the number of dead letters and the crash counts of poison messages. If
// there are several, a process that crashes on one may be handling another, which counts as a
// crash of both until they are handled in isolation.
func (chk *checker) checkPoison(deadLetters int) {
	const enough = 5
	deadLetters += chk.operators.replayed
	for _, v := range chk.poison.all {
		fewest, most := enough, enough
		if len(chk.poison.all) > 1 {
			fewest -= candidateCrashes
		}
		for _, s := range chk.injected {
			if s.Kind == Delay || s.Kind == DropReply { // a frozen process counts as crashed, and may crash later
				most++
			}
		}
		counted := deadLetters == len(chk.poison.all) && v.crashes >= fewest
		if most > enough { // another process may have handled a message on which a process crashes
			counted = deadLetters <= len(chk.poison.all)
		}
		if !counted || v.crashes > most {
			chk.report(rulePoison, chk.label(v.of.tenant, v.event.Execution), "%d processes crashed on %s %s, and there are %d dead letters for %d poison messages", v.crashes, v.event.Type, v.event.ID, deadLetters, len(chk.poison.all))
		}
	}
}

const rulePoison = "a poison message is dead-lettered once"

// problem decodes an error from Redis; nil if there is none.
func problem(text json.RawMessage) *event.Problem {
	var p *event.Problem
	_ = json.Unmarshal(text, &p) // anything else is not an error
	return p
}
