package decide

import (
	"fmt"
	"time"

	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/expr"
	"flunq.io/flunq/engine/expr/canonical"
)

// runtimeName is the value of $runtime.name.
const runtimeName = "flunq"

// evaluator evaluates the expressions of tasks, each in its own scope. It changes nothing but
// $context.
type evaluator struct {
	*State

	env *Env
}

// view is the scope of one task's expressions.
type view struct {
	expr.Scope

	ev        *evaluator
	n         *Node
	around    *Node // innermost task whose variables are visible
	raw       any   // raw output, once there is one
	out       *any  // output after output.as, once there is one
	hasOutput bool
}

// scope returns the scope of the expressions of a task, with dot as their input. The variables
// that the task binds are not visible: a task around it may bind others with the same names.
func (ev *evaluator) scope(n *Node, dot any) *expr.Scope { return &ev.view(n, n.parent, dot).Scope }

// innerScope returns the scope of those expressions of a task that see the variables that it binds.
func (ev *evaluator) innerScope(n *Node, dot any) *expr.Scope { return &ev.view(n, n, dot).Scope }

// outputScope returns the scope of output.as, if out is nil, or of export.as.
func (ev *evaluator) outputScope(n, around *Node, raw any, out *any) *expr.Scope {
	v := ev.view(n, around, raw)
	v.raw, v.out, v.hasOutput = raw, out, true
	if out != nil {
		v.Dot = *out
	}
	return &v.Scope
}

func (ev *evaluator) view(n, around *Node, dot any) *view {
	v := &view{Scope: expr.Scope{Dot: dot, Now: ev.Now}, ev: ev, n: n, around: around}
	v.Var = v.value
	return v
}

// value returns the value of a variable. The parser has checked that the variable may be
// used here, so a missing value is the engine's fault.
func (v *view) value(name string) (any, error) {
	if bound, ok := v.around.bound(name); ok {
		return bound, nil
	}
	switch name {
	case "context":
		return v.ev.contextOf(v.n), nil
	case "input":
		return v.n.Input.V, nil
	case "output":
		if v.out == nil {
			return nil, nil
		}
		return *v.out, nil
	case "task":
		return v.task(), nil
	case "workflow":
		return v.ev.workflow(), nil
	case "authorization":
		return authorization(v.n.task, &expr.Scope{Dot: v.n.Input.V, Now: v.ev.Now, Var: v.value})
	default:
		return v.ev.env.constant(name)
	}
}

// bound returns the value of a variable that the task or one around it binds. A function sees none of
// those around its call.
func (n *Node) bound(name string) (any, bool) {
	for ; n != nil && n.task.Kind != dsl.Call; n = n.parent {
		if value, ok := n.Vars[name]; ok {
			return value.V, true
		}
	}
	return nil, false
}

// constant returns the variables that are the same for all executions of an Env.
func (env *Env) constant(name string) (any, error) {
	switch name {
	case "secrets":
		if env.opts.Secrets == nil {
			return map[string]any{}, nil
		}
		return env.opts.Secrets, nil
	case "runtime":
		return map[string]any{"name": runtimeName, "version": env.opts.Version, "metadata": map[string]any{}}, nil
	default:
		return nil, fmt.Errorf("variable $%s has no value here", name)
	}
}

// task returns the value of $task.
func (v *view) task() map[string]any {
	t := map[string]any{
		"name":       v.n.task.Name,
		"reference":  v.n.task.Ref,
		"definition": v.n.task.Raw,
		"input":      v.n.Raw.V,
		"startedAt":  dateTime(v.n.StartedAt),
	}
	if v.hasOutput {
		t["output"] = v.raw
	}
	return t
}

// workflow returns the value of $workflow.
func (ev *evaluator) workflow() map[string]any {
	return map[string]any{
		"id":         ev.Execution,
		"definition": ev.env.def.Raw,
		"input":      ev.Input.V,
		"startedAt":  dateTime(ev.StartedAt),
	}
}

// authorization returns the value of $authorization: the result of the task's own
// authentication policy.
func authorization(t *dsl.Task, s *expr.Scope) (any, error) {
	if t.Call == nil || t.Call.Authentication() == nil {
		return nil, nil
	}
	scheme, parameter, err := Authorize(t.Call.Authentication(), s)
	if err != nil {
		return nil, err
	}
	return map[string]any{"scheme": scheme, "parameter": parameter}, nil
}

// dateTime returns a time in the form that expressions see.
func dateTime(t time.Time) map[string]any {
	return map[string]any{
		"iso8601": t.UTC().Format(time.RFC3339Nano),
		"epoch":   map[string]any{"seconds": int(t.Unix()), "milliseconds": int(t.UnixMilli())},
	}
}

// contextOf returns $context as a task sees it: that of the innermost enclosing fork branch, or
// else the execution's.
func (ev *evaluator) contextOf(n *Node) any {
	for ; n != nil; n = n.parent {
		if n.OwnContext != nil {
			return n.OwnContext.Context.V
		}
	}
	return ev.Context.V
}

// setContext replaces $context for n and the tasks that share it.
func (ev *evaluator) setContext(n *Node, context any) {
	for a := n; a != nil; a = a.parent {
		if a.OwnContext != nil {
			a.OwnContext.Context.V = context
			return
		}
	}
	for ; n.parent != nil; n = n.parent {
		if n.ContextBefore == nil {
			n.ContextBefore = &ContextValue{ev.Context}
		}
	}
	ev.Context.V = context
}

// RequestScope returns the scope of a task's expressions in the executor, with the
// variables of the request.
func (env *Env) RequestScope(t *dsl.Task, r event.Requested, now time.Time) (*expr.Scope, error) {
	input, err := decodeOr(r.Input, nil)
	if err != nil {
		return nil, fmt.Errorf("input of %s: %w", r.TaskID, err)
	}
	vars, err := decodeOr(r.Vars, map[string]any{})
	if err != nil {
		return nil, fmt.Errorf("variables of %s: %w", r.TaskID, err)
	}
	bound, ok := vars.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("variables of %s are %T, want an object", r.TaskID, vars)
	}
	s := &expr.Scope{Dot: input, Now: now}
	s.Var = func(name string) (any, error) {
		if v, ok := bound[name]; ok {
			return v, nil
		}
		switch name {
		case "input":
			return input, nil
		case "authorization":
			return authorization(t, s)
		default:
			return env.constant(name)
		}
	}
	return s, nil
}

// decodeOr decodes JSON. It returns none for an empty src.
func decodeOr(src []byte, none any) (any, error) {
	if len(src) == 0 {
		return none, nil
	}
	return canonical.Decode(src)
}
