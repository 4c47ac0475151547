package decide

import (
	"fmt"
	"slices"
	"strings"

	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/history"
)

// Needs lists what an execution needs in order to continue.
type Needs struct {
	Timers   []event.Timer // as the execution scheduled them; an operator may have moved them since
	Listen   []string      // event types that it must be subscribed to
	Children []string      // child executions that it waits for
}

// Needs returns what the execution needs in its current state.
func (s *State) Needs(env *Env) (needs Needs) {
	if s.Timeout != nil {
		needs.Timers = append(needs.Timers, *s.Timeout)
	}
	ev := &evaluator{s, env}
	for _, n := range s.Open() {
		needs.Timers = append(needs.Timers, n.Timers...)
		needs.Listen = append(needs.Listen, ev.subscribed(n)...)
		if n.Child != "" {
			needs.Children = append(needs.Children, n.Child)
		}
	}
	for _, e := range s.Deferred { // these have arrived, and are applied when the execution is resumed
		var fired event.Fired
		if e.Type == event.TimerFired && DecodeData(e, &fired) == nil {
			needs.Timers = slices.DeleteFunc(needs.Timers, fired.Same)
		}
	}
	slices.Sort(needs.Listen)
	needs.Listen = slices.Compact(needs.Listen)
	return needs
}

// Requests returns requests for the tasks that await a result from an executor, as they would be
// sent now.
func (s *State) Requests(env *Env) (all []event.Event, err error) {
	m := newMachine(s, env, &Decision{})
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

// Requested reports whether a task awaits a result from an executor. It is false while the
// execution is suspended, since results are then deferred.
func (s *State) Requested() bool {
	return !s.Paused && slices.ContainsFunc(s.Open(), (*Node).requested)
}

func (n *Node) requested() bool { return n.Child == "" && !n.Inline && n.requestable() }

// CancelledBy returns the operator who cancelled a timer that the execution waits for, or "".
func (s *State) CancelledBy(t event.Timer) string {
	for _, gone := range s.CancelledTimers {
		if gone.Same(t) {
			return gone.By
		}
	}
	return ""
}

// Present says which of an execution's needs exist.
type Present struct {
	Timer     func(event.Timer) bool
	Listed    func(eventType string) bool
	Child     func(id string) bool
	Performed bool // executors and workers have all requests
	Resumed   bool // examine a suspended execution as if it were resumed
}

// Stuck describes the tasks that nothing will ever end, one line for each: what they wait for
// does not exist, and no timeout or competing branch would end them or an enclosing task. It
// returns nothing for a suspended execution, unless has.Resumed.
func (s *State) Stuck(env *Env, has Present) []string {
	if s.Paused && !has.Resumed || s.Root == nil || s.Timeout != nil && has.Timer(*s.Timeout) {
		return nil
	}
	f := &stuckFinder{evaluator{s, env}, has}
	return f.inside(s.Root)
}

// stuckFinder finds tasks that nothing will end.
type stuckFinder struct {
	evaluator

	has Present
}

// inside examines the children of a task.
func (f *stuckFinder) inside(n *Node) (all []string) {
	for _, child := range n.Children {
		stuck := f.at(child)
		if len(stuck) == 0 && n.Fork != nil && n.task.Fork.Compete {
			return nil // this branch ends the fork
		}
		all = append(all, stuck...)
	}
	return all
}

// at examines a task and those inside it.
func (f *stuckFinder) at(n *Node) []string {
	if slices.ContainsFunc(n.Timers, func(t event.Timer) bool { return t.Kind == event.TimeoutTimer && f.has.Timer(t) }) {
		return nil
	}
	var own []string
	if why := f.waits(n); why != "" {
		own = append(own, history.Task(n.id)+" "+why)
	}
	return append(own, f.inside(n)...)
}

// waits describes what the task itself waits for in vain, or returns "".
func (f *stuckFinder) waits(n *Node) string {
	for _, t := range n.Timers {
		if t.Kind == event.TimeoutTimer || f.has.Timer(t) {
			continue
		}
		what := "waits for its timer"
		if t.Kind == event.RetryTimer {
			what = "waits for its retry"
		}
		if by := f.CancelledBy(t); by != "" {
			return what + ", which " + by + " has cancelled"
		}
		return what + ", which is not set"
	}
	if missing := slices.DeleteFunc(f.subscribed(n), f.has.Listed); len(missing) > 0 {
		return "listens for " + events(missing) + ", but is not subscribed"
	}
	switch {
	case n.Child != "" && !f.has.Child(n.Child):
		return "waits for execution " + n.Child + ", which does not continue"
	case !f.has.Performed && n.requested():
		return "was requested, but no executor has it"
	case n.task.Kind == dsl.Wait && len(n.Timers) == 0:
		return "waits without a timer"
	default:
		return ""
	}
}

// events lists event types in a sentence.
func events(types []string) string {
	if slices.Contains(types, "*") {
		return "events"
	}
	return strings.Join(types, " and ")
}
