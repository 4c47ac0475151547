package decide

import (
	"fmt"
	"strings"
	"time"

	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/expr"
	"flunq.io/flunq/engine/expr/canonical"
)

// Ready reports whether Advance has a task to compute. It is false while suspended.
func (s *State) Ready() bool {
	for len(s.inline) > 0 && (s.inline[0].closed || !s.inline[0].Inline) {
		s.shift()
	}
	return len(s.inline) > 0 && !s.Paused && !s.Status.Ended()
}

// shift removes the first task from the queue of tasks to compute.
func (s *State) shift() {
	if s.inline[0] = nil; len(s.inline) == 1 {
		s.inline = s.inline[:0]
		return
	}
	s.inline = s.inline[1:]
}

// Advance computes one task in the worker, and applies the result as if an executor had
// sent it. It does nothing unless Ready.
func (s *State) Advance(env *Env, d *Decision) {
	if !s.Ready() {
		return
	}
	n := s.inline[0]
	s.shift() // before the result is applied so that the list need not grow for the next task
	m := newMachine(s, env, d)
	c := env.compute(n.task, m.scope(n, n.Input.V), s.Execution, n.id)
	e := m.event(event.TaskCompleted, n.id, c.append(taskMembers(n, 96)))
	s.append(d, e)
	m.result(n, c.Completed, c.output)
	m.run()
	if !s.Status.Ended() {
		s.Status = s.phase()
	}
}

// computed is a result whose output is not encoded yet.
type computed struct {
	event.Completed
	output any
}

// append completes the JSON object that taskMembers began by adding the result, in the form
// that executors send.
func (c *computed) append(data []byte) []byte {
	if !c.Success {
		data = append(data, `,"success":false,"error":`...)
		data = append(data, event.Encode(c.Error)...)
		return append(data, `,"duration_ms":0}`...)
	}
	data = append(data, `,"success":true,"output":`...)
	data = canonical.Append(data, c.output)
	if c.Then != "" {
		data = append(data, `,"then":`...)
		data = canonical.AppendText(data, c.Then)
	}
	return append(data, `,"duration_ms":0}`...)
}

// Computes reports whether a task only computes so that the worker can perform it itself:
// set, switch, raise, emit and inject.
func Computes(t *dsl.Task) bool {
	switch t.Kind {
	case dsl.Set, dsl.Switch, dsl.Raise, dsl.Emit, dsl.Inject:
		return true
	default:
		return false
	}
}

// Compute performs a task that only computes. For any other task ok is false.
func (env *Env) Compute(t *dsl.Task, s *expr.Scope, execution, taskID string) (result event.Completed, ok bool) {
	if !Computes(t) {
		return event.Completed{}, false
	}
	c := env.compute(t, s, execution, taskID)
	c.TaskID, c.TaskName, c.TaskType = taskID, t.Name, string(t.Kind)
	if c.Success {
		c.Output = canonical.Encode(c.output)
	}
	return c.Completed, true
}

func (env *Env) compute(t *dsl.Task, s *expr.Scope, execution, taskID string) computed {
	c := computed{output: s.Dot}
	var err error
	switch t.Kind {
	case dsl.Set:
		c.output, err = t.Set.Eval(s)
	case dsl.Switch:
		c.Then, err = choose(t, s)
	case dsl.Raise:
		c.Error, err = raise(t, s)
	case dsl.Emit:
		c.output, err = env.cloudEvent(t, s, execution, taskID)
	case dsl.Inject:
		c.output, err = inject(t, s)
	default:
		panic("decide: a task of kind " + string(t.Kind) + " cannot be computed")
	}
	c.output = canonical.Form(c.output)
	if err == nil {
		err = env.opts.Limits.Output(c.output)
	}
	if err != nil {
		c.Error = problemOf(err)
	}
	if c.Error != nil {
		c.Error = env.publishable(c.Error, t.Ref)
	}
	c.Success = c.Error == nil
	return c
}

// choose returns the directive of the first case that holds, otherwise of the default case,
// or "".
func choose(t *dsl.Task, s *expr.Scope) (then string, err error) {
	for _, c := range t.Switch {
		if c.When == nil {
			then = c.Then
			continue
		}
		ok, err := c.When.Test(s)
		if err != nil {
			return "", err
		}
		if ok {
			return c.Then, nil
		}
	}
	return then, nil
}

