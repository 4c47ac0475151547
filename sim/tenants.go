package sim

import (
	"fmt"
	"slices"
	"strings"
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

// inCompany has the executions of some seeds run in two tenants, side by side: one
// that nobody asked for if there would be but one.
func (sc Scenario) inCompany() Scenario {
	const once = 8
	if choice(sc.Seed, "tenants")%once == 1 {
		sc.Tenants, sc.Executions = 2, max(sc.Executions, 2) //nolint:mnd // two are company
	}
	return sc
}

// tenantOf is the tenant of an execution, or of what has started it.
func (w *world) tenantOf(id string) string {
	if len(w.tenants) > 1 {
		for i, root := range w.ids {
			if rest, ok := strings.CutPrefix(id, root); ok && (rest == "" || rest[0] == '.') {
				return w.tenants[i%len(w.tenants)]
			}
		}
	}
	return w.cfg.Tenant
}

// streamOf is the key of a tenant's events.
func streamOf(tenant string) string { return "tenant:" + tenant + ":events" }

// isStream reports whether a key is that of a tenant's events.
func (w *world) isStream(key string) bool { return slices.Contains(w.streams, key) }

// executionKey is that of an execution; of all those of its tenant without an id.
func executionKey(tenant, id string) string { return "tenant:" + tenant + ":execution:" + id }

// executionIn is the execution that a key is about: of its state, or of its history.
func (w *world) executionIn(key string) (id string, history, ok bool) {
	for _, tenant := range w.tenants {
		if rest, ours := strings.CutPrefix(key, executionKey(tenant, "")); ours {
			id, history = strings.CutSuffix(rest, ":history")
			return id, history, true
		}
	}
	return "", false, false
}

// ruleApart is that tenants have nothing of one another.
const ruleApart = "what is a tenant's is with that tenant"
