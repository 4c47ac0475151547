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

// Act is what an operator does to an execution, if there is such a one by then.
type Act struct {
	What      Deal
	Execution string        // as the world calls it
	After     time.Duration // since the start
}

// Deal is a kind of Act.
type Deal string

// What operators do.
const (
	Suspend Deal = "suspend"
	Resume  Deal = "resume"
	Cancel  Deal = "cancel"
	Retry   Deal = "retry"

	Move        Deal = "move a timer" // to any other time
	Fire        Deal = "fire a timer"
	CancelTimer Deal = "cancel a timer"
	Restore     Deal = "restore timers" // those that are missing
	Damage      Deal = "damage"         // its history: it can take no event
	Mend        Deal = "mend"           // it, and bring back what was given up meanwhile
	Migrate     Deal = "migrate"        // to another text of its document, which says the same
)

// Deals are all kinds.
func Deals() []Deal {
	return []Deal{Suspend, Resume, Cancel, Retry, Move, Fire, CancelTimer, Restore, Damage, Mend, Migrate}
}

// typ is the event that tells an execution of it; "" if there is no such deal.
func (d Deal) typ() event.Type {
	return map[Deal]event.Type{
		Suspend: event.ExecutionSuspended, Resume: event.ExecutionResumed,
		Cancel: event.ExecutionCancelled, Retry: event.ExecutionRetried,
	}[d]
}

// operators are what those do who look after the executions of a world: what was
// planned, and what is due once nothing else happens any more.
type operators struct {
	acts     int                  // so far
	paused   map[string]time.Time // executions that were told to rest, and since when
	rested   time.Duration        // how long all of them did in all, and letters
	damaged  map[string]time.Time // executions whose histories are, and since when
	changed  []changed            // of timers, and documents
	retried  map[string]int       // executions that were told to go on where they failed: how often
	reopened map[string]bool      // executions that were told so, which end again
	replayed int                  // letters that were brought back
}

func newOperators() operators {
	return operators{paused: map[string]time.Time{}, damaged: map[string]time.Time{}, retried: map[string]int{}, reopened: map[string]bool{}}
}

// planned are the acts of a world as what comes from outside.
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
	switch what { //nolint:exhaustive // the others are told to the execution
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
	case what == Resume: // the word that it is to rest may have come late
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

// attend lets the executions go on that were told to rest, and those that failed, once
// nothing else happens. It reports whether there was any.
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
			continue // it was removed
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

// holds looks for what an execution that has faulted still holds, when all others have
// come to rest.
func (w *simulation) holds(ctx context.Context, id string) {
	const rule = "an execution that has faulted holds nothing"
	own := fmt.Sprintf(`{"tenant_id":%q,"workflow_id":`, w.tenantOf(id))
	for _, timer := range w.memory.Members(timers) {
		if strings.HasPrefix(timer, own) && strings.Contains(timer, fmt.Sprintf(`"execution_id":%q`, w.idOf(id))) {
			w.breach(rule, id, "its timer is left: "+timer)
		}
	}
	prefix := "tenant:" + w.tenantOf(id) + ":listen:"
	for _, key := range w.memory.Keys(prefix) {
		if w.hears(ctx, id, strings.TrimPrefix(key, prefix)) {
			w.breach(rule, id, "it is on the list "+key)
		}
	}
}

// victims are messages of which whoever begins with them dies, until they are given up.
type victims struct {
	begun uint64 // messages that somebody has begun with
	all   []*victim
	along bool // others were given up as well
}

type victim struct {
	of      handled
	event   event.Event
	since   time.Time // it was begun with
	crashes int
}

// find is the victim that a message is; nil if it is none.
func (v *victims) find(m store.Message) *victim {
	of := handled{m.Tenant, m.Group, m.ID}
	if i := slices.IndexFunc(v.all, func(v *victim) bool { return v.of == of }); i >= 0 {
		return v.all[i]
	}
	return nil
}

// about reports whether there is a victim that is an event of an id.
func (v *victims) about(id string) bool {
	return slices.ContainsFunc(v.all, func(v *victim) bool { return v.event.ID == id })
}

// crashes are those of all.
func (v *victims) crashes() (n int) {
	for _, one := range v.all {
		n += one.crashes
	}
	return n
}

// doom has whoever begins with the message die that was begun with as the plan has it,
// and in some worlds with its like once its execution was retried.
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

// alike reports whether a message is what a victim was, in an execution that was retried
// for its sake.
func (w *simulation) alike(v *victim, m store.Message) bool {
	return v.event.Type == m.Event.Type && v.of.group == m.Group && v.of.tenant == m.Tenant && v.event.Execution == m.Event.Execution &&
		w.operators.retried[w.label(m.Tenant, m.Event.Execution)] == 1 && Choice(w.cfg.Seed, "killed twice")%2 == 0
}

// ruleDeadly is that of what processes die of.
const ruleDeadly = "what processes die of is given up, once"

// doomed reports whether a letter is about a message that processes die of, which is
// given up in good order, or of what such a one takes along: the word that what it would
// have begun is to end, and what another service of the process does alone meanwhile.
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

// reported holds the letters of messages that processes die of against their deaths. Where there are several such messages, one may be in hand in
// a process that dies of another: until it is a suspect, and alone, that counts as well.
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

// replay brings the letters back of what processes died of, each once, in some worlds.
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
			w.operators.rested += w.clock.now.Sub(w.victims.all[0].since) // as the letter did
			found = true
		}
	}
	return found, nil
}

// Operated is what befell the executions of a trial that is neither in a document nor a
// fault: what operators did, and the message that processes died of.
type Operated struct {
	Held    time.Duration  // how long all that, and slow calls, can have held them up
	Retried map[string]int // executions that were told to go on where they failed: how often
	Begun   uint64         // messages that somebody has begun with
	Victim  string         // the execution that the message is about that processes died of; "" if there is none
	Along   bool           // other messages were given up with that one

	killer  event.Type // of that message
	crashes int        // likewise
}

// operated is what operators did in a world, and what was done to it.
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
