package sim

import (
	"slices"
	"strings"

	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/executor"
	"flunq.io/flunq/engine/expr"
)

const idempotencyKey = "Idempotency-Key"

// Rekeyed is a call whose task sets its own idempotency key, and sets it wrongly.
type Rekeyed struct {
	Action

	Before, Now string // the keys of the earlier and the later call; equal if two different calls share one key
}

// ownKey reports whether the task of a call sets its own idempotency key.
func (w *simulation) ownKey(from executor.Origin) bool {
	own, known := w.ownKeys[from.Run.Ref]
	if !known {
		own = slices.ContainsFunc(append([]*dsl.Definition{w.cfg.Definition}, w.cfg.With...), func(def *dsl.Definition) bool {
			t := def.Task(from.Run.Ref)
			return t != nil && SetsKey(t)
		})
		if w.ownKeys == nil {
			w.ownKeys = map[string]bool{}
		}
		w.ownKeys[from.Run.Ref] = own
	}
	return own
}

// SetsKey reports whether a task's calls set the Idempotency-Key header. It also reports
// true if the headers are computed as a whole, since they may contain it.
func SetsKey(t *dsl.Task) bool {
	switch {
	case t.Call == nil:
		return false
	case t.Call.Function != nil:
		return SetsKey(t.Call.Function)
	case t.Call.HTTP != nil:
		return names(t.Call.HTTP.Headers, idempotencyKey)
	case t.Call.OpenAPI != nil:
		return names(t.Call.OpenAPI.Parameters, idempotencyKey)
	default:
		return false
	}
}

// names reports whether an object has a member, or may have it because the object is
// computed.
func names(object *expr.Value, member string) bool {
	if object == nil {
		return false
	}
	if object.Program() != nil {
		return true
	}
	for _, f := range object.Fields() {
		if strings.EqualFold(f.Key, member) {
			return true
		}
	}
	data, _ := object.Constant()
	values, _ := data.(map[string]any)
	for name := range values {
		if strings.EqualFold(name, member) {
			return true
		}
	}
	return false
}

// reused compares a key that a task sets with those of earlier calls: a repeated call
// must have the same key, and another task run a different one.
func (w *simulation) reused(d Action, run, key string) {
	if known, ok := w.idempotency["own "+run]; ok && known != key {
		w.rekeyed = append(w.rekeyed, Rekeyed{d, known, key})
	}
	of := "own " + d.Execution + " " + d.Method + " " + d.URL + " " + key
	if other, ok := w.idempotency[of]; ok && other != run && key != "" {
		w.rekeyed = append(w.rekeyed, Rekeyed{d, key, key})
	}
	w.idempotency["own "+run], w.idempotency[of] = key, run
}
