package decide

import (
	"cmp"
	"fmt"
	"slices"

	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/expr/canonical"
)

// list returns the tasks that a node is running in sequence.
func (n *Node) list() dsl.TaskList {
	switch n.task.Kind {
	case dsl.Do, dsl.For:
		return n.task.Do
	case dsl.Try:
		if n.Try.Catching {
			return n.task.Try.Catch.Do
		}
		return n.task.Try.Try
	case dsl.Listen:
		return n.task.Listen.Foreach.Do
	case dsl.Call:
		return dsl.TaskList{n.task.Call.Function}
	default:
		return nil
	}
}

// enter runs the list of a node from its first task.
func (m *machine) enter(n *Node, input any) {
	n.At, n.Visit = 0, 0
	m.next(n, 0, input)
}

// next continues the list of n with the task at index, or ends the list.
func (m *machine) next(n *Node, index int, input any) {
	list := n.list()
	for index < len(list) {
		n.At = index
		skipped := m.begin(n, list[index], input)
		if !skipped {
			return
		}
		index++
	}
	m.listDone(n, input)
}

// begin starts a task below parent, or skips it if its condition does not hold.
func (m *machine) begin(parent *Node, t *dsl.Task, raw any) (skipped bool) {
	n := &Node{StartedAt: m.Now, Raw: Data{raw}, Input: Data{raw}, task: t, parent: parent}
	n.setRun()
	n.markRetried(m.retrySuffix)
	m.retrySuffix = ""
	m.Tasks++
	if limit := m.env.opts.Limits.Tasks; m.Tasks > limit {
		m.fault(event.NewProblem(event.Runtime, fmt.Sprintf("more than %d tasks were started, the next one is %q (limit Tasks)", limit, t.Name)), t.Ref)
		return false
	}
	if p := m.historyLimitProblem(0, 0); p != nil {
		p.Detail += fmt.Sprintf("; the next task is %q", t.Name)
		m.fault(p, t.Ref)
		return false
	}
	if t.If != nil {
		ok, err := t.If.Test(m.scope(n, raw))
		if err == nil && !ok {
			m.recordSkipped(n)
			return true
		}
		if err != nil {
			m.activate(n)
			m.recordRequested(n)
			m.fail(n, problemOf(err))
			return false
		}
	}
	if parent.task.Kind == dsl.Fork {
		n.OwnContext = &ContextValue{parent.Fork.Base}
	}
	m.activate(n)
	request := m.recordRequested(n)
	err := m.prepare(n)
	if err == nil {
		err = m.perform(n, request)
	}
	if err != nil {
		m.fail(n, problemOf(err))
	}
	return false
}

// activate adds n to the active tasks.
func (m *machine) activate(n *Node) {
	n.parent.Children = append(n.parent.Children, n)
	m.open[n.id] = n
}

// prepare validates and transforms the input of a task, and schedules its timeout.
func (m *machine) prepare(n *Node) error {
	t := n.task
	if t.Input.Schema != nil {
		if err := t.Input.Schema.Validate(n.Raw.V); err != nil {
			return invalid("input", err)
		}
	}
	if t.Input.From != nil {
		v, err := t.Input.From.Eval(m.scope(n, n.Raw.V))
		if err != nil {
			return err
		}
		n.Input = Data{v}
	}
	if t.Timeout == nil {
		return nil
	}
	return m.schedule(n, event.TimeoutTimer, "", t.Timeout)
}

// perform runs a task whose input is prepared. request is its entry in the history.
func (m *machine) perform(n *Node, request event.Event) error {
	t := n.task
	if t.Unsupported != "" {
		return unsupported(t.Unsupported)
	}
	switch t.Kind {
	case dsl.Do:
		m.enter(n, n.Input.V)
	case dsl.For:
		return m.beginFor(n)
	case dsl.Fork:
		m.beginFork(n)
	case dsl.Try:
		return m.beginTry(n)
	case dsl.Listen:
		return m.beginListen(n)
	case dsl.Wait:
		return m.schedule(n, event.WaitTimer, "", t.Wait)
	case dsl.Run:
		return m.beginRun(n)
	case dsl.Call:
		if t.Call.Function != nil {
			return m.beginFunction(n)
		}
		return m.request(n, request)
	case dsl.Set, dsl.Switch, dsl.Raise, dsl.Emit, dsl.Inject:
		if m.env.opts.Remote {
			return m.request(n, request)
		}
		n.Inline = true
		m.inline = append(m.inline, n)
	default:
		panic("decide: task of unknown kind " + string(t.Kind))
	}
	return nil
}

// beginFunction runs the task of a function instead of its call.
func (m *machine) beginFunction(n *Node) error {
	input := n.Input.V
	if with := n.task.Call.With; with != nil {
		v, err := with.Eval(m.scope(n, input))
		if err != nil {
			return err
		}
		input = v
	}
	if depth(n) > maxFunctionDepth {
		return event.NewProblem(event.Runtime, fmt.Sprintf("functions call each other more than %d deep", maxFunctionDepth))
	}
	m.enqueue(n, func() { m.enter(n, input) })
	return nil
}

// maxFunctionDepth bounds the recursion of functions.
const maxFunctionDepth = 100

func depth(n *Node) int {
	d := 0
	for ; n.parent != nil; n = n.parent {
		d++
	}
	return d
}

