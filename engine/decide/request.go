package decide

import (
	"slices"

	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/expr"
	"flunq.io/flunq/engine/expr/canonical"
)

// variables returns the variables that the expressions use that an executor evaluates for a task, sorted.
func variables(t *dsl.Task) []string {
	var names []string
	values := []*expr.Value{t.Set, t.Inject, t.Emit}
	for _, c := range t.Switch {
		if c.When != nil {
			names = append(names, c.When.Vars()...)
		}
	}
	if e := t.Raise; e != nil {
		values = append(values, e.Type, e.Status, e.Title, e.Detail, e.Instance)
	}
	if t.Call != nil {
		values = append(values, t.Call.Values()...)
	}
	for _, v := range values {
		for program := range v.Programs {
			names = append(names, program.Vars()...)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// request publishes the request for a task to the executors.
func (m *machine) request(n *Node, e event.Event) (err error) {
	if e.Data, err = m.requested(n); err != nil {
		return err
	}
	m.d.Publish = append(m.d.Publish, e)
	return nil
}

// requested returns the data of the published request for a task.
func (m *machine) requested(n *Node) ([]byte, error) {
	data := taskMembers(n, 256)
	data = append(data, `,"input":`...)
	data = canonical.Append(data, n.Input.V)
	data = append(data, `,"config":`...)
	data = canonical.Append(data, n.task.Raw)
	scope, vars := m.scope(n, n.Input.V), map[string]any{}
	for _, name := range variables(n.task) {
		switch name {
		case "input", "secrets", "runtime", "authorization": // the executor computes these, unless a loop uses the name
			if _, bound := n.parent.bound(name); !bound {
				continue
			}
		}
		value, err := scope.Var(name)
		if err != nil {
			return nil, err
		}
		vars[name] = value
	}
	if len(vars) > 0 {
		data = append(data, `,"vars":`...)
		data = canonical.Append(data, vars)
	}
	if n.task.Kind == dsl.Call && m.Nonce != "" {
		data = canonical.AppendText(append(data, `,"nonce":`...), m.Nonce)
	}
	return append(data, '}'), nil
}

// onCompleted applies the result of a requested task.
func (m *machine) onCompleted(e event.Event) (func(), error) {
	n := m.open[e.Task]
	if n == nil || !n.requestable() {
		return nil, nil
	}
	var c event.Completed
	if err := DecodeData(e, &c); err != nil {
		return nil, err
	}
	output, err := decodeOr(c.Output, nil)
	if err != nil {
		return nil, err
	}
	return func() { m.result(n, c, output) }, nil
}

// requestable reports whether an executor or a child execution performs the task.
func (n *Node) requestable() bool {
	switch n.task.Kind {
	case dsl.Call:
		return n.task.Call.Function == nil
	case dsl.Run:
		return n.Child != ""
	default:
		return Computes(n.task)
	}
}

// result continues the execution with the result of a task.
func (m *machine) result(n *Node, c event.Completed, output any) {
	n.Inline, n.reported, n.failed, n.Child = false, true, !c.Success, ""
	if !c.Success {
		p := c.Error
		if p == nil {
			p = event.NewProblem(event.Runtime, "the task failed without saying why")
		}
		m.fail(n, p)
		return
	}
	if n.task.Kind == dsl.Emit {
		if err := m.emit(output); err != nil {
			m.fail(n, problemOf(err))
			return
		}
	}
	m.complete(n, output, c.Then)
}
