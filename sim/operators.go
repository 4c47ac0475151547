package sim

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/delivery"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/registry"
	"flunq.io/flunq/engine/store/stream"
	"flunq.io/flunq/engine/store/timers"
)

// Act is an operator action on an execution. Nothing happens if the execution does not exist
// by then.
type Act struct {
	What      ActKind
	Execution string        // the id that the simulation uses
	After     time.Duration // since the start
}

// ActKind is a kind of Act.
type ActKind string

// The kinds of operator actions.
const (
	Suspend ActKind = "suspend"
	Resume  ActKind = "resume"
	Cancel  ActKind = "cancel"
	Retry   ActKind = "retry"

	Move        ActKind = "move a timer" // to another time
	Fire        ActKind = "fire a timer"
	CancelTimer ActKind = "cancel a timer"
	Restore     ActKind = "restore timers" // those that are missing
	Damage      ActKind = "damage"         // corrupt its history, so it can receive no event
	Mend        ActKind = "mend"           // repair its history, and replay what was dead-lettered meanwhile
	Migrate     ActKind = "migrate"        // to a document with different source and the same meaning
)

// actKinds returns all kinds.
func actKinds() []ActKind {
	return []ActKind{Suspend, Resume, Cancel, Retry, Move, Fire, CancelTimer, Restore, Damage, Mend, Migrate}
}

// typ returns the type of the event that carries the request to the execution; "" if there is none.
func (k ActKind) typ() event.Type {
	return map[ActKind]event.Type{
		Suspend: event.ExecutionSuspended, Resume: event.ExecutionResumed,
		Cancel: event.ExecutionCancelled, Retry: event.ExecutionRetried,
	}[k]
}

// writtenAct is the JSON form of an Act.
type writtenAct struct {
	What      ActKind `json:"what"`
	Execution string  `json:"execution"`
	After     string  `json:"after"`
}

// MarshalJSON writes the duration in Go's notation.
func (a Act) MarshalJSON() ([]byte, error) {
	return json.Marshal(writtenAct{a.What, a.Execution, a.After.String()})
}

// UnmarshalJSON reads what MarshalJSON writes, and rejects unknown members.
func (a *Act) UnmarshalJSON(text []byte) error {
	var w writtenAct
	if err := event.DecodeStrictly(text, &w); err != nil {
		return fmt.Errorf("read an operator action: %w", err)
	}
	after, err := time.ParseDuration(w.After)
	if err != nil || after < 0 || !slices.Contains(actKinds(), w.What) {
		return fmt.Errorf("read an operator action: %q after %q, want one of %q after a duration such as 45s", w.What, w.After, actKinds())
	}
	*a = Act{w.What, w.Execution, after}
	return nil
}

// operators records what operators have done in a simulation.
type operators struct {
	acts       int                  // number of acts so far
	paused     map[string]time.Time // executions that an operator suspended, and since when
	pausedTime time.Duration        // the total time that suspended or damaged executions and dead letters waited
	damaged    map[string]time.Time // executions whose history is damaged, and since when
	changed    []changed            // of timers and documents
	retried    map[string]int       // number of retries of each execution
	reopened   map[string]bool      // executions that were retried, and therefore end a second time
	replayed   int                  // dead letters that were replayed
}

func newOperators() operators {
	return operators{paused: map[string]time.Time{}, damaged: map[string]time.Time{}, retried: map[string]int{}, reopened: map[string]bool{}}
}

// operations performs what operators do, and crashes the processes that handle poison
// messages.
type operations struct{ monitor }

// planned returns the operator actions of the configuration as arrivals.
func (ops *operations) planned() (out []Arrival) {
	for _, a := range ops.cfg.Acts {
		at := ops.cfg.Start.Add(a.After)
		out = append(out, Arrival{At: at, Do: func(ctx context.Context, _ Operator) error { return ops.operate(ctx, a.What, a.Execution) }})
	}
	return out
}

