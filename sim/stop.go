package sim

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"
)

// grace is how long a stopping process may finish what it has begun, as in the engine.
const grace = 5 * time.Second

// replaceable reports whether another process can take over the work of p.
func (w *simulation) replaceable(p *process) bool {
	return slices.ContainsFunc(w.processes, func(other *process) bool { return other != p && !other.dead && !other.leaving })
}

// requestStop asks a process to stop; another one replaces it after away.
func (w *simulation) requestStop(p *process, away time.Duration) {
	if p.leaving {
		return
	}
	p.leaving, p.grace, w.deadServices = true, w.clock.now.Add(grace), true
	p.again = later(p.again, w.clock.now.Add(away))
	p.engine.Close()
}

// finishStops ends the stopping processes that have finished what they had begun. They hand
// back the rest.
func (w *simulation) finishStops() {
	for _, p := range w.processes {
		if !p.leaving || p.dead || w.clock.now.Before(p.frozen) {
			continue
		}
		w.deadServices = true
		if slices.ContainsFunc(p.services, func(s *service) bool {
			calls := s.asleep || s.calling
			return !s.rests() && (!calls || w.clock.now.Before(p.grace))
		}) {
			continue
		}
		w.aside(func(ctx context.Context) error {
			if err := p.engine.Release(ctx); err != nil {
				return err
			}
			return w.handedOver(ctx, p)
		})
		p.dead = true
		w.wakeForUnread()
		w.wakeReaders()
	}
}

// wakeReaders wakes the services that wait for messages, to take over what was handed back; in
// production they look once a second. The timer service's lease is passed on by its
// holder.
func (w *simulation) wakeReaders() {
	for _, s := range w.services {
		if s.consumerGroup.concerns != nil && !s.consumerGroup.fires() {
			w.wakeService(s)
		}
	}
}

// wakeForUnread wakes the groups that have unread events. The services that were woken for those
// events may be gone.
func (w *simulation) wakeForUnread() {
	for _, t := range w.groups {
		if t.concerns == nil || len(t.services) == 0 {
			continue
		}
		if unread, _ := w.open(t.services[0]); unread > 0 { // the same for all services of the group
			w.notify(t)
		}
	}
}

// handedOver checks that a process that was asked to stop has handed back its messages. A
// lost reply excuses it: it did not know of all messages that it was given.
func (w *simulation) handedOver(ctx context.Context, p *process) error {
	if slices.ContainsFunc(w.struck, func(s Struck) bool { return s.Kind == DropReply }) {
		return nil
	}
	for _, t := range w.groups {
		if t.concerns == nil {
			continue
		}
		for _, stream := range w.streams {
			if err := w.handedOverOf(ctx, p, t, stream); err != nil {
				return err
			}
		}
	}
	return nil
}

// handedOverOf checks one group on one stream.
func (w *simulation) handedOverOf(ctx context.Context, p *process, t *consumerGroup, stream string) error {
	args := &redis.XPendingExtArgs{Stream: stream, Group: t.reads(), Start: "-", End: "+", Count: 1000}
	pending, err := w.client.XPendingExt(ctx, args).Result()
	for _, entry := range pending {
		if consumerOf(entry.Consumer) == p.name() && entry.Idle < handedBack {
			w.report("a process that is asked to stop hands back its messages", "", fmt.Sprintf("entry %s of the %s is kept by %s", entry.ID, t.reads(), entry.Consumer))
		}
	}
	return err
}