// raise returns the error that a raise task describes.
func raise(t *dsl.Task, s *expr.Scope) (*event.Problem, error) {
	p := &event.Problem{}
	err := evalTexts(s, []textValue{
		{t.Raise.Type, &p.Type, "the type of an error"},
		{t.Raise.Title, &p.Title, ""},
		{t.Raise.Detail, &p.Detail, ""},
		{t.Raise.Instance, &p.Instance, ""},
	})
	if err != nil {
		return nil, err
	}
	if t.Raise.Status != nil {
		v, err := t.Raise.Status.Eval(s)
		if err != nil {
			return nil, err
		}
		status, ok := v.(int)
		if !ok {
			return nil, event.NewProblem(event.Expression, "the status of an error is "+canonical.Text(v)+", want a whole number")
		}
		p.Status = status
	}
	return p, nil
}

// textValue is a value that yields text, which is stored in text. Null leaves the text empty; it is
// an error if required names the value.
type textValue struct {
	value    *expr.Value
	text     *string
	required string
}

// evalTexts evaluates those of the values that are not nil.
func evalTexts(s *expr.Scope, values []textValue) error {
	for _, one := range values {
		if one.value == nil {
			continue
		}
		v, err := one.value.Eval(s)
		if err != nil {
			return err
		}
		switch {
		case v != nil:
			*one.text = canonical.Text(v)
		case one.required != "":
			return event.NewProblem(event.Expression, one.required+" is null, want text")
		}
	}
	return nil
}

// cloudEvent returns the event that an emit task sends, as an object of its attributes.
func (env *Env) cloudEvent(t *dsl.Task, s *expr.Scope, execution, taskID string) (any, error) {
	v, err := t.Emit.Eval(s)
	if err != nil {
		return nil, err
	}
	attributes, ok := v.(map[string]any)
	if !ok {
		return nil, event.NewProblem(event.Expression, "the event is "+canonical.Text(v)+", want an object")
	}
	doc := env.def.Document
	out := map[string]any{
		"specversion": event.SpecVersion,
		"id":          execution + taskID,
		"source":      "/" + doc.Namespace + "/" + doc.Name + "/" + doc.Version,
		"time":        s.Now.UTC().Format(time.RFC3339Nano),
	}
	for name, value := range attributes {
		if value != nil {
			out[name] = value
		}
	}
	if _, ok := out["data"]; ok && out["datacontenttype"] == nil {
		out["datacontenttype"] = "application/json"
	}
	if typ, ok := out["type"].(string); !ok || typ == "" {
		return nil, event.NewProblem(event.Expression, "the type of the event is "+canonical.Text(out["type"])+", want text")
	} else if strings.HasPrefix(typ, event.Prefix) {
		return nil, event.NewProblem(event.Configuration, "types of events that begin with "+event.Prefix+" are the engine's own")
	}
	for _, name := range []string{"id", "source"} {
		if canonical.Text(out[name]) == "" {
			return nil, event.NewProblem(event.Expression, "the "+name+" of the event is empty")
		}
	}
	at := canonical.Text(out["time"])
	if _, err := time.Parse(time.RFC3339Nano, at); err != nil {
		return nil, event.NewProblem(event.Expression, fmt.Sprintf("the time of the event is %q, want one such as 2026-01-31T08:00:00Z", at))
	}
	if _, err := inputTimer(out, s.Now); err != nil {
		return nil, err
	}
	for _, name := range []string{"type", "id"} { // consumers match events by these, so they cannot be sealed
		if text, ok := out[name].(string); ok && env.opts.Redactor.Holds(text) {
			return nil, event.NewProblem(event.Expression, "the "+name+" of the event holds a secret, which everyone could read: put it into the data")
		}
	}
	return out, nil
}

// inject merges the task's data into its input, recursively.
func inject(t *dsl.Task, s *expr.Scope) (any, error) {
	data, err := t.Inject.Eval(s)
	if err != nil {
		return nil, err
	}
	return canonical.Merge(s.Dot, data), nil
}
