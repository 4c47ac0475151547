package decide

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/expr"
	"flunq.io/flunq/engine/expr/canonical"
	"flunq.io/flunq/engine/history"
)

// New returns the state of an execution that has not started.
func New() *State { return &State{open: map[string]*Node{}} }

// initFrom initializes the state from an ExecutionStarted.
func (s *State) initFrom(e event.Event) error {
	started, err := StartOf(e)
	if err != nil {
		return err
	}
	var input any = map[string]any{}
	if len(started.Input) > 0 {
		input, err = canonical.DecodeForeign(started.Input)
	}
	if err != nil {
		return fmt.Errorf("input of execution %s: %w", e.Execution, err)
	}
	s.Tenant, s.Workflow, s.Execution = e.Tenant, e.Workflow, e.Execution
	s.Status, s.StartedAt = Running, e.Time
	s.Parent, s.ParentTask, s.Depth, s.Nonce = started.Parent, started.ParentTask, started.Depth, started.Nonce
	s.History = started.History
	s.Input, s.Context = Data{input}, Data{map[string]any{}}
	return nil
}

// Begin returns e, an ExecutionStarted, prepared for Apply: with a nonce, and with the
// limits of the history unless they are the defaults.
func (env *Env) Begin(e event.Event) event.Event {
	e = event.WithNonce(e)
	usual := defaultHistory()
	limits := event.HistoryLimits{
		Entries: max(cmp.Or(env.opts.Limits.History, usual.Entries), 0),
		Bytes:   max(cmp.Or(env.opts.Limits.HistoryBytes, usual.Bytes), 0),
	}
	if limits != usual {
		e = event.WithHistoryLimits(e, limits)
	}
	return e
}

// onStarted starts an execution.
func (m *machine) onStarted(e event.Event) (func(), error) {
	if m.Status != "" {
		return nil, nil
	}
	if err := m.initFrom(e); err != nil {
		return nil, err
	}
	return m.start, nil
}

func (m *machine) start() {
	def := m.env.def
	m.Root = &Node{StartedAt: m.Now, task: m.env.root}
	if len(def.Unsupported) > 0 {
		u := def.Unsupported[0]
		m.fault(unsupported(u.Construct), u.Ref)
		return
	}
	input := m.Input.V
	if def.Input.Schema != nil {
		if err := def.Input.Schema.Validate(input); err != nil {
			m.fault(invalid("the workflow's input", err), "/input")
			return
		}
	}
	if def.Input.From != nil {
		v, err := def.Input.From.Eval(m.scope(m.Root, input))
		if err != nil {
			m.fault(problemOf(err), "/input/from")
			return
		}
		input = canonical.Form(v)
	}
	m.Root.Raw, m.Root.Input = m.Input, Data{input}
	if def.Timeout != nil {
		if err := m.scheduleTimeout(def.Timeout); err != nil {
			m.fault(problemOf(err), "/timeout")
			return
		}
	}
	m.enqueue(m.Root, func() { m.enter(m.Root, input) })
}

// scheduleTimeout schedules the timeout of the whole execution.
func (m *machine) scheduleTimeout(value *expr.Value) error {
	d, err := duration(m.scope(m.Root, m.Root.Input.V), value)
	if err != nil {
		return err
	}
	t := m.newTimer(event.TimeoutTimer, d.From(m.Now))
	m.Timeout = &t
	m.announce(event.TimerScheduled, t)
	return nil
}

// completeWorkflow ends the execution with the output of its last task.
func (m *machine) completeWorkflow(out any) {
	def := m.env.def
	if def.Output.As != nil {
		v, err := def.Output.As.Eval(m.scope(m.Root, out))
		if err != nil {
			m.fault(problemOf(err), "/output/as")
			return
		}
		out = canonical.Form(v)
	}
	if def.Output.Schema != nil {
		if err := def.Output.Schema.Validate(out); err != nil {
			m.fault(invalid("the workflow's output", err), "/output")
			return
		}
	}
	m.end(Completed)
	m.Output = Data{out}
	m.publishEnd(event.WorkflowCompleted, event.Ended{Output: canonical.Encode(out)})
}

// publishEnd publishes the end of the execution, and reports it to the parent waiting for it.
func (m *machine) publishEnd(typ event.Type, ended event.Ended) {
	m.d.Publish = append(m.d.Publish, m.record(typ, "", event.Encode(ended)))
	if m.Parent == "" || m.ParentTask == "" {
		return
	}
	c := event.Completed{
		TaskID: m.ParentTask, TaskName: history.TaskName(event.ParseRun(m.ParentTask).Ref), TaskType: string(dsl.Run),
		Success: typ == event.WorkflowCompleted, Output: ended.Output, Error: ended.Error,
		DurationMS: m.Now.Sub(m.StartedAt).Milliseconds(),
	}
	if typ == event.WorkflowCancelled {
		c.Error = event.NewProblem(event.Runtime, "execution "+m.Execution+" was cancelled")
	}
	if c.Error != nil {
		child := *c.Error
		child.Instance = "" // it points into the child's document; the parent's instance is its run task
		c.Error = &child
	}
	m.d.Publish = append(m.d.Publish, event.Event{
		ID: m.Execution + "/parent", Source: Source, Type: event.TaskCompleted, Time: m.Now,
		Tenant: m.Tenant, Execution: m.Parent, Task: m.ParentTask, Data: event.Encode(c),
	})
}

