package sim

import (
	"slices"
	"time"

	"flunq.io/flunq/engine"
	"flunq.io/flunq/engine/event"
)

// consumerGroup is the services of all processes that read as one consumer group.
type consumerGroup struct {
	group    string
	services []*service
	concerns func(event.Type) bool // nil: they read no events
	hash     uint64                // of its name
	events   uint64                // that were written so far
	behind   int                   // events that nobody was woken for
}

// reads is the name of the consumer group, as it stands in Redis.
func (t *consumerGroup) reads() string { return t.group + "-service" }

// backlog is how many events gather before somebody reads them whom none of them
// concerns: an idle engine would read them one by one, and acknowledge them, which
// is most of what it does.
const backlog = 100

// consumerGroup is that of a service; the first one founds it.
func (w *simulation) consumerGroup(s engine.Service) *consumerGroup {
	for _, t := range w.groups {
		if t.group == s.Group {
			return t
		}
	}
	t := &consumerGroup{group: s.Group, concerns: s.Concerns, hash: hashed("early " + s.Group)}
	w.groups = append(w.groups, t)
	return t
}

// timers is the key of the timers of all tenants.
const timers = "flunq:timers:all"

// added learns from Redis of an entry of a stream, or a member of a sorted set, and
// wakes those whom it concerns.
func (w *simulation) added(key string, fields []string) {
	switch {
	case w.isStream(key):
		w.youngest = key
		w.published(typeOf(fields))
		w.fired(fields)
	case key == timers:
		for _, t := range w.groups {
			// Whoever has done it itself knows. Others are told by an event, which only
			// those do not read who look for no more than there is.
			if self := w.current != nil && w.current.consumerGroup == t; w.lazy && t.fires() && !self {
				w.notify(t)
			}
		}
	default:
		if w.cfg.Plan != nil {
			w.written(key, fields)
		}
	}
}

// published wakes those whom an event of a type concerns.
func (w *simulation) published(typ event.Type) {
	for _, t := range w.groups {
		if t.concerns == nil {
			continue
		}
		t.events++
		if t.behind++; t.concerns(typ) && !w.described(t) || t.behind >= backlog || w.early(t) {
			w.notify(t)
		}
	}
}

// described reports whether one of a team has been woken for what was written before, and
// has not looked yet: it sees the rest, too. Where several could share it, it is the
// seed's affair whether they do.
func (w *simulation) described(t *consumerGroup) bool {
	const shared = 4
	if !w.lazy || w.cfg.Plan != nil && mix(w.cfg.Seed, t.hash+1, t.events)%shared == 0 {
		return false
	}
	return slices.ContainsFunc(t.services, func(s *service) bool { return s.parked && s.called })
}

// early reports whether a team is woken for an event that does not concern it:
// where things go wrong, what it does then is in the way of others.
func (w *simulation) early(t *consumerGroup) bool {
	const once = 8
	return w.cfg.Plan != nil && !w.lazy && mix(w.cfg.Seed, t.hash, t.events)%once == 0
}

// notify wakes one of a team, since something was written: one that is idle, or
// else one that is at work and may have looked already.
func (w *simulation) notify(t *consumerGroup) {
	t.behind = 0
	var chosen *service
	for _, s := range t.services {
		if s.asleep || s.calling || s.process.leaving {
			continue
		}
		if s.parked && w.cfg.Plan == nil {
			w.call(s)
			return
		}
		if chosen == nil || w.rather(s, chosen, t.events) {
			chosen = s
		}
	}
	if chosen != nil {
		w.call(chosen)
	}
}

// rather reports whether one service is woken rather than another one: who has
// nothing to do and was not called either, and in a search whomever the seed says.
func (w *simulation) rather(s, other *service, count uint64) bool {
	switch {
	case s.free() != other.free():
		return s.free()
	case s.rests() != other.rests():
		return s.rests()
	default:
		return w.cfg.Plan != nil && mix(w.cfg.Seed, s.hash, count) < mix(w.cfg.Seed, other.hash, count)
	}
}

