package sim

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"flunq.io/flunq/engine/executor"
	"flunq.io/flunq/engine/store"
)

// tenants returns the tenants of the executions. They share Redis, its timers and the
// processes, and nothing else.
func (cfg Config) tenants() []string {
	out := []string{cfg.Tenant}
	for i := 1; i < cfg.Tenants; i++ {
		out = append(out, fmt.Sprintf("%s-%d", cfg.Tenant, i+1))
	}
	return out
}

// label returns the id that the simulation uses for a tenant's execution. If tenants have
// executions with the same ids, the executions of other tenants than the first are
// labelled as if they had not.
func (w *simulation) label(tenant, id string) string {
	if !w.cfg.Twins {
		return id
	}
	at := slices.Index(w.tenants, tenant)
	for i := 0; at > 0 && i+at < len(w.ids); i += len(w.tenants) {
		if rest, ok := below(id, w.ids[i]); ok {
			return w.ids[i+at] + rest
		}
	}
	return id
}

// idOf returns the id of an execution with a label.
func (w *simulation) idOf(label string) string {
	if !w.cfg.Twins {
		return label
	}
	for i, root := range w.ids {
		if rest, ok := below(label, root); ok {
			return w.ids[i-i%len(w.tenants)] + rest
		}
	}
	return label
}

// below returns the part of an execution's id after root, if it is root or one of its
// descendants.
func below(id, root string) (rest string, ok bool) {
	rest, ok = strings.CutPrefix(id, root)
	return rest, ok && (rest == "" || rest[0] == '.')
}

// originOf returns the task that a call is made for.
func (w *simulation) originOf(req *http.Request) executor.Origin {
	from := executor.OriginOf(req)
	if w.current != nil {
		from.Execution = w.label(w.current.tenant, from.Execution)
	}
	return from
}

// tenantOf returns the tenant of an execution.
func (w *simulation) tenantOf(id string) string {
	if len(w.tenants) > 1 {
		for i, root := range w.ids {
			if _, ok := below(id, root); ok {
				return w.tenants[i%len(w.tenants)]
			}
		}
	}
	return w.cfg.Tenant
}

// streamOf returns the key of a tenant's events.
func streamOf(tenant string) string { return store.Keys{}.Stream(tenant) }

// isStream reports whether a key is that of a tenant's events.
func (w *simulation) isStream(key string) bool { return slices.Contains(w.streams, key) }

// keyOf returns the key of an execution.
func (w *simulation) keyOf(label string) string {
	return executionKey(w.tenantOf(label), w.idOf(label))
}

// executionKey returns the key of an execution, or without an id the prefix of all keys
// of a tenant's executions.
func executionKey(tenant, id string) string { return store.Keys{}.Execution(tenant, id) }

// executionIn returns the execution that a key belongs to; history reports whether it is
// the key of its history.
func (w *simulation) executionIn(key string) (id string, history, ok bool) {
	for _, tenant := range w.tenants {
		if rest, ours := strings.CutPrefix(key, executionKey(tenant, "")); ours {
			id, history = strings.CutSuffix(rest, ":history")
			return w.label(tenant, id), history, true
		}
	}
	return "", false, false
}

// ruleApart names the rule that tenants share nothing.
const ruleApart = "tenants share nothing"
