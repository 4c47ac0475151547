package sim

import (
	"flunq.io/flunq/engine"
	"flunq.io/flunq/engine/event"
)

// team is the services of all processes that read as one consumer group.
type team struct {
	group    string
	concerns func(event.Type) bool // nil: they read no events
	hash     uint64                // of its name
	events   uint64                // that were written so far
	behind   int                   // events that nobody was woken for
}

// backlog is how many events gather before somebody reads them whom none of them
// concerns: an idle engine would read them one by one, and acknowledge them, which
// is most of what it does.
const backlog = 100

// team is that of a service; the first one founds it.
func (w *world) team(s engine.Service) *team {
	for _, t := range w.teams {
		if t.group == s.Group {
			return t
		}
	}
	t := &team{group: s.Group, concerns: s.Concerns, hash: hashed("early " + s.Group)}
	w.teams = append(w.teams, t)
	return t
}

// timers is the key of the timers of all tenants.
const timers = "flunq:timers:all"

// added learns from Redis of an entry of a stream, or a member of a sorted set, and
// wakes those whom it concerns.
func (w *world) added(key string, fields []string) {
	switch key {
	case w.stream:
		for i := 0; i+1 < len(fields); i += 2 {
			if fields[i] == "type" {
				w.published(event.Type(fields[i+1]))
				return
			}
		}
		w.published("")
	case timers:
		for _, t := range w.teams {
			if t.concerns != nil && t.concerns(event.TimerScheduled) {
				w.notify(t)
			}
		}
	}
}

// published wakes those whom an event of a type concerns.
func (w *world) published(typ event.Type) {
	for _, t := range w.teams {
		if t.concerns == nil {
			continue
		}
		t.events++
		if t.behind++; t.concerns(typ) || t.behind >= backlog || w.early(t) {
			w.notify(t)
		}
	}
}

// early reports whether a team is woken for an event that does not concern it:
// where things go wrong, what it does then is in the way of others.
func (w *world) early(t *team) bool {
	const once = 8
	return w.cfg.Plan != nil && mix(w.cfg.Seed, t.hash, t.events)%once == 0
}

// notify wakes one of a team, since something was written: one that is idle, or
// else one that is at work and may have looked already.
func (w *world) notify(t *team) {
	t.behind = 0
	var chosen *service
	for _, s := range w.services {
		if s.team != t || s.asleep || s.calling {
			continue
		}
		if chosen == nil || w.rather(s, chosen, t.events) {
			chosen = s
		}
	}
	if chosen != nil {
		chosen.called = true
	}
}

// rather reports whether one service is woken rather than another one: who has
// nothing to do and was not called either, and in a search whomever the seed says.
func (w *world) rather(s, other *service, count uint64) bool {
	switch {
	case s.free() != other.free():
		return s.free()
	case s.parked != other.parked:
		return s.parked
	default:
		return w.cfg.Plan != nil && mix(w.cfg.Seed, s.hash, count) < mix(w.cfg.Seed, other.hash, count)
	}
}

// catchUp wakes those who have something to read when nothing else happens any
// more. It reports whether there was anybody.
func (w *world) catchUp() bool {
	found := false
	for _, t := range w.teams {
		if t.behind > 0 {
			w.notify(t)
			found = true
		}
	}
	return found
}

// rouse wakes another service of the same team.
func (w *world) rouse(of *service) {
	for _, s := range w.services {
		if s != of && s.team == of.team && s.parked && !s.called {
			s.called = true
			return
		}
	}
}
