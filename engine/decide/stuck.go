package decide

import (
	"fmt"
	"slices"
	"strings"

	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/event"
)

// Needs is what has to be there so that an execution goes on.
type Needs struct {
	Timers   []event.Timer // due as far as the execution knows: an operator may have moved them
	Listen   []string      // types of events that it has to be listed for
	Children []string      // executions that it waits for
}

// Needs returns what the execution needs where it stands.
func (s *State) Needs(env *Env) (needs Needs) {
	if s.Timeout != nil {
		needs.Timers = append(needs.Timers, *s.Timeout)
	}
	for _, n := range s.Open() {
		needs.Timers = append(needs.Timers, n.Timers...)
		needs.Listen = append(needs.Listen, s.listens(env, n)...)
		if n.Child != "" {
			needs.Children = append(needs.Children, n.Child)
		}
	}
	for _, e := range s.Deferred { // it has come, and is taken when the execution is resumed
		if fired, err := firedOf(e); e.Type == event.TimerFired && err == nil {
			needs.Timers = slices.DeleteFunc(needs.Timers, func(t event.Timer) bool { return sameTimer(t, fired.Timer) })
		}
	}
	slices.Sort(needs.Listen)
	needs.Listen = slices.Compact(needs.Listen)
	return needs
}

// listens are the types of events that a task has to be told of.
func (s *State) listens(env *Env, n *Node) []string {
	if n.Listen == nil || n.Listen.Stopped {
		return nil
	}
	m := &machine{State: s, env: env}
	types, err := m.listenTypes(n)
	if err != nil {
		return nil // it never subscribed
	}
	return types
}

// Requests returns the requests of the tasks that executors have been asked for and that
// have no result yet, as they would be sent now.
func (s *State) Requests(env *Env) (all []event.Event, err error) {
	m := &machine{State: s, env: env, d: &Decision{}}
	for _, n := range s.Open() {
		if !n.requested() {
			continue
		}
		data, err := m.requested(n)
		if err != nil {
			return nil, fmt.Errorf("request %s again: %w", n.id, err)
		}
		e := m.event(event.TaskRequested, n.id, data)
		e.ID = s.Execution + n.id + "/again"
		all = append(all, e)
	}
	return all, nil
}

// Requested reports whether there is a task that executors have been asked for and that
// has no result yet. Of one that is suspended it is not known: results are held.
func (s *State) Requested() bool {
	return !s.Paused && slices.ContainsFunc(s.Open(), (*Node).requested)
}

func (n *Node) requested() bool { return n.Child == "" && !n.Inline && n.requestable() }

// CancelledBy is the operator who has cancelled a timer that the execution waits for;
// "" if none has.
func (s *State) CancelledBy(t event.Timer) string {
	for _, gone := range s.CancelledTimers {
		if sameTimer(gone.Timer, t) {
			return gone.By
		}
	}
	return ""
}

// Present says what of an execution's needs is there.
type Present struct {
	Timer     func(event.Timer) bool
	Listed    func(eventType string) bool
	Child     func(id string) bool
	Performed bool // executors and workers have what they were asked for
	Resumed   bool // a suspended execution is looked at as if it were resumed
}

// Stuck says, a line for each, which tasks nothing will ever end: neither what they wait
// for, nor a time limit of theirs or around them, nor another branch of a fork that
// competes. There are none in an execution that is suspended.
func (s *State) Stuck(env *Env, has Present) []string {
	if s.Paused && !has.Resumed || s.Root == nil || s.Timeout != nil && has.Timer(*s.Timeout) {
		return nil
	}
	l := &stuckFinder{State: s, env: env, has: has}
	return l.inside(s.Root)
}

// stuckFinder looks for tasks that nothing will end.
type stuckFinder struct {
	*State
	env *Env
	has Present
}

// inside looks at the tasks that a task holds.
func (l *stuckFinder) inside(n *Node) (all []string) {
	for _, child := range n.Children {
		stuck := l.at(child)
		if len(stuck) == 0 && n.Fork != nil && n.task.Fork.Compete {
			return nil // this branch ends it
		}
		all = append(all, stuck...)
	}
	return all
}

// at looks at a task and those inside.
func (l *stuckFinder) at(n *Node) []string {
	if slices.ContainsFunc(n.Timers, func(t event.Timer) bool { return t.Kind == event.TimeoutTimer && l.has.Timer(t) }) {
		return nil
	}
	var own []string
	if why := l.waits(n); why != "" {
		own = append(own, n.id+" "+why)
	}
	return append(own, l.inside(n)...)
}

// waits says what a task itself waits for and will not get; "" if there is nothing.
func (l *stuckFinder) waits(n *Node) string {
	for _, t := range n.Timers {
		if t.Kind == event.TimeoutTimer || l.has.Timer(t) {
			continue
		}
		what := "waits for its timer"
		if t.Kind == event.RetryTimer {
			what = "waits to be tried again"
		}
		if by := l.CancelledBy(t); by != "" {
			return what + ", which " + by + " has cancelled"
		}
		return what + ", which is not set"
	}
	if missing := slices.DeleteFunc(l.listens(l.env, n), l.has.Listed); len(missing) > 0 {
		return "listens for " + events(missing) + ", and is not listed as a listener"
	}
	switch {
	case n.Child != "" && !l.has.Child(n.Child):
		return "waits for execution " + n.Child + ", which does not go on"
	case !l.has.Performed && n.requested():
		return "was requested, and no executor has it"
	case n.task.Kind == dsl.Wait && len(n.Timers) == 0:
		return "waits without a timer"
	default:
		return ""
	}
}

// events names types of events.
func events(types []string) string {
	if slices.Contains(types, "*") {
		return "events"
	}
	return strings.Join(types, " and ")
}
