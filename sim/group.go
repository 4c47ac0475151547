package sim

import (
	"context"
	"math"
	"slices"
	"time"

	"flunq.io/flunq/engine"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/store"
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
func (t *consumerGroup) redisName() string { return t.group + "-service" }

// backlog is how many events accumulate before a service reads events that do not concern
// its group. Otherwise an idle engine would read and acknowledge them one by one, which
// would be most of its work.
const backlog = 100

// consumerGroup returns the group of a service and creates it on first use.
func (w *scheduler) consumerGroup(s engine.Service) *consumerGroup {
	for _, t := range w.groups {
		if t.group == s.Group {
			return t
		}
	}
	t := &consumerGroup{group: s.Group, handles: s.Handles, hash: hashed("early " + s.Group)}
	w.groups = append(w.groups, t)
	return t
}

// timersKey is the key of the sorted set of all tenants' timers.
var timersKey = store.Keys{}.Timers("") //nolint:gochecknoglobals // a constant

// added is called for each new stream entry or sorted-set member in Redis, and wakes the
// services that it concerns.
func (w *simulation) added(key string, fields []string) {
	switch {
	case w.isStream(key):
		w.last = key
		w.published(typeOf(fields))
		w.fired(fields)
	case key == timersKey:
		for _, t := range w.groups {
			// The service that sets a timer knows about it. Other services learn of it
			// from an event, which services of a lazy simulation do not read.
			if self := w.current != nil && w.current.consumerGroup == t; w.lazy && t.firesTimers() && !self {
				w.notify(t)
			}
		}
	default:
		if w.cfg.Plan != nil {
			w.written(key, fields)
		}
	}
}

// published wakes the services that an event of this type concerns.
func (w *scheduler) published(typ event.Type) {
	for _, t := range w.groups {
		if t.handles == nil {
			continue
		}
		t.events++
		if t.skipped++; t.handles(typ) && !w.alreadyWoken(t) || t.skipped >= backlog || w.wakesEarly(t) {
			w.notify(t)
		}
	}
}

// alreadyWoken reports whether a service of the group was woken for an earlier event and has
// not looked yet: it will see this event, too. In a search the seed sometimes wakes a
// second service to share the work.
func (w *scheduler) alreadyWoken(t *consumerGroup) bool {
	const shared = 4
	if !w.lazy || w.cfg.Plan != nil && mix(w.cfg.Seed, t.hash+1, t.events)%shared == 0 {
		return false
	}
	return slices.ContainsFunc(t.services, func(s *service) bool { return s.parked && s.woken })
}

// wakesEarly reports whether the group is woken for an event that does not concern it. With
// faults, this lets its work interleave with that of other groups.
func (w *scheduler) wakesEarly(t *consumerGroup) bool {
	const once = 8
	return w.cfg.Plan != nil && !w.lazy && mix(w.cfg.Seed, t.hash, t.events)%once == 0
}

// notify wakes one service of the group because something was written: an idle one, or
// else a busy one that may have looked already.
func (w *scheduler) notify(t *consumerGroup) {
	t.skipped = 0
	var chosen *service
	for _, s := range t.services {
		if s.sleeping || s.calling || s.process.stopping {
			continue
		}
		if s.parked && w.cfg.Plan == nil {
			w.wakeService(s)
			return
		}
		if chosen == nil || w.preferred(s, chosen, t.events) {
			chosen = s
		}
	}
	if chosen != nil {
		w.wakeService(chosen)
	}
}

// preferred reports whether s is woken in preference to other: idle services first, then
// resting ones, and in a search as the seed decides.
func (w *scheduler) preferred(s, other *service, count uint64) bool {
	switch {
	case s.free() != other.free():
		return s.free()
	case s.resting() != other.resting():
		return s.resting()
	default:
		return w.cfg.Plan != nil && mix(w.cfg.Seed, s.hash, count) < mix(w.cfg.Seed, other.hash, count)
	}
}

// catchUp wakes the services that still have something to read or to acknowledge, once nothing
// else happens. It reports whether there were any.
func (w *scheduler) catchUp() bool {
	lazy, found := w.lazy, false
	w.lazy = false
	for _, t := range w.groups {
		switch {
		case t.skipped == 0:
			continue
		case lazy:
			w.wakeEach(t)
		default:
			w.notify(t)
		}
		found = true
	}
	return found
}

// wakeEach wakes one service of the group per consumer name, because deferred messages of
// a consumer are visible to that consumer only.
func (w *scheduler) wakeEach(t *consumerGroup) {
	t.skipped = 0
	last := ""
	for _, s := range t.services {
		if s.consumer != last {
			w.wakeService(s)
			last = s.consumer
		}
	}
}

// lazy reports whether services look only for work that exists: without faults, no process
// leaves work behind. In some simulations with several processes the services look anyway.
func (cfg Config) lazy() bool {
	const once = 8
	return cfg.harmless() && cfg.Scripted.CrashURL == "" && cfg.Scripted.CrashType == "" && cfg.Poison == 0 && (cfg.Processes == 1 || mix(cfg.Seed, hashed("lazy"), 0)%once != 0)
}

// endsEarly reports whether a simulation stops as soon as its executions have ended and
// leaves the remaining events unread. Most simulations without faults do.
func (w *scheduler) endsEarly() bool {
	const every = 8 // one simulation in eight reads all events
	return w.lazy && mix(w.cfg.Seed, hashed("brief"), 0)%every != 0
}

// harmless reports whether nothing can go wrong in a simulation of cfg.
func (cfg Config) harmless() bool { return !cfg.Thorough && cfg.Plan.Harmless() }

// allDone reports whether all work that concerns a service is done, so that it need not
// look for more before until (zero: no limit). Other unread or unacknowledged events can
// wait. It is false where faults are possible or where services look for abandoned work.
func (w *scheduler) allDone(s *service) (until time.Time, ok bool) {
	t := s.consumerGroup
	if !w.lazy || t.handles == nil {
		return until, false
	}
	if t.firesTimers() {
		if until = w.firstTimer(); !until.IsZero() && !until.After(w.clock.now) {
			return until, false
		}
	}
	unread, pending := w.open(s)
	return until, unread+pending == 0
}

// firstTimer returns when the first timer is due, to the microsecond; zero if there is none.
func (w *scheduler) firstTimer() time.Time {
	first := w.client.ZRangeWithScores(context.Background(), timersKey, 0, 0).Val() //nolint:forbidigo // it does not block
	if len(first) == 0 {
		return time.Time{}
	}
	const end = 4e18 // far in the future
	return time.UnixMicro(int64(math.Floor(max(-end, min(end, first[0].Score*1e6))))).UTC()
}

// firesTimers reports whether the group fires timers.
func (t *consumerGroup) firesTimers() bool {
	return t.handles != nil && t.handles(event.TimerScheduled)
}

// open counts the events that concern a service: those that its group has not read, and
// those that its consumer has read and not acknowledged.
func (w *scheduler) open(s *service) (unread, pending int) {
	t := s.consumerGroup
	for _, stream := range w.streams {
		u, p := w.redis.Open(stream, t.redisName(), s.consumer, func(fields []string) bool { return t.handles(typeOf(fields)) })
		unread, pending = unread+u, pending+p
	}
	return unread, pending
}

// wakeSiblings wakes other services of a process before one of them reads events for all, so
// they handle the events concurrently.
func (w *scheduler) wakeSiblings(by *service) {
	if by.consumerGroup.handles == nil || len(by.consumerGroup.services) <= len(w.processes) {
		return // one service per process
	}
	unread, _ := w.open(by)
	for _, s := range by.consumerGroup.services {
		if unread < 2 { //nolint:mnd // it keeps one for itself
			return
		}
		if s != by && s.process == by.process && s.parked {
			w.wakeService(s)
			unread--
		}
	}
}

// typeOf returns the event type of a stream entry.
func typeOf(fields []string) event.Type { return event.Type(field(fields, "type")) }

// field returns the value of an entry's field; "" if there is none.
func field(fields []string, name string) string {
	for i := 0; i+1 < len(fields); i += 2 {
		if fields[i] == name {
			return fields[i+1]
		}
	}
	return ""
}

// wakeOther wakes another idle service of the same group.
func (w *scheduler) wakeOther(of *service) {
	for _, s := range of.consumerGroup.services {
		if s != of && s.free() && !s.process.stopping {
			w.wakeService(s)
			return
		}
	}
}

// wakeSubstitute wakes another service when one is busy for long: preferably one of its own
// process, whose buffer holds the events that were read.
func (w *scheduler) wakeSubstitute(of *service) {
	for _, s := range of.process.services {
		if s != of && s.consumerGroup == of.consumerGroup && s.free() && !s.process.stopping {
			w.wakeService(s)
			return
		}
	}
	w.wakeOther(of)
}

// onlyTidies reports whether a service would only look for abandoned work or remove old data.
// The clock does not advance for such services, since that would never end.
func (w *scheduler) onlyTidies(s *service) bool {
	return s.consumerGroup.group == housekeeping || w.lazy && s.consumerGroup.group == renewal && !w.busy(s.process) ||
		s.waits && w.firstTimer().IsZero() && !w.hasPending(s.consumerGroup)
}

// hasPending reports whether the group has unacknowledged events.
func (w *scheduler) hasPending(t *consumerGroup) bool {
	for _, stream := range w.streams {
		for _, g := range w.memory.Groups(stream) {
			if g.Name == t.redisName() && g.Pending > 0 {
				return true
			}
		}
	}
	return false
}

// renewal is the group of the services that renew leases.
const renewal = "renewal"

// renewals returns the services that renew leases.
func (w *scheduler) renewals() []*service {
	for _, t := range w.groups {
		if t.group == renewal {
			return t.services
		}
	}
	return nil
}