// operate performs an operator action on an execution.
func (ops *operations) operate(ctx context.Context, what ActKind, id string) error {
	there, err := ops.client.Exists(ctx, ops.keyOf(id)).Result()
	if err != nil || there == 0 {
		return err
	}
	o := &ops.operators
	o.acts++
	switch what { //nolint:exhaustive // the others are events for the execution
	case Move, Fire, CancelTimer:
		return ops.changeTimer(ctx, what, id)
	case Restore:
		_, err := ops.restore(ctx, id, false)
		return err
	case Migrate:
		return ops.migrate(ctx, id)
	case Damage:
		return ops.damage(ctx, id)
	case Mend:
		return ops.mend(ctx, id)
	}
	switch since, paused := o.paused[id]; {
	case what == Suspend && !paused:
		o.paused[id] = ops.clock.now
	case what == Resume && paused:
		o.pausedTime += ops.clock.now.Sub(since)
		delete(o.paused, id)
	case what == Resume: // the request to suspend may have arrived late
		o.pausedTime += ops.clock.now.Sub(ops.cfg.Start)
	case what == Retry:
		o.reopened[ops.idOf(id)] = true
	}
	return ops.engine.Store.Publish(ctx, event.Event{
		ID: fmt.Sprintf("%s/act/%d", ops.idOf(id), o.acts), Source: decide.Prefix + "cli", Type: what.typ(), Time: ops.clock.now,
		Tenant: ops.tenantOf(id), Execution: ops.idOf(id), Data: event.Encode(event.Ended{Reason: "as planned"}),
	})
}

// maxRetries is how many times an operator retries an execution.
const maxRetries = 2

// resumeAndRetry resumes suspended executions and retries failed ones once nothing else
// happens. It reports whether there were any.
func (ops *operations) resumeAndRetry(ctx context.Context) (bool, error) {
	if len(ops.cfg.Acts) == 0 && ops.cfg.Poison == 0 {
		return false, nil
	}
	if found, err := ops.replay(ctx); found || err != nil {
		return found, err
	}
	found := false
	for _, id := range ops.executions(ctx) {
		status, err := ops.client.HGet(ctx, ops.keyOf(id), "status").Result()
		if err != nil {
			continue // the execution was removed
		}
		var what ActKind
		switch retries := ops.operators.retried[id]; {
		case status == string(decide.Suspended):
			what = Resume
		case status == string(decide.Faulted) && ops.cfg.Poison > 0 && retries < maxRetries && slices.Contains(ops.ids, id):
			what = Retry
			ops.operators.retried[id]++
			ops.checkHoldsNothing(ctx, id)
		default:
			if missing, err := ops.restore(ctx, id, true); missing || err != nil {
				return true, err
			}
			continue
		}
		found = true
		if err := ops.operate(ctx, what, id); err != nil {
			return found, err
		}
	}
	return found, nil
}

// checkHoldsNothing checks that a faulted execution has no timers left and is on no list of
// listeners, once everything else is idle.
func (ops *operations) checkHoldsNothing(ctx context.Context, id string) {
	const rule = "a faulted execution keeps no timers and no listeners"
	own := fmt.Sprintf(`{"tenant_id":%q,"workflow_id":`, ops.tenantOf(id))
	for _, timer := range ops.timerMembers() {
		if strings.HasPrefix(timer, own) && strings.Contains(timer, fmt.Sprintf(`"execution_id":%q`, ops.idOf(id))) {
			ops.report(rule, id, "its timer is still set: %s", timer)
		}
	}
	prefix := ops.keys.Listeners(ops.tenantOf(id), "")
	for _, key := range ops.memory.Keys(prefix) {
		if ops.listensFor(ctx, id, strings.TrimPrefix(key, prefix)) {
			ops.report(rule, id, "it is still on the list %s", key)
		}
	}
}

