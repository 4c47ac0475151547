package sim

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/sim/invariant"
)

const (
	ruleNeeded  = "whatever an execution waits for exists"
	ruleAwaited = "something waits for every timer"
)

// longHistory is the length above which histories are not checked during a run.
const longHistory = 400

// checkedState is the state of an execution when it was last checked.
type checkedState struct {
	pastState

	definition string
	checked    bool // nothing is left to check
}

// checkNeeds compares what each execution waits for with what is in Redis, before the clock
// moves. It does so only if no event is unread or unacknowledged: then no service is about to
// add what is missing.
func (mon *monitor) checkNeeds(ctx context.Context) {
	if !mon.cfg.Watchful || len(mon.operators.damaged) > 0 || !mon.groupIdle("worker") || !mon.groupIdle("timer") || mon.redeliveryScheduled() {
		return
	}
	performing := !mon.groupIdle("executor")
	for _, id := range mon.executions(ctx) {
		it, err := mon.refreshState(ctx, id)
		if it == nil || err != nil || it.checked { // the invariants report it at the end
			continue
		}
		it.checked = !performing // results in flight may still be lost
		var needed []event.Timer
		if !it.state.Status.Ended() {
			needed = it.state.Needs(it.env).Timers
			for _, text := range mon.unmetNeeds(ctx, &it.pastState, performing) {
				mon.report(ruleNeeded, id, "%s", text)
			}
		}
		mon.checkUseless(id, needed)
	}
}

// refreshState updates the checked state of an execution; nil if the execution cannot be
// checked now.
func (mon *monitor) refreshState(ctx context.Context, id string) (*checkedState, error) {
	x, err := mon.engine.Store.Execution(ctx, mon.tenantOf(id), mon.idOf(id))
	if err != nil || x.Version > longHistory || x.Definition == "" {
		return nil, err
	}
	it := mon.checkedStates[id]
	switch {
	case it == nil || it.definition != x.Definition || it.state.Version > x.Version:
		past, err := mon.stateOf(ctx, id)
		if past == nil || err != nil {
			return nil, err
		}
		it = &checkedState{pastState: *past, definition: x.Definition}
	case it.state.Version < x.Version:
		delete(mon.checkedStates, id)
		tail, err := mon.engine.Store.History(ctx, mon.tenantOf(id), mon.idOf(id), it.state.Version, int(x.Version-it.state.Version))
		if err != nil {
			return nil, err
		}
		if err := it.state.Replay(it.env, tail); err != nil {
			return nil, err
		}
		it.checked = false
	}
	if !it.state.Settled() {
		return nil, nil
	}
	mon.checkedStates[id] = it
	return it, nil
}

// groupIdle reports whether a consumer group has no unread and no unacknowledged event that
// concerns it.
func (mon *monitor) groupIdle(group string) bool {
	for _, g := range mon.groups {
		if g.group != group {
			continue
		}
		if unread, pending := mon.open(g, ""); unread+pending > 0 {
			return false
		}
	}
	return true
}

// redeliveryScheduled reports whether a failed delivery is scheduled for another try.
func (mon *monitor) redeliveryScheduled() bool {
	return slices.ContainsFunc(mon.timerMembers(), func(member string) bool { return strings.Contains(member, `"kind":"delivery"`) })
}

// unmetNeeds returns one line for each thing that an execution waits for but no service will
// provide, and says which service should have done so.
func (mon *monitor) unmetNeeds(ctx context.Context, past *pastState, performing bool) (all []string) {
	id := mon.label(past.state.Tenant, past.state.Execution)
	needs := past.state.Needs(past.env)
	missing, _ := mon.missingTimers(ctx, needs.Timers) // the invariants report errors at the end
	for _, t := range missing {
		if past.state.CancelledBy(t) == "" {
			all = append(all, fmt.Sprintf("%s waits for its %s timer of %s, which is not set: the timer service should have set or fired it", invariant.RunName(t.TaskID), t.Kind, t.Due().Format(time.RFC3339Nano)))
		}
	}
	for _, typ := range needs.Listen {
		if !mon.listensFor(ctx, id, typ) {
			all = append(all, fmt.Sprintf("it listens for %s, but is not on the list of listeners: the worker should have added it", typ))
		}
	}
	if past.state.Paused { // a suspended execution defers the results of its children, too
		needs.Children = nil
	}
	for _, child := range needs.Children {
		x, err := mon.engine.Store.Execution(ctx, past.state.Tenant, child)
		if status := decide.Status(x.Status); err == nil && status.Ended() {
			all = append(all, fmt.Sprintf("it waits for execution %s, which is %s: the worker should have sent it the result", child, status))
		}
	}
	switch {
	case past.state.Ready():
		all = append(all, "it has tasks to compute: the worker should have computed them")
	case !performing && past.state.Requested():
		all = append(all, "it waits for the result of "+requestedIn(past)+": an executor should have performed it, and the worker should have recorded the result")
	}
	return all
}

// requestedIn names the tasks that executors were asked to perform.
func requestedIn(past *pastState) string {
	var names []string
	requests, _ := past.state.Requests(past.env) // requests that cannot be rebuilt are left out
	for _, e := range requests {
		names = append(names, invariant.RunName(e.Task))
	}
	return strings.Join(names, ", ")
}

// checkUseless reports timers of an execution that it does not wait for.
func (mon *monitor) checkUseless(id string, needed []event.Timer) {
	if mon.duplicated() { // a timer that a fault requests again may be set once it has fired
		return
	}
	own := fmt.Sprintf(`"execution_id":%q`, mon.idOf(id))
	for _, member := range mon.timerMembers() {
		if !strings.Contains(member, own) {
			continue
		}
		var t event.Timer
		if json.Unmarshal([]byte(member), &t) != nil || t.Tenant != mon.tenantOf(id) || t.Execution != mon.idOf(id) || t.Keyed() && t.TaskID == "" {
			continue
		}
		if !slices.ContainsFunc(needed, func(n event.Timer) bool { return invariant.Slot(n) == invariant.Slot(t) && n.FireAt.Equal(t.FireAt) }) {
			mon.report(ruleAwaited, id, "nothing waits for the %s timer of %s for %v", t.Kind, invariant.RunName(t.TaskID), t.FireAt)
		}
	}
}
