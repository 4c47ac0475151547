package sim

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/delivery"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/store"
)

// Act is what an operator does to an execution, if the execution exists by then.
type Act struct {
	What      Deal
	Execution string        // the id that the simulation uses
	After     time.Duration // since the start
}

// Deal is a kind of Act.
type Deal string

// The kinds of acts.
const (
	Suspend Deal = "suspend"
	Resume  Deal = "resume"
	Cancel  Deal = "cancel"
	Retry   Deal = "retry"

	Move        Deal = "move a timer" // to any other time
	Fire        Deal = "fire a timer"
	CancelTimer Deal = "cancel a timer"
	Restore     Deal = "restore timers" // those that are missing
	Damage      Deal = "damage"         // corrupt its history, so it can take no event
	Mend        Deal = "mend"           // restore its history, and replay what was dead-lettered meanwhile
	Migrate     Deal = "migrate"        // to another text of its document with the same meaning
)

// Deals returns all kinds.
func Deals() []Deal {
	return []Deal{Suspend, Resume, Cancel, Retry, Move, Fire, CancelTimer, Restore, Damage, Mend, Migrate}
}

// typ returns the event that carries the request to the execution; "" if there is none.
func (d Deal) typ() event.Type {
	return map[Deal]event.Type{
		Suspend: event.ExecutionSuspended, Resume: event.ExecutionResumed,
		Cancel: event.ExecutionCancelled, Retry: event.ExecutionRetried,
	}[d]
}

// operators records what operators have done in a simulation.
type operators struct {
	acts     int                  // number of acts so far
	paused   map[string]time.Time // executions that an operator suspended, and since when
	rested   time.Duration        // how long suspended or damaged executions and dead letters waited, in all
	damaged  map[string]time.Time // executions whose history is damaged, and since when
	changed  []changed            // of timers and documents
	retried  map[string]int       // how often each execution was retried
	reopened map[string]bool      // executions that were retried, and so end a second time
	replayed int                  // dead letters that were replayed
}

func newOperators() operators {
	return operators{paused: map[string]time.Time{}, damaged: map[string]time.Time{}, retried: map[string]int{}, reopened: map[string]bool{}}
}

// planned returns the acts of the configuration as arrivals.
func (w *simulation) planned() (out []arrival) {
	for _, a := range w.cfg.Acts {
		at := w.cfg.Start.Add(a.After)
		out = append(out, arrival{at: at, act: func(ctx context.Context, w *simulation) error { return w.operate(ctx, a.What, a.Execution) }})
	}
	return out
}

// operate does to an execution what an operator does.
func (w *simulation) operate(ctx context.Context, what Deal, id string) error {
	there, err := w.client.Exists(ctx, w.keyOf(id)).Result()
	if err != nil || there == 0 {
		return err
	}
	o := &w.operators
	o.acts++
	switch what { //nolint:exhaustive // the others are events for the execution
	case Move, Fire, CancelTimer:
		return w.changeTimer(ctx, what, id)
	case Restore:
		_, err := w.restore(ctx, id, false)
		return err
	case Migrate:
		return w.migrate(ctx, id)
	case Damage:
		return w.damage(ctx, id)
	case Mend:
		return w.mend(ctx, id)
	}
	switch since, resting := o.paused[id]; {
	case what == Suspend && !resting:
		o.paused[id] = w.clock.now
	case what == Resume && resting:
		o.rested += w.clock.now.Sub(since)
		delete(o.paused, id)
	case what == Resume: // the request to suspend may have come late
		o.rested += w.clock.now.Sub(w.cfg.Start)
	case what == Retry:
		o.reopened[w.idOf(id)] = true
	}
	return w.engine.Store.Publish(ctx, event.Event{
		ID: fmt.Sprintf("%s/act/%d", w.idOf(id), o.acts), Source: decide.Prefix + "cli", Type: what.typ(), Time: w.clock.now,
		Tenant: w.tenantOf(id), Execution: w.idOf(id), Data: event.Encode(event.Ended{Reason: "as planned"}),
	})
}

