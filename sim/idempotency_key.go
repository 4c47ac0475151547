package sim

import (
	"net/http"
	"slices"
	"strings"

	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/executor/call"
	"flunq.io/flunq/engine/expr"
)

const idempotencyKey = "Idempotency-Key"

// KeyMisuse is a call whose task sets its own idempotency key wrongly.
type KeyMisuse struct {
	CallID

	Before, Now string // the keys of the earlier and the later call; equal if two different calls share one key
}

// ownKey reports whether the task of a call sets its own idempotency key.
func (mon *monitor) ownKey(from call.Origin) bool {
	own, known := mon.ownKeys[from.Run.Ref]
	if !known {
		own = slices.ContainsFunc(mon.cfg.Definitions(), func(def *dsl.Definition) bool {
			t := def.Task(from.Run.Ref)
			return t != nil && setsKey(t)
		})
		mon.ownKeys[from.Run.Ref] = own
	}
	return own
}

// setsKey reports whether a task's calls set the Idempotency-Key header. It also reports
// true if the headers are computed as a whole, since they may contain it.
func setsKey(t *dsl.Task) bool {
	switch {
	case t.Call == nil:
		return false
	case t.Call.Function != nil:
		return setsKey(t.Call.Function)
	case t.Call.HTTP != nil:
		return mayHaveKey(t.Call.HTTP.Headers)
	case t.Call.OpenAPI != nil:
		return mayHaveKey(t.Call.OpenAPI.Parameters)
	default:
		return false
	}
}

// mayHaveKey reports whether an object has a member Idempotency-Key, or may have it because the object
// is computed.
func mayHaveKey(object *expr.Value) bool {
	if object == nil {
		return false
	}
	if object.Program() != nil {
		return true
	}
	for _, f := range object.Fields() {
		if strings.EqualFold(f.Key, idempotencyKey) {
			return true
		}
	}
	data, _ := object.Constant()
	values, _ := data.(map[string]any)
	for name := range values {
		if strings.EqualFold(name, idempotencyKey) {
			return true
		}
	}
	return false
}

// checkOwnKey compares a key that a task sets with those of earlier calls: a repeated call
// must have the same key, and another task run a different one.
func (mon *monitor) checkOwnKey(id CallID, run, key string) {
	if known, ok := mon.idempotency["own "+run]; ok && known != key {
		mon.rekeyed = append(mon.rekeyed, KeyMisuse{id, known, key})
	}
	of := "own " + id.Execution + " " + id.Method + " " + id.URL + " " + key
	if other, ok := mon.idempotency[of]; ok && other != run && key != "" {
		mon.rekeyed = append(mon.rekeyed, KeyMisuse{id, key, key})
	}
	mon.idempotency["own "+run], mon.idempotency[of] = key, run
}

// checkKey checks the idempotency key of a call: a task run keeps its key over all deliveries
// and attempts, and no other run has the same one. A key that the document sets is the
// document's responsibility: a wrong one is recorded as KeyMisuse.
func (mon *monitor) checkKey(from call.Origin, req *http.Request) {
	key := req.Header.Get(idempotencyKey)
	run := from.Execution + " " + event.Run{Ref: from.Run.Ref, Iteration: from.Run.Iteration}.String()
	if mon.ownKey(from) {
		mon.checkOwnKey(callID(from, req), run, key)
		return
	}
	if key == "" {
		if req.Method != http.MethodGet && req.Method != http.MethodHead {
			mon.report("every call that changes something has an idempotency key", from.Execution, "%s %s has none", req.Method, req.URL.Redacted())
		}
		return
	}
	if known := mon.idempotency[run]; known != "" && known != key {
		mon.report("a task run keeps its idempotency key", from.Execution, "that of %s was %s, and is now %s", from.Run, known, key)
	}
	if other := mon.idempotency["key "+key]; other != "" && other != run {
		mon.report("an idempotency key belongs to one task run", from.Execution, "%s belongs to %s and to %s", key, other, run)
	}
	mon.idempotency[run], mon.idempotency["key "+key] = key, run
}
