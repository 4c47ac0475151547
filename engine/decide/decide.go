// Package decide is the interpreter: given a definition and the events so far, it decides
// what happens next. It uses no clock, network, randomness or goroutine: times come with
// the events, and ids are derived from the execution and its version.
package decide

import (
	"fmt"
	"slices"

	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/expr/canonical"
)

// Env holds everything that decisions about one definition need besides the events. It is
// read-only, and any number of executions may use it concurrently.
type Env struct {
	def  *dsl.Definition
	opts Options
	base string // base URI of standard errors
	root *dsl.Task
}

// Options configures an Env.
type Options struct {
	Secrets map[string]any // by name; the value of $secrets
	Version string         // the runtime's version, in $runtime
	Remote  bool           // also send tasks that only compute to the executors
	Limits  Limits

	Redactor *event.Redactor // of Secrets, shared by several Envs; nil: one of its own
}

// Limits bounds what one document may consume.
type Limits struct {
	Tasks int // tasks started in one execution; default 1,000,000
	Depth int // nesting depth of executions; default 20
	Data  int // bytes of one task's output as JSON; default 16 MiB

	// History is the number of history entries, and HistoryBytes the size of their data in
	// bytes, at which tasks stop starting and events stop being consumed. Zero means the default
	// (700,000 entries, 100 MiB), a negative value no limit. They apply to new executions,
	// see Env.Begin: an execution keeps the limits it began with.
	History      int
	HistoryBytes int
}

// defaultHistory returns the limits of histories that do not state their own. It must
// never change, or their executions could not be rebuilt.
func defaultHistory() event.HistoryLimits {
	return event.HistoryLimits{Entries: 700_000, Bytes: 100 << 20}
}

// DefaultLimits returns the limits of an ordinary deployment.
func DefaultLimits() Limits {
	history := defaultHistory()
	return Limits{Tasks: 1_000_000, Depth: 20, Data: 16 << 20, History: history.Entries, HistoryBytes: history.Bytes}
}

// Output returns an *event.Problem if a task's output exceeds the limits, else nil.
func (l Limits) Output(v any) error {
	size, memory := canonical.Measure(v)
	switch {
	case size > l.Data:
		return event.NewProblem(event.Runtime, fmt.Sprintf("the output is larger than %d bytes (limit Data)", l.Data))
	case memory > canonical.MaxMemory:
		return event.NewProblem(event.Runtime, fmt.Sprintf("the output takes more than %d MiB in memory (limit json-memory)", canonical.MaxMemory>>20))
	}
	return nil
}

// NewEnv prepares decisions about def. Zero Limits mean DefaultLimits.
func NewEnv(def *dsl.Definition, opts Options) *Env {
	if opts.Limits == (Limits{}) {
		opts.Limits = DefaultLimits()
	}
	env := &Env{def: def, opts: opts, base: event.BaseV1}
	if opts.Redactor == nil {
		env.opts.Redactor = event.NewRedactor(opts.Secrets)
	}
	if dsl.Newer(def.Document.DSL) { // these versions use the renamed specification's URIs
		env.base = event.BaseMain
	}
	env.root = &dsl.Task{Name: def.Document.Name, Kind: dsl.Do, Do: def.Do}
	return env
}

// Definition returns the definition that the Env decides about.
func (env *Env) Definition() *dsl.Definition { return env.def }

// Decision holds the effects of a transition, which are written in one commit.
type Decision struct {
	History  []event.Event  // to append to the history, in order
	Publish  []event.Event  // to append to the tenant's stream, in order
	Cancel   []event.Timer  // timers to cancel
	Listen   []string       // event types to subscribe to; "*" is any type
	Unlisten []string       // event types to unsubscribe from
	Input    *InputDecision // for the input that was applied; nil if none was
}

// InputDecision says whether an execution accepted an input.
type InputDecision struct {
	event.Fired        // the timer that delivers it
	Taken       bool   // a task consumed it
	Why         string // why no task did; "" if one already had
}

// listen subscribes to types. It takes precedence over unlisten in the same decision.
func (d *Decision) listen(types []string) {
	d.Unlisten = slices.DeleteFunc(d.Unlisten, func(t string) bool { return slices.Contains(types, t) })
	d.Listen = append(d.Listen, types...)
}

// unlisten unsubscribes from types.
func (d *Decision) unlisten(types []string) {
	d.Listen = slices.DeleteFunc(d.Listen, func(t string) bool { return slices.Contains(types, t) })
	d.Unlisten = append(d.Unlisten, types...)
}

// Apply applies one event and appends the resulting decisions to d. It reports false for an
// event that has no effect, such as a stale or repeated one; the state is then unchanged. An
// error means that the event is malformed or the engine has a bug, and leaves the state
// unusable.
func (s *State) Apply(env *Env, e event.Event, d *Decision) (applied bool, err error) {
	if e.Workflow == "" { // the sender may not know it
		e.Workflow = s.Workflow
	}
	// The execution's time is that of its latest event, and never goes back.
	before := s.Now
	if e.Time.After(s.Now) {
		s.Now = e.Time
	}
	m := newMachine(s, env, d)
	apply, err := m.handler(e)
	if err != nil || apply == nil {
		s.Now = before
		return false, err
	}
	s.append(d, e)
	apply()
	m.run()
	m.enforceHistoryLimit()
	if !s.Status.Ended() {
		s.Status = s.phase()
	}
	return true, nil
}

// append adds an event to the history as the next version.
func (s *State) append(d *Decision, e event.Event) {
	s.Version++
	s.Bytes += len(e.Data)
	d.History = append(d.History, e)
}

// handler returns the function that applies an event, or nil if the event has no effect.
func (m *machine) handler(e event.Event) (func(), error) {
	switch {
	case e.Type == event.ExecutionStarted:
		return m.onStarted(e)
	case e.Type == event.ExecutionRetried:
		return m.onRetried(), nil
	case m.Status == "" || m.Status.Ended():
		return nil, nil
	}
	switch e.Type {
	case event.ExecutionSuspended:
		return m.onSuspended(), nil
	case event.ExecutionResumed:
		return m.onResumed(), nil
	case event.ExecutionCancelled:
		return m.onCancelled(e)
	case event.TimerScheduled, event.TimerCancelled:
		return m.onTimerChange(e)
	case event.ExecutionRestored:
		return func() {}, DecodeData(e, new(event.Restored)) // it changes only the history
	case event.ExecutionMigrated:
		return func() {}, nil // the caller rebuilds the state with the document that the event names
	}
	apply, err := m.progress(e)
	if apply == nil || err != nil || !m.Paused {
		return apply, err
	}
	return m.deferEvent(e), nil
}

// progress returns the function that applies an event to an execution that is not
// suspended, or nil if the event has no effect.
func (m *machine) progress(e event.Event) (func(), error) {
	switch e.Type {
	case event.TaskCompleted:
		return m.onCompleted(e)
	case event.TimerFired:
		return m.onFired(e)
	case event.EventReceived:
		return m.onReceived(e)
	case event.EventDead, event.TaskDead, event.TimerDead:
		return m.onDead(e)
	default:
		return nil, fmt.Errorf("event %s has type %s, which no execution accepts", e.ID, e.Type)
	}
}