// mostRetries is how often an operator retries an execution.
const mostRetries = 2

// attend resumes suspended executions and retries failed ones once nothing else happens.
// It reports whether there were any.
func (w *simulation) attend(ctx context.Context) (bool, error) {
	if len(w.cfg.Acts) == 0 && w.cfg.Deadly == 0 {
		return false, nil
	}
	if found, err := w.replay(ctx); found || err != nil {
		return found, err
	}
	found := false
	for _, id := range w.executions() {
		status, err := w.client.HGet(ctx, w.keyOf(id), "status").Result()
		if err != nil {
			continue // the execution was removed
		}
		var what Deal
		switch retries := w.operators.retried[id]; {
		case status == string(decide.Suspended):
			what = Resume
		case status == string(decide.Faulted) && w.cfg.Deadly > 0 && retries < mostRetries && slices.Contains(w.ids, id):
			what = Retry
			w.operators.retried[id]++
			w.holds(ctx, id)
		default:
			if missing, err := w.restore(ctx, id, true); missing || err != nil {
				return true, err
			}
			continue
		}
		found = true
		if err := w.operate(ctx, what, id); err != nil {
			return found, err
		}
	}
	return found, nil
}

// holds checks that a faulted execution has no timers left and is on no list of
// listeners, once everything else is idle.
func (w *simulation) holds(ctx context.Context, id string) {
	const rule = "an execution that has faulted holds nothing"
	own := fmt.Sprintf(`{"tenant_id":%q,"workflow_id":`, w.tenantOf(id))
	for _, timer := range w.memory.Members(timers) {
		if strings.HasPrefix(timer, own) && strings.Contains(timer, fmt.Sprintf(`"execution_id":%q`, w.idOf(id))) {
			w.breach(rule, id, "its timer is left: "+timer)
		}
	}
	prefix := store.Keys{}.Listeners(w.tenantOf(id), "")
	for _, key := range w.memory.Keys(prefix) {
		if w.hears(ctx, id, strings.TrimPrefix(key, prefix)) {
			w.breach(rule, id, "it is on the list "+key)
		}
	}
}

// victims are poison messages: each consumer that begins one dies, until it is
// dead-lettered.
type victims struct {
	begun uint64 // messages that any service has begun to handle
	all   []*victim
	along bool // other messages were dead-lettered as well
}

type victim struct {
	of      handled
	event   event.Event
	since   time.Time // when it was begun first
	crashes int
}

// find returns the poison message that m is; nil if it is none.
func (v *victims) find(m store.Message) *victim {
	of := handled{m.Tenant, m.Group, m.ID}
	if i := slices.IndexFunc(v.all, func(v *victim) bool { return v.of == of }); i >= 0 {
		return v.all[i]
	}
	return nil
}

// about reports whether the event with this id is a poison message.
func (v *victims) about(id string) bool {
	return slices.ContainsFunc(v.all, func(v *victim) bool { return v.event.ID == id })
}

// crashes returns the crash count of all poison messages.
func (v *victims) crashes() (n int) {
	for _, one := range v.all {
		n += one.crashes
	}
	return n
}

// doom crashes the process that begins the poison message of the plan, or in some
// simulations one like it after its execution was retried.
func (w *simulation) doom(a delivery.Activity) {
	if a.What != delivery.Began || w.cfg.Plan == nil {
		return
	}
	v, m := &w.victims, a.Message
	if v.begun++; w.cfg.Deadly == 0 {
		return
	}
	it := v.find(m)
	if it == nil && (v.begun == w.cfg.Deadly || len(v.all) == 1 && w.alike(v.all[0], m)) {
		it = &victim{of: handled{m.Tenant, m.Group, m.ID}, event: m.Event, since: w.clock.now}
		v.all = append(v.all, it)
	}
	if it == nil || delivery.Poison(m) != nil || w.current.process.dead || !w.inEarnest(m) {
		return
	}
	it.crashes++
	w.crash(w.current.process, nil)
}