// complete ends a task with its raw output, which it transforms and validates. It updates
// $context and continues the parent, or ends the workflow. A non-empty directive replaces the
// task's own.
func (m *machine) complete(n *Node, raw any, directive string) {
	if n.parent == nil {
		m.completeWorkflow(raw)
		return
	}
	out, err := m.finish(n, n.parent, n.task.Output, n.task.Export, raw, "")
	if err != nil {
		m.fail(n, problemOf(err))
		return
	}
	m.close(n)
	m.recordCompleted(n, out)
	directive = cmp.Or(directive, n.task.Then)
	parent := n.parent
	m.enqueue(parent, func() { m.childDone(parent, n, out, directive) })
}

// finish applies output and export, of a task or of its foreach, to a raw output. Their expressions see
// the variables of the task around and of the tasks that contain it. A problem names "output" or
// "export", followed by of: "" or " of foreach".
func (ev *evaluator) finish(n, around *Node, output dsl.Output, export dsl.Export, raw any, of string) (out any, err error) {
	out = raw
	if output.As != nil {
		if out, err = output.As.Eval(ev.outputScope(n, around, raw, nil)); err != nil {
			return nil, err
		}
	}
	if output.Schema != nil {
		if err := output.Schema.Validate(out); err != nil {
			return nil, invalid("output"+of, err)
		}
	}
	context := out
	if export.As != nil {
		if context, err = export.As.Eval(ev.outputScope(n, around, raw, &out)); err != nil {
			return nil, err
		}
	}
	if export.Schema != nil {
		if err := export.Schema.Validate(context); err != nil {
			return nil, invalid("export"+of, err)
		}
	}
	if export.As != nil {
		ev.setContext(n, canonical.Form(context))
	}
	return out, nil
}

// childDone continues a parent after a child has completed.
func (m *machine) childDone(parent, child *Node, out any, directive string) {
	if parent.task.Kind == dsl.Fork {
		m.branchOver(parent, parent.branchOf(child), out, child.OwnContext.Context.V, directive)
		return
	}
	switch directive {
	case "", dsl.Continue:
		m.next(parent, parent.At+1, out)
	case dsl.Exit:
		m.listDone(parent, out)
	case dsl.End:
		m.unwind(parent, out)
	default:
		index := parent.list().Find(directive)
		if index <= parent.At {
			parent.Visit++
		}
		m.next(parent, index, out)
	}
}

// unwind ends the workflow from within a task. Each enclosing task applies its own output
// on the way.
func (m *machine) unwind(n *Node, out any) {
	if n.task.Kind == dsl.Listen {
		if !m.handled(n, out) {
			return
		}
		m.unlisten(n)
		out = values(n.Listen.Outputs)
	}
	m.complete(n, out, dsl.End)
}

// listDone ends the list of a node with the output of its last task.
func (m *machine) listDone(n *Node, out any) {
	switch n.task.Kind {
	case dsl.For:
		n.For.Index++
		m.enqueue(n, func() { m.iterate(n, out) })
	case dsl.Try:
		then := ""
		if n.Try.Catching {
			then = n.task.Try.Catch.Then
		}
		m.complete(n, out, then)
	case dsl.Listen:
		m.nextEvent(n, out)
	default:
		m.complete(n, out, "")
	}
}

// fail ends a task with a problem of its own, which an enclosing try may catch.
func (m *machine) fail(n *Node, p *event.Problem) {
	n.cause = nil
	m.propagate(n, p)
}

// propagate ends a task with its own problem, or with that of the inner task in n.cause.
func (m *machine) propagate(n *Node, p *event.Problem) {
	p = m.env.publishable(p, n.task.Ref)
	m.drop(n)
	m.recordFailed(n, p)
	parent := n.parent
	m.enqueue(parent, func() { m.childFailed(parent, n, p) })
}

// childFailed handles the failure of a child in its parent.
func (m *machine) childFailed(parent, child *Node, p *event.Problem) {
	parent.cause = child
	switch {
	case parent.parent == nil && parent.task == m.env.root:
		m.faultAt(causeChain(child), p, "")
	case parent.task.Kind == dsl.Try && !parent.Try.Catching:
		m.caught(parent, p)
	case parent.task.Kind == dsl.Fork:
		m.branchFailed(parent, child, p)
	default:
		m.propagate(parent, p)
	}
}

// publishable returns a copy of a problem in its published form: with the type as a URI,
// an instance, and without secrets in title and detail.
func (env *Env) publishable(p *event.Problem, ref string) *event.Problem {
	full := *p
	full.Type = event.FullType(p.Type, env.base)
	full.Title, full.Detail = env.opts.Redactor.Redact(p.Title), env.opts.Redactor.Redact(p.Detail)
	full.Instance = cmp.Or(p.Instance, ref)
	return &full
}

// close removes a task that ends from the active ones.
func (m *machine) close(n *Node) {
	n.closed = true
	for _, t := range n.Timers {
		m.cancelTimer(t)
	}
	n.Timers = nil
	delete(m.open, n.id)
	siblings := n.parent.Children
	if i := slices.Index(siblings, n); i >= 0 && len(siblings) == 1 {
		siblings[0], n.parent.Children = nil, siblings[:0]
	} else if i >= 0 {
		n.parent.Children = slices.Concat(siblings[:i], siblings[i+1:]) // a copy: a caller may range over the old list
	}
}