// Operated describes what operators and poison messages did to the executions of a trial.
type Operated struct {
	Delay            time.Duration  // how long operators, poison messages and slow calls can have delayed them
	Retried          map[string]int // number of retries of each execution
	Begun            uint64         // messages that any service has begun to handle
	Poisoned         string         // the execution of the poison message; "" if there is none
	AlsoDeadLettered bool           // other messages were dead-lettered with the poison message

	PoisonType event.Type // the type of the poison message
	Crashes    int        // how many processes it crashed
}

// operated summarizes what operators and poison messages did.
func (ops *operations) operated() Operated {
	o, v := &ops.operators, &ops.poison
	out := Operated{Delay: o.pausedTime + time.Duration(v.crashes())*Recovery, Retried: o.retried, Begun: v.begun, Crashes: v.crashes()}
	if ops.cfg.Slow {
		out.Delay += time.Duration(len(ops.reached)) * slowness
	}
	if len(v.all) > 0 {
		out.Poisoned, out.PoisonType = ops.label(v.all[0].of.tenant, v.all[0].event.Execution), v.all[0].event.Type
	}
	return out
}

// damage overwrites the history of an execution, as another program might. Until mend restores
// it, each event for the execution fails, is redelivered, and is dead-lettered in the end.
func (ops *operations) damage(ctx context.Context, id string) error {
	if _, is := ops.operators.damaged[id]; is {
		return nil
	}
	ops.operators.damaged[id] = ops.clock.now
	return ops.overwrite(ctx, ops.historyOf(id))
}

// overwrite renames a key and puts a value of a wrong type in its place.
func (ops *operations) overwrite(ctx context.Context, key string) error {
	there, err := ops.client.Exists(ctx, key).Result()
	if err == nil && there == 1 {
		err = ops.client.Rename(ctx, key, key+aside).Err()
	}
	if err == nil {
		err = ops.client.Set(ctx, key, "what another program has written", 0).Err()
	}
	return err
}

// restoreKey undoes overwrite.
func (ops *operations) restoreKey(ctx context.Context, key string) error {
	if err := ops.client.Del(ctx, key).Err(); err != nil {
		return err
	}
	there, err := ops.client.Exists(ctx, key+aside).Result()
	if err == nil && there == 1 {
		err = ops.client.Rename(ctx, key+aside, key).Err()
	}
	return err
}

// aside is the suffix of the key that preserves the value meanwhile.
const aside = ":aside"

// mend restores the history and replays the messages that were dead-lettered meanwhile,
// in an order that depends on the seed.
func (ops *operations) mend(ctx context.Context, id string) error {
	o := &ops.operators
	since, is := o.damaged[id]
	if !is {
		return nil
	}
	delete(o.damaged, id)
	o.pausedTime += ops.clock.now.Sub(since)
	if err := ops.restoreKey(ctx, ops.historyOf(id)); err != nil {
		return err
	}
	deadLetters, err := ops.deadLetters(ctx, ops.tenantOf(id))
	if err != nil {
		return err
	}
	slices.SortFunc(deadLetters, func(a, b stream.DeadLetter) int {
		return cmp.Compare(Choice(ops.cfg.Seed, a.ID), Choice(ops.cfg.Seed, b.ID))
	})
	for _, l := range deadLetters {
		replayed, err := stream.New(ops.engine.Store).Replay(ctx, l)
		if err != nil {
			return err
		}
		if !replayed {
			ops.report("a dead letter is replayed once", id, "that of %s was gone", l.Event.ID)
		}
	}
	return nil
}

// refused holds the timer requests that fail the first few times, because the key of their
// execution is overwritten meanwhile.
type refused struct {
	left  map[string]int // how many more times each request will fail, by its id
	event string         // the id of the request that fails now
	key   string         // of its execution, which is overwritten
}

