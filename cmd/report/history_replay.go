package report

import (
	"slices"

	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/expr/canonical"
)

// historyReplay replays the history of an execution as far as possible. It determines the inputs
// of tasks, which a history does not contain.
type historyReplay struct {
	env   *decide.Env
	state *decide.State
	made  []event.Event // decided but not yet read from the history
}

// follow replays an event.
func (r *Recording) follow(e event.Event) {
	w := r.replays[e.Execution]
	if w == nil {
		x := r.byKey[key(e.Execution, "")]
		if e.Type != event.ExecutionStarted || x == nil || x.doc == nil {
			return
		}
		w = &historyReplay{env: decide.NewEnv(x.doc.def, decide.Options{
			Secrets: placeholders(r.head.Secrets), Version: r.head.Flunq, Remote: true,
		}), state: decide.New()}
		r.replays[e.Execution] = w
	}
	if w.state == nil {
		return
	}
	decided, ok := w.take(e)
	if !ok {
		w.state = nil // the history differs: other code or secrets
		return
	}
	for _, d := range decided {
		r.inputs(w, d)
	}
}

// take applies an event and returns the decided events.
func (w *historyReplay) take(e event.Event) (decided []event.Event, ok bool) {
	if i := slices.IndexFunc(w.made, func(m event.Event) bool { return m.Type == e.Type && m.Task == e.Task }); i >= 0 {
		w.made = slices.Delete(w.made, i, i+1)
		return nil, true
	}
	switch e.Type {
	case event.TaskRequested, event.TimerScheduled, event.TimerCancelled,
		event.WorkflowCompleted, event.WorkflowFailed, event.WorkflowCancelled:
		return nil, false
	default:
	}
	defer func() {
		if recover() != nil {
			ok = false
		}
	}()
	var d decide.Decision
	applied, err := w.state.Apply(w.env, e, &d)
	if err != nil || !applied {
		return nil, false
	}
	w.made = append(w.made, d.History[1:]...)
	return d.History[1:], true
}

// inputs keeps the input of a task until the event of its start is read.
func (r *Recording) inputs(w *historyReplay, e event.Event) {
	if e.Type != event.TaskRequested {
		return
	}
	scope := w.state.ScopeOf(w.env, e.Task)
	if scope == nil {
		return
	}
	g := taskInput{input: r.datum(canonical.Encode(scope.Dot))}
	if context, err := scope.Var("context"); err == nil && !empty(context) {
		g.context = r.datum(canonical.Encode(context))
	}
	r.given[key(e.Execution, e.Task)] = g
}

// taskInput is the input of a task.
type taskInput struct{ input, context *datum }

func empty(v any) bool {
	object, ok := v.(map[string]any)
	return v == nil || ok && len(object) == 0
}

// placeholders returns placeholders for secrets in their shape.
func placeholders(shape any) map[string]any {
	out, ok := placeholder(shape).(map[string]any)
	if !ok {
		return map[string]any{}
	}
	return out
}

func placeholder(shape any) any {
	switch v := shape.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for name, inner := range v {
			out[name] = placeholder(inner)
		}
		return out
	case []any:
		out := make([]any, 0, len(v))
		for _, inner := range v {
			out = append(out, placeholder(inner))
		}
		return out
	default:
		if value, ok := map[any]any{nil: nil, "number": 0, "boolean": false}[v]; ok {
			return value
		}
		return "***"
	}
}
