package decide

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"time"

	"flunq.io/flunq/engine/event"
)

// Reset makes a new execution from the beginning of another one's history, up to the event that
// began a run of a task. External results until then, such as those of calls, are applied to the
// new execution at their old times; tasks that only compute are computed again. The run itself
// begins at the time of the reset, and pending timers keep their remaining time.
type Reset struct {
	Env       *Env   // of a document that leads to the same beginning
	Execution string // the id of the new execution
	Task      string // the run of the task, in text form
	Now       time.Time
	By        string // the operator, recorded in the new history
	Reason    string // recorded in the new history

	// State is the new execution's state, after applying its history.
	State   *State
	History []event.Event
	Publish []event.Event // events with which the new execution continues
	Listen  []string      // event types to subscribe to

	past    *State       // of the other execution
	version int64        // of the other execution, as far as it has been read
	next    *event.Event // its last external event, not yet applied to the new execution
	at      int64        // version of next
}

// Add applies the next event of the other execution. It reports whether the run began with it;
// the Reset is then complete. An error means that the new execution cannot be made.
func (r *Reset) Add(e event.Event) (done bool, err error) {
	if r.past == nil {
		r.past, r.State = New(), New()
	}
	if r.past.Settled() {
		if err := r.apply(r.next, time.Time{}, nil); err != nil {
			return false, err
		}
		r.next, r.at = &e, r.version+1
	}
	if e.Type == event.TaskRequested && e.Task == r.Task {
		return true, r.begin()
	}
	r.version++
	return false, r.past.Replay(r.Env, []event.Event{e})
}

// begin applies the last event at the time of the reset so that the run begins, and determines
// what the execution needs to continue.
func (r *Reset) begin() error {
	before, at := r.State.Needs(r.Env), r.next.Time
	var d Decision
	if err := r.apply(r.next, r.Now, &d); err != nil {
		return err
	}
	begins := func(e event.Event) bool { return e.Type == event.TaskRequested && e.Task == r.Task }
	switch {
	case !slices.ContainsFunc(d.History, begins):
		return fmt.Errorf("the new execution does not reach task %s: its course depends on its id or on the time", r.Task)
	case r.State.Status.Ended():
		return fmt.Errorf("the execution became %s as soon as task %s began, and so would the new one", r.State.Status, r.Task)
	}
	needs := r.State.Needs(r.Env)
	if err := r.children(needs, d); err != nil {
		return err
	}
	for _, t := range needs.Timers {
		if r.State.CancelledBy(t) != "" || !slices.ContainsFunc(before.Timers, t.Same) {
			continue
		}
		t.MovedTo = r.Now.Add(max(t.Due().Sub(at), 0))
		change := r.scheduled(t.TaskID, event.TimerChange{Timer: t, By: r.By})
		change.Source = Prefix + "cli"
		if err := r.decide(change, &Decision{}); err != nil {
			return err
		}
	}
	requests, err := r.State.Requests(r.Env)
	if err != nil {
		return err
	}
	r.Publish = append(r.Publish, requests...)
	for _, t := range r.State.Needs(r.Env).Timers {
		if r.State.CancelledBy(t) == "" {
			r.Publish = append(r.Publish, r.scheduled(t.TaskID, &t))
		}
	}
	if r.State.Ready() {
		r.Publish = append(r.Publish, Continuation(r.State))
	}
	r.Listen = needs.Listen
	return r.verify()
}

// children adds the starts of child executions that the run begins. Any other child would run a
// second time, so it is an error.
func (r *Reset) children(needs Needs, d Decision) error {
	for _, e := range d.Publish {
		if e.Type == event.ExecutionStarted {
			r.Publish = append(r.Publish, e)
		}
	}
	for _, n := range r.State.Open() {
		started := func(e event.Event) bool { return e.Execution == n.Child }
		if n.Child != "" && slices.Contains(needs.Children, n.Child) && !slices.ContainsFunc(r.Publish, started) {
			return fmt.Errorf("when task %s began, task %s was waiting for a child execution, which would be started a second time: reset to a task before or after that one", r.Task, n.id)
		}
	}
	return nil
}