// refuseTimer overwrites the execution of a timer request that is to fail, while a timer
// service handles it.
func (ops *operations) refuseTimer(a delivery.Activity) {
	if ops.cfg.Scripted.Refuse == nil || a.Service != "timer" || a.Message.Event.Type != event.TimerScheduled {
		return
	}
	r, m := &ops.refused, a.Message
	switch a.What { //nolint:exhaustive // the others come between these
	case delivery.Began:
		if r.left == nil {
			r.left = map[string]int{}
		}
		if _, known := r.left[m.Event.ID]; !known {
			r.left[m.Event.ID] = ops.cfg.Scripted.Refuse(uint64(len(r.left)))
		}
		if r.left[m.Event.ID] == 0 || r.key != "" {
			return
		}
		r.left[m.Event.ID]--
		r.event, r.key = m.Event.ID, ops.keys.Execution(m.Tenant, m.Event.Execution)
		ops.asSimulation(func(ctx context.Context) error { return ops.overwrite(ctx, r.key) })
	case delivery.Done, delivery.Broken:
		if r.key != "" && r.event == m.Event.ID {
			ops.asSimulation(func(ctx context.Context) error { return ops.restoreKey(ctx, r.key) })
			r.key = ""
		}
	}
}

// changed is an operator's change that must appear in the history of an execution.
type changed struct {
	execution string
	typ       event.Type
	task      string
}

// operatorName is the name of the operator in a simulation.
const operatorName = "ada"

// changeTimer moves, fires or cancels one of the timers of an execution, if it has any.
func (ops *operations) changeTimer(ctx context.Context, what ActKind, id string) error {
	all, _, err := timers.New(ops.engine.Store).List(ctx, timers.Filter{Tenant: ops.tenantOf(id), Execution: ops.idOf(id)}, "", 100) // more than there are
	all = slices.DeleteFunc(all, func(p timers.Pending) bool { return p.Kind == event.DeliveryTimer })
	if err != nil || len(all) == 0 {
		return err
	}
	o := &ops.operators
	n := Draw(ops.cfg.Seed, "operated on", uint64(o.acts))
	p := all[n%uint64(len(all))]
	done, typ := false, event.Type("")
	switch what {
	case Move:
		left := max(p.Due.Due().Sub(ops.clock.now), 0)
		to := ops.clock.now.Add(time.Duration((n >> 8) % uint64(2*left+time.Hour))) // never negative
		typ = event.TimerScheduled
		_, done, err = timers.New(ops.engine.Store).Move(ctx, p, to, operatorName)
	case Fire:
		_, err = timers.New(ops.engine.Store).FireNow(ctx, p, operatorName)
	case CancelTimer:
		typ = event.TimerCancelled
		done, err = timers.New(ops.engine.Store).Cancel(ctx, p, operatorName)
	default:
		panic(fmt.Sprintf("%v is not a timer action", what))
	}
	if done {
		o.changed = append(o.changed, changed{id, typ, p.TaskID})
	}
	return err
}

// restore sets the missing timers of an execution and adds it to the lists of listeners that lack
// it. It reports whether anything was missing. If still is set, nothing else is happening, so only
// an operator can have removed a timer, and any other cause is a violation.
func (ops *operations) restore(ctx context.Context, id string, still bool) (found bool, err error) {
	x, err := ops.engine.Store.Execution(ctx, ops.tenantOf(id), ops.idOf(id))
	if err != nil || x.Definition == "" || decide.Status(x.Status).Ended() {
		return false, errUnless(err, store.ErrNotFound)
	}
	past, err := ops.stateOf(ctx, id)
	if err != nil || past == nil {
		return false, err
	}
	needs := past.state.Needs(past.env)
	var missing timers.Restoration
	if missing.Timers, err = ops.missingTimers(ctx, needs.Timers); err != nil {
		return false, err
	}
	for _, typ := range needs.Listen {
		if !ops.listensFor(ctx, id, typ) {
			missing.Listen = append(missing.Listen, typ)
		}
	}
	if len(missing.Timers)+len(missing.Listen) == 0 {
		return false, nil
	}
	if still && (len(missing.Listen) > 0 || !slices.ContainsFunc(ops.operators.changed, func(c changed) bool { return c.execution == id && c.typ == event.TimerCancelled })) {
		ops.report(ruleNeeded, id, "%d of its timers and %d of its entries in lists of listeners are gone", len(missing.Timers), len(missing.Listen))
	}
	outcome, err := timers.New(ops.engine.Store).Restore(ctx, x, missing, operatorName)
	if err == nil && outcome == store.Committed {
		for _, t := range missing.Timers {
			ops.operators.changed = append(ops.operators.changed, changed{id, event.TimerScheduled, t.TaskID})
		}
	}
	return true, err
}

