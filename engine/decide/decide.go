// Package decide is the interpreter: given a definition and what has happened
// so far, it says what happens next. It knows no clock, network, chance or
// goroutine: times come with the events, ids from the execution and its version.
package decide

import (
	"fmt"
	"slices"
	"time"

	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/expr"
)

// Env is what decisions about one definition need besides the events. It is
// read only, and may serve any number of executions at once.
type Env struct {
	def    *dsl.Definition
	opts   Options
	tables map[string]*table
	base   string // of the URIs of standard errors
	root   *dsl.Task
}

// Options of an Env.
type Options struct {
	Secrets map[string]any // by name, for $secrets
	Version string         // of the runtime, for $runtime
	Remote  bool           // send tasks that only compute through the stream, too
	Limits  Limits
}

// Limits keep a runaway document from taking the engine with it.
type Limits struct {
	Tasks int // started in one execution; default 1,000,000, simulated 10 to 1,000,000
	Depth int // of nested executions; default 20, simulated 2 to 20
	Data  int // bytes of one task's output as JSON; default 16 MiB, simulated 1 KiB to 16 MiB

	// Entries of a history, and bytes of their data, behind which no task begins and no
	// event is taken in; 0: the defaults, 700,000 and 100 MiB; below 0: any number. They
	// are those of executions that begin, see Env.Begin: others keep what they began with.
	History      int
	HistoryBytes int
}

// defaultHistory is what holds for histories that say nothing else. It never changes:
// their executions could not be rebuilt.
func defaultHistory() event.HistoryLimits {
	return event.HistoryLimits{Entries: 700_000, Bytes: 100 << 20}
}

// DefaultLimits are those of an ordinary deployment.
func DefaultLimits() Limits {
	history := defaultHistory()
	return Limits{Tasks: 1_000_000, Depth: 20, Data: 16 << 20, History: history.Entries, HistoryBytes: history.Bytes}
}

// Output returns the problem of a task's output that exceeds the limits.
func (l Limits) Output(v any) error {
	size, memory := expr.Measure(v)
	switch {
	case size > l.Data:
		return event.NewProblem(event.Runtime, fmt.Sprintf("the output is larger than %d bytes (limit Data)", l.Data))
	case memory > expr.MaxMemory:
		return event.NewProblem(event.Runtime, fmt.Sprintf("the output takes more than %d MiB in memory (limit json-memory)", expr.MaxMemory>>20))
	}
	return nil
}

// NewEnv prepares decisions about def.
func NewEnv(def *dsl.Definition, opts Options) *Env {
	if opts.Limits == (Limits{}) {
		opts.Limits = DefaultLimits()
	}
	env := &Env{def: def, opts: opts, tables: make(map[string]*table, def.Size()), base: event.BaseV1}
	if newerThan103(def.Document.DSL) {
		env.base = event.BaseMain
	}
	env.root = &dsl.Task{Name: def.Document.Name, Kind: dsl.Do, Do: def.Do}
	tables := make([]table, 0, def.Size())
	for ref, t := range def.Tasks() {
		tables = append(tables, table{task: t})
		env.tables[ref] = &tables[len(tables)-1]
	}
	return env
}

// Definition is what the Env decides about.
func (env *Env) Definition() *dsl.Definition { return env.def }

// newerThan103 reports whether a document is written in a DSL after 1.0.3, whose
// errors have the URIs of the renamed specification.
func newerThan103(version string) bool {
	var major, minor, patch int
	if n, err := fmt.Sscanf(version, "%d.%d.%d", &major, &minor, &patch); err != nil || n != 3 {
		return false
	}
	return slices.Compare([]int{major, minor, patch}, []int{1, 0, 3}) > 0
}

// Decision is what a transition changes in the world: one commit.
type Decision struct {
	History  []event.Event // to append, in order
	Publish  []event.Event // to the tenant's stream, in order
	Cancel   []event.Timer // to take out of the timers
	Listen   []string      // types of events to be woken for from now on; "*" is all
	Unlisten []string      // … and no longer

	arena arena // that the data of its events is written on
}

