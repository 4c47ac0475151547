package report

import (
	"fmt"

	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/expr/canonical"
)

// historyReplay replays the history of an execution as far as possible. It determines the inputs
// of tasks, which a history does not contain.
type historyReplay struct {
	env   *decide.Env
	state *decide.State // nil: the history differs, because of other code or secrets
}

// follow replays an event of a run, and keeps the input of a task that begins.
func (r *Recording) follow(e event.Event, x *run) {
	w := r.replays[e.Execution]
	if w == nil {
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
	if w.take(e) != nil {
		w.state = nil
		return
	}
	if e.Type != event.TaskRequested {
		return
	}
	if scope := w.state.ScopeOf(w.env, e.Task); scope != nil {
		x.input = r.datum(canonical.Encode(scope.Dot))
		if context, err := scope.Var("context"); err == nil && !empty(context) {
			x.context = r.datum(canonical.Encode(context))
		}
	}
}

// take applies an event. It converts a panic of the engine into an error.
func (w *historyReplay) take(e event.Event) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("decide: %v", p)
		}
	}()
	return w.state.Replay(w.env, []event.Event{e})
}

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