// errUnless returns err, or nil if it is the ignored one.
func errUnless(err, ignored error) error {
	if errors.Is(err, ignored) {
		return nil
	}
	return err
}

// migrate migrates an execution to a document with different source and the same meaning.
func (ops *operations) migrate(ctx context.Context, id string) error {
	past, err := ops.stateOf(ctx, id)
	if err != nil || past == nil || past.state.Status.Ended() {
		return err
	}
	tenant := ops.tenantOf(id)
	x, err := ops.engine.Store.Execution(ctx, tenant, ops.idOf(id))
	if err != nil {
		return err
	}
	old := past.env.Definition()
	text := fmt.Sprintf("%s\n# %d\n", old.Source, ops.operators.acts)
	hash, err := registry.New(ops.engine.Store).Define(ctx, tenant, x.Workflow, old.Document.Version, text)
	if err != nil {
		return err
	}
	if _, err := registry.New(ops.engine.Store).Define(ctx, tenant, x.Workflow, old.Document.Version, string(old.Source)); err != nil { // new executions use the original source
		return err
	}
	env, err := ops.engine.Definitions.Hash(ctx, tenant, x.Workflow, hash)
	if err != nil {
		return err
	}
	var d decide.Decision
	e := event.Event{
		ID: fmt.Sprintf("%s/migrate/%d", x.ID, ops.operators.acts), Source: timers.OperatorSource, Type: event.ExecutionMigrated, Time: ops.clock.now,
		Tenant: tenant, Workflow: x.Workflow, Execution: x.ID,
		Data: event.Encode(event.Migrated{Definition: hash, Version: old.Document.Version, From: x.Definition, FromVersion: old.Document.Version, By: operatorName}),
	}
	next, err := past.state.Migrate(env, e, &d)
	if err != nil {
		return err
	}
	if a, b := past.state.Needs(past.env).Listen, next.Needs(env).Listen; !slices.Equal(a, b) {
		ops.report("a migrated execution continues as before", id, "it listened for %v before, and listens for %v now", a, b)
	}
	snapshot, err := next.Snapshot()
	if err != nil {
		return err
	}
	outcome, err := ops.engine.Store.Commit(ctx, store.Commit{
		Tenant: tenant, Execution: x.ID, Version: x.Version, Workflow: x.Workflow, Migrated: hash,
		History: d.History, Publish: []event.Event{e}, Status: string(next.Status), Snapshot: snapshot, Now: ops.clock.now, Started: x.CreatedAt,
	})
	if err == nil && outcome == store.Committed {
		ops.operators.changed = append(ops.operators.changed, changed{execution: id, typ: event.ExecutionMigrated})
	}
	return err
}

// checkActivity checks what services do with messages. In particular no service may claim a
// message from a process that is alive and has received all replies.
func (ops *operations) checkActivity(a delivery.Activity) {
	if a.What == delivery.Began && ops.current != nil {
		ops.current.tenant = a.Message.Tenant
	}
	ops.checkDisowned(a)
	ops.isolated.recordActivity(&ops.shared, a)
	ops.crashOnType(a)
	ops.crashOnPoison(a)
	ops.refuseTimer(a)
	if a.What != delivery.Claimed {
		return
	}
	for _, s := range ops.injected {
		if s.Kind != DropRequest && s.Kind != CallLost {
			return
		}
	}
	for _, p := range ops.processes {
		if p.incarnation > 0 || p.dead {
			return
		}
	}
	ops.report("no message is claimed from a live process", a.Message.Event.Execution, "%s %s went to %s", a.Message.Event.Type, a.Message.Event.ID, a.Consumer)
}
