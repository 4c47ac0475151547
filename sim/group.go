package sim

import (
	"context"
	"math"
	"slices"
	"time"

	"flunq.io/flunq/engine"
	"flunq.io/flunq/engine/event"
)

// consumerGroup holds the services of all processes that read as one consumer group.
type consumerGroup struct {
	group    string
	services []*service
	handles  func(event.Type) bool // nil: the group reads no events
	hash     uint64                // of the group's name
	events   uint64                // written so far
	skipped  int                   // events since a service was last woken
}

// redisName returns the name of the consumer group in Redis.
func (g *consumerGroup) redisName() string { return g.group + "-service" }

// backlog is how many events accumulate before a service reads events that do not concern
// its group. Otherwise an idle engine would read and acknowledge them one by one, which
// would be most of its work.
const backlog = 100

// consumerGroup returns the group of a service and creates it on first use.
func (sched *scheduler) consumerGroup(s engine.Service) *consumerGroup {
	for _, g := range sched.groups {
		if g.group == s.Kind {
			return g
		}
	}
	g := &consumerGroup{group: s.Kind, handles: s.Handles, hash: hashed("early " + s.Kind)}
	sched.groups = append(sched.groups, g)
	return g
}

// wakeFor wakes the services that a published event of this type concerns.
func (sched *scheduler) wakeFor(typ event.Type) {
	for _, g := range sched.groups {
		if g.handles == nil {
			continue
		}
		g.events++
		if g.skipped++; g.handles(typ) && !sched.alreadyWoken(g) || g.skipped >= backlog || sched.wakesEarly(g) {
			sched.notify(g)
		}
	}
}

// alreadyWoken reports whether a service of the group was woken for an earlier event and has
// not looked yet: it will see this event, too. In a search the seed sometimes wakes a
// second service to share the work.
func (sched *scheduler) alreadyWoken(g *consumerGroup) bool {
	const shared = 4
	if !sched.lazy || sched.cfg.Plan != nil && mix(sched.cfg.Seed, g.hash+1, g.events)%shared == 0 {
		return false
	}
	return slices.ContainsFunc(g.services, func(s *service) bool { return s.parked && s.woken })
}

// wakesEarly reports whether the group is woken for an event that does not concern it. With
// faults, this lets its work interleave with that of other groups.
func (sched *scheduler) wakesEarly(g *consumerGroup) bool {
	const once = 8
	return sched.cfg.Plan != nil && !sched.lazy && mix(sched.cfg.Seed, g.hash, g.events)%once == 0
}

// notify wakes one service of the group because something was written: an idle one, or
// else a busy one that may have looked already.
func (sched *scheduler) notify(g *consumerGroup) {
	g.skipped = 0
	var chosen *service
	for _, s := range g.services {
		if s.sleeping || s.calling || s.process.stopping {
			continue
		}
		if s.parked && sched.cfg.Plan == nil {
			sched.wakeService(s)
			return
		}
		if chosen == nil || sched.preferred(s, chosen, g.events) {
			chosen = s
		}
	}
	if chosen != nil {
		sched.wakeService(chosen)
	}
}

// preferred reports whether s is woken in preference to other: idle services first, then
// resting ones, and in a search as the seed decides.
func (sched *scheduler) preferred(s, other *service, count uint64) bool {
	switch {
	case s.free() != other.free():
		return s.free()
	case s.resting() != other.resting():
		return s.resting()
	default:
		return sched.cfg.Plan != nil && mix(sched.cfg.Seed, s.hash, count) < mix(sched.cfg.Seed, other.hash, count)
	}
}

// catchUp wakes the services that still have something to read or to acknowledge, once nothing
// else happens. It reports whether there were any. From then on the simulation is not lazy.
func (sched *scheduler) catchUp() bool {
	lazy, found := sched.lazy, false
	sched.lazy = false
	for _, g := range sched.groups {
		switch {
		case g.skipped == 0:
			continue
		case lazy:
			sched.wakeEach(g)
		default:
			sched.notify(g)
		}
		found = true
	}
	return found
}

// wakeEach wakes one service of the group per consumer name, because deferred messages of
// a consumer are visible to that consumer only.
func (sched *scheduler) wakeEach(g *consumerGroup) {
	g.skipped = 0
	last := ""
	for _, s := range g.services {
		if s.consumer != last {
			sched.wakeService(s)
			last = s.consumer
		}
	}
}

// lazy reports whether services look only for work that exists: without faults, no process
// leaves work behind. In some simulations with several processes the services look anyway.
func (cfg Config) lazy() bool {
	const once = 8
	return cfg.harmless() && cfg.Scripted.CrashURL == "" && cfg.Scripted.CrashType == "" && cfg.Poison == 0 && (cfg.Processes == 1 || Choice(cfg.Seed, "lazy")%once != 0)
}