// alike reports whether a message is of the same kind as a poison message, in an
// execution that was retried because of that one.
func (w *simulation) alike(v *victim, m store.Message) bool {
	return v.event.Type == m.Event.Type && v.of.group == m.Group && v.of.tenant == m.Tenant && v.event.Execution == m.Event.Execution &&
		w.operators.retried[w.label(m.Tenant, m.Event.Execution)] == 1 && Choice(w.cfg.Seed, "killed twice")%2 == 0
}

// ruleDeadly names the rule about poison messages.
const ruleDeadly = "what processes die of is given up, once"

// doomed classifies a dead letter. own: it is a poison message, which is dead-lettered as
// it should be. along: a poison message explains it, because it cancels an execution that
// the poison message would have started, or because another service of the crashing
// process handled it in isolation.
func (w *simulation) doomed(tenant string, l store.DeadLetter) (own, along bool) {
	for _, v := range w.victims.all {
		if v.of.group != l.Service && strings.Contains(l.Reason, "processes died") {
			w.victims.along, along = true, true
		}
		if v.of.tenant == tenant && v.event.Execution == l.Event.Execution {
			own = own || v.event.ID == l.Event.ID
			along = along || v.event.Type == event.ExecutionStarted && l.Event.Type == event.ExecutionCancelled
		}
	}
	return own, along
}

// reported checks the number of dead letters and the crash counts of poison messages. If
// there are several, a process may handle one of them while it dies of another, which
// counts as a crash of both until they are handled in isolation.
func (w *simulation) reported(deadLetters int, broken breaks) {
	const enough = 5
	deadLetters += w.operators.replayed
	for _, v := range w.victims.all {
		fewest := enough
		if len(w.victims.all) > 1 {
			fewest -= suspicious
		}
		if v.crashes < fewest || v.crashes > enough || deadLetters != len(w.victims.all) {
			broken(ruleDeadly, w.label(v.of.tenant, v.event.Execution), "%d have died of %s %s, and there are %d letters of %d such", v.crashes, v.event.Type, v.event.ID, deadLetters, len(w.victims.all))
		}
	}
}

// replay replays the dead letters of poison messages, each once, in some simulations.
func (w *simulation) replay(ctx context.Context) (found bool, err error) {
	if len(w.victims.all) <= w.operators.replayed || Choice(w.cfg.Seed, "replay")%2 == 0 {
		return false, nil
	}
	for _, tenant := range w.tenants {
		deadLetters, _, err := w.engine.Store.DeadLetters(ctx, store.DeadLetterQuery{Tenant: tenant, Count: 10})
		if err != nil {
			return found, err
		}
		for _, l := range deadLetters {
			if own, _ := w.doomed(tenant, l); !own {
				continue
			}
			if again, err := w.engine.Store.Replay(ctx, l); err != nil || !again {
				return found, err
			}
			w.operators.replayed++
			w.operators.rested += w.clock.now.Sub(w.victims.all[0].since) // as long as the dead letter waited
			found = true
		}
	}
	return found, nil
}

// Operated is what happened to the executions of a trial apart from their documents and
// the faults: operator actions and poison messages.
type Operated struct {
	Held    time.Duration  // how long that, and slow calls, can have delayed them
	Retried map[string]int // how often each execution was retried
	Begun   uint64         // messages that any service has begun to handle
	Victim  string         // the execution of the poison message; "" if there is none
	Along   bool           // other messages were dead-lettered with the poison message

	killer  event.Type // the type of the poison message
	crashes int        // how many processes it crashed
}

// operated summarizes what operators and poison messages did.
func (w *simulation) operated() Operated {
	o, v := &w.operators, &w.victims
	out := Operated{Held: o.rested + time.Duration(v.crashes())*Recovery, Retried: o.retried, Begun: v.begun, crashes: v.crashes()}
	if w.cfg.Slow {
		out.Held += time.Duration(len(w.reached)) * slowness
	}
	if len(v.all) > 0 {
		out.Victim, out.killer = w.label(v.all[0].of.tenant, v.all[0].event.Execution), v.all[0].event.Type
	}
	return out
}
