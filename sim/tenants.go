package sim

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"flunq.io/flunq/engine/executor"
)

// tenants are those over which the executions are spread. They have a Redis, its
// timers, and processes in common, and nothing else.
func (cfg Config) tenants() []string {
	out := []string{cfg.Tenant}
	for i := 1; i < cfg.Tenants; i++ {
		out = append(out, fmt.Sprintf("%s-%d", cfg.Tenant, i+1))
	}
	return out
}

// label is what the world calls an execution of a tenant. Where tenants have executions
// of the same ids, that of another than the first is called as it would be if they had not.
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

// idOf is the id of an execution that the world calls so.
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

// below is what the id of an execution has behind that of one that was started, if it
// is that one, or was begun by it.
func below(id, root string) (rest string, ok bool) {
	rest, ok = strings.CutPrefix(id, root)
	return rest, ok && (rest == "" || rest[0] == '.')
}

// originOf is the task that a call is made for.
func (w *simulation) originOf(req *http.Request) executor.Origin {
	from := executor.OriginOf(req)
	if w.current != nil {
		from.Execution = w.label(w.current.tenant, from.Execution)
	}
	return from
}

// tenantOf is the tenant of an execution, or of what has started it.
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

// streamOf is the key of a tenant's events.
func streamOf(tenant string) string { return "tenant:" + tenant + ":events" }

// isStream reports whether a key is that of a tenant's events.
func (w *simulation) isStream(key string) bool { return slices.Contains(w.streams, key) }

// keyOf is the key of an execution.
func (w *simulation) keyOf(label string) string {
	return executionKey(w.tenantOf(label), w.idOf(label))
}

// executionKey is that of an execution; of all those of its tenant without an id.
func executionKey(tenant, id string) string { return "tenant:" + tenant + ":execution:" + id }

// executionIn is the execution that a key is about: of its state, or of its history.
func (w *simulation) executionIn(key string) (id string, history, ok bool) {
	for _, tenant := range w.tenants {
		if rest, ours := strings.CutPrefix(key, executionKey(tenant, "")); ours {
			id, history = strings.CutSuffix(rest, ":history")
			return w.label(tenant, id), history, true
		}
	}
	return "", false, false
}

// ruleApart is that tenants have nothing of one another.
const ruleApart = "what is a tenant's is with that tenant"