// onDead fails the task that waits for a dead-lettered message, or the whole execution if no task
// does.
func (m *machine) onDead(e event.Event) (func(), error) {
	var dead event.Dead
	if err := DecodeData(e, &dead); err != nil {
		return nil, err
	}
	p := dead.Problem()
	n := m.open[e.Task]
	switch {
	case n != nil:
		return func() { m.fail(n, p) }, nil
	case e.Task != "" && e.Type == event.TaskDead:
		return nil, nil // the task has already ended
	default:
		return func() { m.faultAt(m.activeChain(), p, "/") }, nil
	}
}

// Reject returns the state of an execution that ends as soon as it starts because it is not
// allowed to run: it faults with why.Error or, without an error, is cancelled with why.Reason.
func Reject(e event.Event, why event.Ended, d *Decision) (*State, error) {
	s := New()
	if err := s.initFrom(e); err != nil {
		return nil, err
	}
	s.Now = e.Time
	m := newMachine(s, &Env{base: event.BaseV1}, d)
	m.Root = &Node{}
	s.append(d, e)
	if why.Error != nil {
		m.fault(why.Error, "/")
	} else {
		m.cancelled(why.Reason)
	}
	return s, nil
}

// Abort faults an execution for which no decision can be made any more. Of the state, it needs
// only the names, the version, when it started, and the parent.
func (s *State) Abort(now time.Time, dead event.Dead) Decision {
	var d Decision
	s.Now = now
	m := newMachine(s, &Env{base: event.BaseV1}, &d)
	m.Root = &Node{}
	m.end(Faulted)
	m.Error = m.env.publishable(dead.Problem(), "/")
	m.publishEnd(event.WorkflowFailed, event.Ended{Error: m.Error, Reason: aborted})
	return d
}

// Release returns what must be cleaned up after an aborted execution: its timers, its
// subscriptions, and the child executions to cancel. The state is unusable afterwards.
func (s *State) Release(env *Env, now time.Time) Decision {
	if s.Root == nil {
		return Decision{}
	}
	var d Decision
	s.Now = now
	m := newMachine(s, env, &d)
	m.end(Faulted)
	announced := func(e event.Event) bool { return e.Type != event.ExecutionCancelled }
	return Decision{Cancel: d.Cancel, Unlisten: d.Unlisten, Publish: slices.DeleteFunc(d.Publish, announced)}
}

// aborted is the reason that Abort records.
const aborted = "given up"

// beginRun starts a child execution.
func (m *machine) beginRun(n *Node) error {
	run := n.task.Run
	if run.Workflow == nil {
		return unsupported("run")
	}
	if limit := m.env.opts.Limits.Depth; m.Depth >= limit {
		return event.NewProblem(event.Runtime, fmt.Sprintf("workflows run each other more than %d deep (limit Depth)", limit))
	}
	started, err := m.childStart(n)
	if err != nil {
		return err
	}
	m.Children++
	child := m.Execution + "." + strconv.Itoa(m.Children)
	if m.Nonce != "" {
		started.Nonce = event.NewNonce(m.Nonce, child)
	}
	if !run.NoWait {
		started.Parent, started.ParentTask = m.Execution, n.id
		n.Child = child
	}
	m.d.Publish = append(m.d.Publish, event.Event{
		ID: child + "/start", Source: Source, Type: event.ExecutionStarted, Time: m.Now,
		Tenant: m.Tenant, Workflow: started.Namespace + "." + started.Name, Execution: child, Data: event.Encode(started),
	})
	if run.NoWait {
		m.complete(n, n.Input.V, "")
	}
	return nil
}

// childStart evaluates which workflow to run, and its input.
func (ev *evaluator) childStart(n *Node) (event.Started, error) {
	w := n.task.Run.Workflow
	started := event.Started{Depth: ev.Depth + 1}
	s := ev.scope(n, n.Input.V)
	err := evalTexts(s, []textValue{
		{w.Namespace, &started.Namespace, "the namespace of the workflow to run"},
		{w.Name, &started.Name, "the name of the workflow to run"},
		{w.Version, &started.Version, ""},
	})
	if err != nil {
		return started, err
	}
	input := n.Input.V
	if w.Input != nil {
		v, err := w.Input.Eval(s)
		if err != nil {
			return started, err
		}
		input = v
	}
	started.Input = canonical.Encode(input)
	return started, nil
}

// CancelChild returns the event that cancels a child execution.
func (s *State) CancelChild(child, reason string) event.Event {
	return event.Event{
		ID: child + "/cancel", Source: Source, Type: event.ExecutionCancelled, Time: s.Now,
		Tenant: s.Tenant, Execution: child, Data: event.Encode(event.Ended{Reason: reason}),
	}
}

// phase returns Suspended while suspended, Running if a task is being computed or an executor
// performs one, otherwise Waiting. An execution that only waits for its children is Waiting.
func (s *State) phase() Status {
	if s.Paused {
		return Suspended
	}
	if last := len(s.inline) - 1; last >= 0 && s.inline[last].Inline && !s.inline[last].closed {
		return Running
	}
	for _, n := range s.open {
		if n.Inline || n.requestable() && n.Child == "" {
			return Running
		}
	}
	return Waiting
}

// DecodeData decodes the data of one of the engine's own events.
func DecodeData(e event.Event, into any) error {
	err := event.Readable(json.Unmarshal(e.Data, into)) // other programs write results, too
	if err != nil {
		return fmt.Errorf("data of event %s (%s): %w", e.ID, e.Type, err)
	}
	return nil
}