// catchUp wakes those who have something to read, or to acknowledge, when nothing else
// happens any more. It reports whether there was anybody.
func (w *simulation) catchUp() bool {
	lazy, found := w.lazy, false
	w.lazy = false
	for _, t := range w.groups {
		switch {
		case t.behind == 0:
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

// wakeEach wakes one of a team for each name under which they read: what was put off
// under a name nobody else can do.
func (w *simulation) wakeEach(t *consumerGroup) {
	t.behind = 0
	last := ""
	for _, s := range t.services {
		if s.consumer != last {
			w.call(s)
			last = s.consumer
		}
	}
}

// lazy reports whether services of a world look for no more than there is: nothing
// goes wrong in it, so that nobody leaves anything lying. Some look all the same
// where there are others whose work it could be.
func (cfg Config) lazy() bool {
	const once = 8
	return cfg.harmless() && cfg.lethal == "" && cfg.fatal == "" && cfg.Deadly == 0 && (cfg.Processes == 1 || mix(cfg.Seed, hashed("lazy"), 0)%once != 0)
}

// brief reports whether a world ends with its executions, and leaves what concerns
// nobody any more unread: most of those in which nothing goes wrong do.
func (w *simulation) brief() bool {
	const whole = 8 // one in so many is not
	return w.lazy && mix(w.cfg.Seed, hashed("brief"), 0)%whole != 0
}

// harmless reports whether a world may be one in which nothing can go wrong.
func (cfg Config) harmless() bool { return !cfg.Thorough && cfg.Plan.harmless() }

// through reports whether a service, or others in its place, have done all that
// concerns it, so that it need not look for more before a moment, zero if there is
// none: what else it might read, or has not acknowledged, can wait. Where something
// can go wrong, or others look for what is left lying, it cannot.
func (w *simulation) through(s *service) (until time.Time, ok bool) {
	t := s.consumerGroup
	if !w.lazy || t.concerns == nil {
		return until, false
	}
	if t.fires() {
		if until = w.memory.First(timers); !until.IsZero() && !until.After(w.clock.now) {
			return until, false
		}
	}
	unread, pending := w.open(s)
	return until, unread+pending == 0
}

// fires reports whether the team's timers are its own affair.
func (t *consumerGroup) fires() bool { return t.concerns != nil && t.concerns(event.TimerScheduled) }

// open counts the events that concern a service: those that its team has not been
// given, and those that its process has been, and has not acknowledged.
func (w *simulation) open(s *service) (unread, pending int) {
	t := s.consumerGroup
	for _, stream := range w.streams {
		u, p := w.memory.Open(stream, t.reads(), s.consumer, func(fields []string) bool { return t.concerns(typeOf(fields)) })
		unread, pending = unread+u, pending+p
	}
	return unread, pending
}

// share wakes others of a process for what one of them is about to read for all,
// so that it is done side by side.
func (w *simulation) share(by *service) {
	if by.consumerGroup.concerns == nil || len(by.consumerGroup.services) <= len(w.processes) {
		return // each is alone in its process
	}
	unread, _ := w.open(by)
	for _, s := range by.consumerGroup.services {
		if unread < 2 { //nolint:mnd // one is its own
			return
		}
		if s != by && s.process == by.process && s.parked {
			w.call(s)
			unread--
		}
	}
}

// typeOf is the type of an entry that is an event.
func typeOf(fields []string) event.Type { return event.Type(field(fields, "type")) }

// field is that of an entry's fields that has a name; "" if there is none.
func field(fields []string, name string) string {
	for i := 0; i+1 < len(fields); i += 2 {
		if fields[i] == name {
			return fields[i+1]
		}
	}
	return ""
}

// rouse wakes another service of the same team.
func (w *simulation) rouse(of *service) {
	for _, s := range of.consumerGroup.services {
		if s != of && s.free() && !s.process.leaving {
			w.call(s)
			return
		}
	}
}

// relieve wakes another service for one that is in the middle of a step for long: one
// of its process, where what was read waits, or else any.
func (w *simulation) relieve(of *service) {
	for _, s := range of.process.services {
		if s != of && s.consumerGroup == of.consumerGroup && s.free() && !s.process.leaving {
			w.call(s)
			return
		}
	}
	w.rouse(of)
}

// vain reports whether a service would only look after what is left lying on
// purpose, or remove what is old: time that passes for its sake would pass for ever.
func (w *simulation) vain(s *service) bool {
	return s.consumerGroup.group == housekeeping || w.lazy && s.consumerGroup.group == renewal && !w.busy(s.process) ||
		s.waits && w.memory.First(timers).IsZero() && !w.pends(s.consumerGroup)
}

// pends reports whether somebody was given an event that is not acknowledged yet.
func (w *simulation) pends(t *consumerGroup) bool {
	for _, stream := range w.streams {
		for _, g := range w.memory.Groups(stream) {
			if g.Name == t.reads() && g.Pending > 0 {
				return true
			}
		}
	}
	return false
}

// renewal is the group of those who look after what is under way.
const renewal = "renewal"

// renewals are the services that look after what is under way.
func (w *simulation) renewals() []*service {
	for _, t := range w.groups {
		if t.group == renewal {
			return t.services
		}
	}
	return nil
}