// Next is an empty decision that is written behind this one, in the room that is
// left there.
func (d *Decision) Next() Decision {
	return Decision{History: d.History[len(d.History):], Publish: d.Publish[len(d.Publish):], arena: d.arena}
}

// On is an empty decision that is written on other paper, and its data behind that of
// this one.
func (d *Decision) On(history, publish []event.Event) Decision {
	return Decision{History: history[:0], Publish: publish[:0], arena: d.arena}
}

// listen subscribes; a type that was unsubscribed in the same decision stays subscribed.
func (d *Decision) listen(types []string) {
	d.Unlisten = slices.DeleteFunc(d.Unlisten, func(t string) bool { return slices.Contains(types, t) })
	d.Listen = append(d.Listen, types...)
}

// unlisten takes a subscription back.
func (d *Decision) unlisten(types []string) {
	d.Listen = slices.DeleteFunc(d.Listen, func(t string) bool { return slices.Contains(types, t) })
	d.Unlisten = append(d.Unlisten, types...)
}

// Apply takes in one event: what came from outside, or a result. It reports
// whether the event meant anything to the execution: a stale or repeated one does
// not, and then nothing has changed. An error is the event's or the engine's own
// fault, and leaves the state unusable.
func (s *State) Apply(env *Env, e event.Event, d *Decision) (applied bool, err error) {
	if e.Workflow == "" { // whoever sent it need not know
		e.Workflow = s.Workflow
	}
	// Decisions run on the time of their event, but never back in time.
	before := s.Now
	if e.Time.After(s.Now) {
		s.Now = e.Time
	}
	m := s.machine(env, d)
	defer m.rest()
	take, err := m.taker(e)
	if err != nil || take == nil {
		s.Now = before
		return false, err
	}
	s.append(d, e)
	take()
	m.run()
	m.endLong()
	if !s.Status.Ended() {
		s.Status = s.phase()
	}
	return true, nil
}

// append adds an event to the history, as the next version.
func (s *State) append(d *Decision, e event.Event) {
	s.Version++
	s.Bytes += len(e.Data)
	// A long one becomes much longer, as a rule: a loop.
	if n := len(d.History); n == cap(d.History) {
		d.History = slices.Grow(d.History, max(few, 3*n))
	}
	d.History = append(d.History, e)
}

// few is how many entries most transitions have at most.
const few = 8

// taker finds what an event does, nil if it does nothing.
func (m *machine) taker(e event.Event) (func(), error) {
	switch {
	case e.Type == event.ExecutionStarted:
		return m.takeStarted(e)
	case e.Type == event.ExecutionRetried:
		return m.takeRetried(), nil
	case m.Status == "" || m.Status.Ended():
		return nil, nil
	}
	switch e.Type {
	case event.ExecutionSuspended:
		return m.takeSuspended(), nil
	case event.ExecutionResumed:
		return m.takeResumed(), nil
	case event.ExecutionCancelled:
		return m.takeCancelled(e)
	case event.TimerScheduled, event.TimerCancelled:
		return m.takeTimerChange(e)
	case event.ExecutionRestored:
		return m.takeRestored(e)
	case event.ExecutionMigrated:
		return func() {}, nil // whoever rebuilds the state does so with the document it names
	}
	take, err := m.progress(e)
	if take == nil || err != nil || !m.Paused {
		return take, err
	}
	return m.hold(e), nil
}

// progress finds what an event does to an execution that goes on, nil if it does nothing.
func (m *machine) progress(e event.Event) (func(), error) {
	switch e.Type {
	case event.TaskCompleted:
		return m.takeCompleted(e)
	case event.TimerFired:
		return m.takeFired(e)
	case event.EventReceived:
		return m.takeReceived(e)
	case event.EventDead, event.TaskDead, event.TimerDead:
		return m.takeDead(e)
	default:
		return nil, fmt.Errorf("event %s of type %s is none that an execution takes", e.ID, e.Type)
	}
}

// elapsed is how long ago t was, in milliseconds.
func (m *machine) elapsed(t time.Time) int64 { return m.Now.Sub(t).Milliseconds() }