// endsEarly reports whether a simulation stops as soon as its executions have ended and
// leaves the remaining events unread. Most simulations without faults do.
func (sched *scheduler) endsEarly() bool {
	const every = 8 // one simulation in eight reads all events
	return sched.lazy && Choice(sched.cfg.Seed, "brief")%every != 0
}

// harmless reports whether nothing can go wrong in a simulation of cfg.
func (cfg Config) harmless() bool { return !cfg.Thorough && cfg.Plan.Harmless() }

// allDone reports whether all work that concerns a service is done so that it need not
// look for more before until (zero: no limit). Other unread or unacknowledged events can
// wait. It is false where faults are possible or where services look for abandoned work.
func (sched *scheduler) allDone(s *service) (until time.Time, ok bool) {
	g := s.consumerGroup
	if !sched.lazy || g.handles == nil {
		return until, false
	}
	if g.firesTimers() {
		if until = sched.firstTimer(); !until.IsZero() && !until.After(sched.clock.now) {
			return until, false
		}
	}
	unread, pending := sched.open(g, s.consumer)
	return until, unread+pending == 0
}

// firstTimer returns when the first timer is due, to the microsecond; zero if there is none.
func (sched *scheduler) firstTimer() time.Time {
	const end = 4e18 // far in the future
	at := math.Inf(1)
	for _, key := range sched.timers {
		first := sched.client.ZRangeWithScores(context.Background(), key, 0, 0).Val() //nolint:forbidigo // it does not block
		if len(first) > 0 {
			at = min(at, first[0].Score)
		}
	}
	if math.IsInf(at, 1) {
		return time.Time{}
	}
	return time.UnixMicro(int64(math.Floor(max(-end, min(end, at*1e6))))).UTC()
}

// firesTimers reports whether the group fires timers.
func (g *consumerGroup) firesTimers() bool {
	return g.handles != nil && g.handles(event.TimerScheduled)
}

// open counts the events that concern a group: those that it has not read, and those that a
// consumer, or any if it is "", has read and not acknowledged.
func (sched *scheduler) open(g *consumerGroup, consumer string) (unread, pending int) {
	for _, stream := range sched.streams {
		u, p := sched.redis.Open(stream, g.redisName(), consumer, func(fields []string) bool { return g.handles(typeOf(fields)) })
		unread, pending = unread+u, pending+p
	}
	return unread, pending
}

// wakeSiblings wakes other services of a process before one of them reads events for all, so
// they handle the events concurrently.
func (sched *scheduler) wakeSiblings(by *service) {
	if by.consumerGroup.handles == nil || len(by.consumerGroup.services) <= len(sched.processes) {
		return // one service per process
	}
	unread, _ := sched.open(by.consumerGroup, by.consumer)
	for _, s := range by.consumerGroup.services {
		if unread < 2 { // it keeps one for itself
			return
		}
		if s != by && s.process == by.process && s.parked {
			sched.wakeService(s)
			unread--
		}
	}
}

// typeOf returns the event type of a stream entry.
func typeOf(fields []string) event.Type { return event.Type(Field(fields, "type")) }

// Field returns the value of an entry's field; "" if there is none.
func Field(fields []string, name string) string {
	for i := 0; i+1 < len(fields); i += 2 {
		if fields[i] == name {
			return fields[i+1]
		}
	}
	return ""
}

// wakeOther wakes another idle service of the same group.
func (sched *scheduler) wakeOther(of *service) {
	for _, s := range of.consumerGroup.services {
		if s != of && s.free() && !s.process.stopping {
			sched.wakeService(s)
			return
		}
	}
}

// wakeSubstitute wakes another service when one is busy for long: preferably one of its own
// process, whose buffer holds the events that were read.
func (sched *scheduler) wakeSubstitute(of *service) {
	for _, s := range of.process.services {
		if s != of && s.consumerGroup == of.consumerGroup && s.free() && !s.process.stopping {
			sched.wakeService(s)
			return
		}
	}
	sched.wakeOther(of)
}

// onlyTidies reports whether a service would only look for abandoned work or remove old data.
// The clock does not advance for such services, since that would never end.
func (sched *scheduler) onlyTidies(s *service) bool {
	return s.consumerGroup.group == housekeeping || sched.lazy && s.consumerGroup.group == renewal && !sched.busy(s.process) ||
		s.waits && sched.firstTimer().IsZero() && !sched.hasPending(s.consumerGroup)
}

// hasPending reports whether the group has unacknowledged events.
func (sched *scheduler) hasPending(g *consumerGroup) bool {
	for _, stream := range sched.streams {
		for _, found := range sched.memory.Groups(stream) {
			if found.Name == g.redisName() && found.Pending > 0 {
				return true
			}
		}
	}
	return false
}

// renewal is the kind of the services that renew leases.
const renewal = "renewal"
