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
	"flunq.io/flunq/engine/store/stream"
)

// Act is what an operator does to an execution, if the execution exists by then.
type Act struct {
	What      ActKind
	Execution string        // the id that the simulation uses
	After     time.Duration // since the start
}

// ActKind is a kind of Act.
type ActKind string

// The kinds of acts.
const (
	Suspend ActKind = "suspend"
	Resume  ActKind = "resume"
	Cancel  ActKind = "cancel"
	Retry   ActKind = "retry"

	Move        ActKind = "move a timer" // to any other time
	Fire        ActKind = "fire a timer"
	CancelTimer ActKind = "cancel a timer"
	Restore     ActKind = "restore timers" // those that are missing
	Damage      ActKind = "damage"         // corrupt its history, so it can take no event
	Mend        ActKind = "mend"           // restore its history, and replay what was dead-lettered meanwhile
	Migrate     ActKind = "migrate"        // to another text of its document with the same meaning
)

// ActKinds returns all kinds.
func ActKinds() []ActKind {
	return []ActKind{Suspend, Resume, Cancel, Retry, Move, Fire, CancelTimer, Restore, Damage, Mend, Migrate}
}

// typ returns the event that carries the request to the execution; "" if there is none.
func (d ActKind) typ() event.Type {
	return map[ActKind]event.Type{
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
func (w *simulation) operate(ctx context.Context, what ActKind, id string) error {
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

// resumeAndRetry resumes suspended executions and retries failed ones once nothing else happens.
// It reports whether there were any.
func (w *simulation) resumeAndRetry(ctx context.Context) (bool, error) {
	if len(w.cfg.Acts) == 0 && w.cfg.Poison == 0 {
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
		var what ActKind
		switch retries := w.operators.retried[id]; {
		case status == string(decide.Suspended):
			what = Resume
		case status == string(decide.Faulted) && w.cfg.Poison > 0 && retries < mostRetries && slices.Contains(w.ids, id):
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
	for _, timer := range w.memory.Members(timersKey) {
		if strings.HasPrefix(timer, own) && strings.Contains(timer, fmt.Sprintf(`"execution_id":%q`, w.idOf(id))) {
			w.report(rule, id, "its timer is left: "+timer)
		}
	}
	prefix := store.Keys{}.Listeners(w.tenantOf(id), "")
	for _, key := range w.memory.Keys(prefix) {
		if w.hears(ctx, id, strings.TrimPrefix(key, prefix)) {
			w.report(rule, id, "it is on the list "+key)
		}
	}
}

// poisonMessages are poison messages: each consumer that begins one dies, until it is
// dead-lettered.
type poisonMessages struct {
	begun            uint64 // messages that any service has begun to handle
	all              []*poisonMessage
	alsoDeadLettered bool // other messages were dead-lettered as well
}

type poisonMessage struct {
	of      handled
	event   event.Event
	since   time.Time // when it was begun first
	crashes int
}

// find returns the poison message that m is; nil if it is none.
func (v *poisonMessages) find(m store.Message) *poisonMessage {
	of := handled{m.Tenant, m.Group, m.ID}
	if i := slices.IndexFunc(v.all, func(v *poisonMessage) bool { return v.of == of }); i >= 0 {
		return v.all[i]
	}
	return nil
}

// about reports whether the event with this id is a poison message.
func (v *poisonMessages) about(id string) bool {
	return slices.ContainsFunc(v.all, func(v *poisonMessage) bool { return v.event.ID == id })
}

// crashes returns the crash count of all poison messages.
func (v *poisonMessages) crashes() (n int) {
	for _, one := range v.all {
		n += one.crashes
	}
	return n
}

// crashOnPoison crashes the process that begins the poison message of the plan, or in some
// simulations one like it after its execution was retried.
func (w *simulation) crashOnPoison(a delivery.Activity) {
	if a.What != delivery.Began || w.cfg.Plan == nil {
		return
	}
	v, m := &w.poison, a.Message
	if v.begun++; w.cfg.Poison == 0 {
		return
	}
	it := v.find(m)
	if it == nil && (v.begun == w.cfg.Poison || len(v.all) == 1 && w.likePoison(v.all[0], m)) {
		it = &poisonMessage{of: handled{m.Tenant, m.Group, m.ID}, event: m.Event, since: w.clock.now}
		v.all = append(v.all, it)
	}
	if it == nil || delivery.Poison(m) != nil || w.current.process.dead || !w.handledNow(m) {
		return
	}
	it.crashes++
	w.crash(w.current.process, nil)
}

// likePoison reports whether a message is of the same kind as a poison message, in an
// execution that was retried because of that one.
func (w *simulation) likePoison(v *poisonMessage, m store.Message) bool {
	return v.event.Type == m.Event.Type && v.of.group == m.Group && v.of.tenant == m.Tenant && v.event.Execution == m.Event.Execution &&
		w.operators.retried[w.label(m.Tenant, m.Event.Execution)] == 1 && Choice(w.cfg.Seed, "killed twice")%2 == 0
}

// rulePoison names the rule about poison messages.
const rulePoison = "a poison message is dead-lettered once"

// explainedByPoison classifies a dead letter. own: it is a poison message, which is dead-lettered as
// it should be. along: a poison message explains it, because it cancels an execution that
// the poison message would have started, or because another service of the crashing
// process handled it in isolation.
func (w *simulation) explainedByPoison(tenant string, l stream.DeadLetter) (own, along bool) {
	for _, v := range w.poison.all {
		if v.of.group != l.Service && strings.Contains(l.Reason, "processes died") {
			w.poison.alsoDeadLettered, along = true, true
		}
		if v.of.tenant == tenant && v.event.Execution == l.Event.Execution {
			own = own || v.event.ID == l.Event.ID
			along = along || v.event.Type == event.ExecutionStarted && l.Event.Type == event.ExecutionCancelled
		}
	}
	return own, along
}

// checkPoison checks the number of dead letters and the crash counts of poison messages. If
// there are several, a process may handle one of them while it dies of another, which
// counts as a crash of both until they are handled in isolation.
func (w *simulation) checkPoison(deadLetters int, broken reportFunc) {
	const enough = 5
	deadLetters += w.operators.replayed
	for _, v := range w.poison.all {
		fewest, most := enough, enough
		if len(w.poison.all) > 1 {
			fewest -= candidateCrashes
		}
		for _, s := range w.struck {
			if s.Kind == Delay || s.Kind == DropReply { // a process that stands still counts as one that has died, and may die later
				most++
			}
		}
		dead := deadLetters == len(w.poison.all) && v.crashes >= fewest
		if most > enough { // a message may be done although a process dies of it, which has not learned that
			dead = deadLetters <= len(w.poison.all)
		}
		if !dead || v.crashes > most {
			broken(rulePoison, w.label(v.of.tenant, v.event.Execution), "%d have died of %s %s, and there are %d dead letters of %d such messages", v.crashes, v.event.Type, v.event.ID, deadLetters, len(w.poison.all))
		}
	}
}

// replay replays the dead letters of poison messages, each once, in some simulations.
func (w *simulation) replay(ctx context.Context) (found bool, err error) {
	if len(w.poison.all) <= w.operators.replayed || Choice(w.cfg.Seed, "replay")%2 == 0 {
		return false, nil
	}
	for _, tenant := range w.tenants {
		deadLetters, _, err := stream.New(w.engine.Store).DeadLetters(ctx, stream.DeadLetterQuery{Tenant: tenant, Range: store.Range{Count: 10}})
		if err != nil {
			return found, err
		}
		for _, l := range deadLetters {
			if own, _ := w.explainedByPoison(tenant, l); !own {
				continue
			}
			if again, err := stream.New(w.engine.Store).Replay(ctx, l); err != nil || !again {
				return found, err
			}
			w.operators.replayed++
			w.operators.rested += w.clock.now.Sub(w.poison.all[0].since) // as long as the dead letter waited
			found = true
		}
	}
	return found, nil
}

// Operated is what happened to the executions of a trial apart from their documents and
// the faults: operator actions and poison messages.
type Operated struct {
	Held             time.Duration  // how long that, and slow calls, can have delayed them
	Retried          map[string]int // how often each execution was retried
	Begun            uint64         // messages that any service has begun to handle
	Poisoned         string         // the execution of the poison message; "" if there is none
	AlsoDeadLettered bool           // other messages were dead-lettered with the poison message

	poisonType event.Type // the type of the poison message
	crashes    int        // how many processes it crashed
}

// operated summarizes what operators and poison messages did.
func (w *simulation) operated() Operated {
	o, v := &w.operators, &w.poison
	out := Operated{Held: o.rested + time.Duration(v.crashes())*Recovery, Retried: o.retried, Begun: v.begun, crashes: v.crashes()}
	if w.cfg.Slow {
		out.Held += time.Duration(len(w.reached)) * slowness
	}
	if len(v.all) > 0 {
		out.Poisoned, out.poisonType = w.label(v.all[0].of.tenant, v.all[0].event.Execution), v.all[0].event.Type
	}
	return out
}