// apply applies an event of the other execution to the new one, at the given time or, if that is
// zero, at its own. It drops the external effects of the event, but returns them in d.
func (r *Reset) apply(e *event.Event, at time.Time, d *Decision) (err error) {
	if e == nil {
		return nil
	}
	if d == nil {
		d = &Decision{}
	}
	own := *e
	own.Execution = r.Execution
	if !at.IsZero() {
		own.Time = at
	}
	switch e.Type {
	case event.ExecutionMigrated, event.ExecutionRestored:
		return nil // the new execution runs the document that the other one was migrated to
	case event.ExecutionStarted:
		own, err = r.started(own)
	case event.TimerFired, event.TimerScheduled, event.TimerCancelled:
		own, err = r.timer(own)
	case event.TaskCompleted:
		if s := r.State; s.Ready() && s.inline[0].id == e.Task {
			if own.Time.After(s.Now) {
				s.Now = own.Time
			}
			s.Advance(r.Env, d)
			r.History = append(r.History, d.History...)
			return nil
		}
	default:
	}
	if err != nil {
		return err
	}
	return r.decide(own, d)
}

// decide applies an event to the new execution.
func (r *Reset) decide(e event.Event, d *Decision) error {
	applied, err := r.State.Apply(r.Env, e, d)
	if err == nil && !applied {
		err = fmt.Errorf("event %d of its history, %s %s, has no effect in the new execution: its course depends on its id or on the time", r.at, e.Type, e.Task)
	}
	r.History = append(r.History, d.History...)
	return err
}

// started returns the event that starts the new execution. It has no parent, and records what the
// execution was made from.
func (r *Reset) started(e event.Event) (event.Event, error) {
	started, err := StartOf(e)
	if err != nil {
		return e, err
	}
	started.Reset = &event.Reset{Execution: r.past.Execution, Task: r.Task, At: r.Now, By: r.By, Reason: r.Reason}
	started.Parent, started.ParentTask, started.Depth, started.Nonce = "", "", 0, ""
	started.Version = r.Env.def.Document.Version
	e.ID, e.Data = r.Execution+"/start", event.Encode(started)
	return event.WithNonce(e), nil
}

// timer returns an event about the new execution's counterpart of the event's timer, whose due
// time may differ.
func (r *Reset) timer(e event.Event) (event.Event, error) {
	var fired event.Fired
	if err := DecodeData(e, &fired); err != nil {
		return e, err
	}
	var own *event.Timer
	for _, t := range r.State.Needs(r.Env).Timers {
		if t.TaskID == fired.TaskID && t.Kind == fired.Kind && t.Key == fired.Key && (own == nil || t.FireAt.Equal(fired.FireAt)) {
			own = &t
		}
	}
	if own == nil {
		return e, fmt.Errorf("event %d of its history, %s %s, is about a timer that the new execution does not have", r.at, e.Type, e.Task)
	}
	moved := fired.MovedTo
	fired.Timer = *own
	if e.Type != event.TimerFired {
		fired.MovedTo = moved
		e.Data = event.Encode(event.TimerChange{Timer: fired.Timer, By: fired.By})
		return e, nil
	}
	if due := own.Due(); fired.By == "" && e.Time.Before(due) { // an operator fires timers early
		e.Time = due
	}
	fired.ScheduledFor, fired.FiredAt = own.Due(), e.Time
	e.Data = event.Encode(fired)
	return e, nil
}

// scheduled returns a TimerScheduled of the new execution.
func (r *Reset) scheduled(task string, data any) event.Event {
	s := r.State
	return event.Event{
		ID: fmt.Sprintf("%s/%d/reset%s", s.Execution, s.Version, task), Source: Source, Type: event.TimerScheduled, Time: r.Now,
		Tenant: s.Tenant, Workflow: s.Workflow, Execution: s.Execution, Task: task, Data: event.Encode(data),
	}
}

// verify checks that the new history leads to the new state.
func (r *Reset) verify() error {
	again, err := Rebuild(r.Env, r.History)
	if err != nil {
		return fmt.Errorf("the new history: %w", err)
	}
	a, err := r.State.Snapshot()
	if err != nil {
		return err
	}
	b, err := again.Snapshot()
	if err == nil && !bytes.Equal(a, b) {
		err = errors.New("the new history leads to a different state")
	}
	return err
}

// Continuation returns an event without content. Handling it continues with the tasks that are
// still to be computed.
func Continuation(s *State) event.Event {
	return event.Event{
		ID: fmt.Sprintf("%s/%d/further", s.Execution, s.Version), Source: Source, Type: event.TaskCompleted, Time: s.Now,
		Tenant: s.Tenant, Workflow: s.Workflow, Execution: s.Execution, Data: []byte("{}"),
	}
}
