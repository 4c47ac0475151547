package sim

import (
	"context"

	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/store"
)

// foreignDefinitions returns the definitions as another tenant has them: the same names, versions and
// meaning, but with source texts of their own.
func foreignDefinitions(cfg Config) []*dsl.Definition {
	var out []*dsl.Definition
	for _, def := range append([]*dsl.Definition{cfg.Definition}, cfg.With...) {
		text := append([]byte("# of another tenant\n"), def.Source...)
		own, _, err := dsl.Parse(def.ID(), text)
		if err != nil || own.ID() != def.ID() {
			return nil // all tenants share the same texts then
		}
		out = append(out, own)
	}
	return out
}

// definitions returns those that a tenant registers, the main one last.
func (w *simulation) definitions(tenant string) []*dsl.Definition {
	own := append([]*dsl.Definition{w.cfg.Definition}, w.cfg.With...)
	if tenant != w.cfg.Tenant && len(w.cfg.foreignDefinitions) > 0 {
		own = w.cfg.foreignDefinitions
	}
	return append(own[1:len(own):len(own)], own[0])
}

// checkDefinitionTenant checks that the definition of an execution belongs to its own tenant.
func (w *simulation) checkDefinitionTenant(ctx context.Context, x store.Execution, broken reportFunc) {
	if len(w.cfg.foreignDefinitions) == 0 || len(w.tenants) == 1 {
		return
	}
	key := store.Keys{}.Definition(w.tenantOf(x.ID), x.Workflow)
	if there, err := w.client.HExists(ctx, key, "text:"+x.Definition).Result(); err == nil && !there {
		broken(ruleApart, x.ID, "its definition %s is another tenant's", x.Definition)
	}
}
