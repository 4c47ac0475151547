package sim

import (
	"context"
	"slices"
	"strings"
	"time"

	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/delivery"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/stream"
)

// poisonMessages holds the poison messages: each process that handles one crashes, until it is
// dead-lettered.
type poisonMessages struct {
	begun            uint64 // messages that any service has begun to handle
	all              []*poisonMessage
	alsoDeadLettered bool // other messages were dead-lettered as well
}

type poisonMessage struct {
	of      handled
	event   event.Event
	since   time.Time // when a service first began to handle it
	crashes int
}

// find returns m as a poison message; nil if it is not one.
func (p *poisonMessages) find(m store.Message) *poisonMessage {
	of := handled{m.Tenant, m.Group, m.ID}
	if i := slices.IndexFunc(p.all, func(v *poisonMessage) bool { return v.of == of }); i >= 0 {
		return p.all[i]
	}
	return nil
}

// includes reports whether the event with this id is a poison message.
func (p *poisonMessages) includes(id string) bool {
	return slices.ContainsFunc(p.all, func(v *poisonMessage) bool { return v.event.ID == id })
}

// crashes returns the crash count of all poison messages.
func (p *poisonMessages) crashes() (n int) {
	for _, one := range p.all {
		n += one.crashes
	}
	return n
}

// crashOnPoison crashes the process that handles the poison message of the configuration. In some
// simulations it also crashes on a similar message after its execution was retried.
func (ops *operations) crashOnPoison(a delivery.Activity) {
	if a.What != delivery.Began || ops.cfg.Plan == nil {
		return
	}
	v, m := &ops.poison, a.Message
	if v.begun++; ops.cfg.Poison == 0 {
		return
	}
	it := v.find(m)
	if it == nil && (v.begun == ops.cfg.Poison || len(v.all) == 1 && ops.likePoison(v.all[0], m)) {
		it = &poisonMessage{of: handled{m.Tenant, m.Group, m.ID}, event: m.Event, since: ops.clock.now}
		v.all = append(v.all, it)
	}
	if it == nil || delivery.Poison(m) != nil || ops.current.process.dead || !ops.handledNow(m) {
		return
	}
	it.crashes++
	ops.crash(ops.current.process, nil)
}

// likePoison reports whether a message is of the same kind as a poison message and belongs to the
// execution that was retried because of it.
func (ops *operations) likePoison(v *poisonMessage, m store.Message) bool {
	return v.event.Type == m.Event.Type && v.of.group == m.Group && v.of.tenant == m.Tenant && v.event.Execution == m.Event.Execution &&
		ops.operators.retried[ops.label(m.Tenant, m.Event.Execution)] == 1 && Choice(ops.cfg.Seed, "killed twice")%2 == 0
}

// explainedByPoison classifies a dead letter. own: it is a poison message itself. along: a poison
// message explains it, because it cancels an execution that the poison message would have started, is
// an input for an execution whose start was delayed, or was handled in isolation by another service of
// the crashing process.
func (sh *shared) explainedByPoison(tenant string, l stream.DeadLetter) (own, along bool) {
	for _, v := range sh.poison.all {
		if v.of.group != l.Service && strings.Contains(l.Reason, "processes died") {
			sh.poison.alsoDeadLettered, along = true, true
		}
		_, input := decide.InputOf(l.Event)
		along = along || v.event.Type == event.ExecutionStarted && input
		if v.of.tenant == tenant && v.event.Execution == l.Event.Execution {
			own = own || v.event.ID == l.Event.ID
			along = along || v.event.Type == event.ExecutionStarted && l.Event.Type == event.ExecutionCancelled
		}
	}
	return own, along
}

// crashOnType crashes a process that handles an event of the type Scripted.CrashType.
func (ops *operations) crashOnType(a delivery.Activity) {
	m := a.Message
	if ops.cfg.Scripted.CrashType != "" && a.What == delivery.Began && m.Event.Type == ops.cfg.Scripted.CrashType && delivery.Poison(m) == nil && ops.handledNow(m) {
		ops.crash(ops.current.process, nil)
	}
}

// handledNow reports whether a message that a service began is handled now. A poison candidate
// is begun twice, the second time in isolation.
func (ops *operations) handledNow(m store.Message) bool {
	now := !delivery.PoisonCandidate(m)
	ops.asSimulation(func(ctx context.Context) (err error) {
		if !now {
			now, err = ops.client.HExists(ctx, ops.keys.Crashes(m.Tenant), "alone "+m.Group+" "+m.ID).Result()
		}
		return err
	})
	return now
}

// replay replays the dead letters of poison messages, each once, in some simulations.
func (ops *operations) replay(ctx context.Context) (found bool, err error) {
	if len(ops.poison.all) <= ops.operators.replayed || Choice(ops.cfg.Seed, "replay")%2 == 0 {
		return false, nil
	}
	for _, tenant := range ops.tenants {
		deadLetters, err := ops.deadLetters(ctx, tenant)
		if err != nil {
			return found, err
		}
		for _, l := range deadLetters {
			if own, _ := ops.explainedByPoison(tenant, l); !own {
				continue
			}
			if replayed, err := stream.New(ops.engine.Store).Replay(ctx, l); err != nil || !replayed {
				return found, err
			}
			ops.operators.replayed++
			ops.operators.pausedTime += ops.clock.now.Sub(ops.poison.all[0].since) // as long as the dead letter waited
			found = true
		}
	}
	return found, nil
}
