package sim

import (
	"context"
	"slices"

	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/dsl"
)

// listening looks for tasks that listen though nobody would tell them of an event: those
// of an execution that has not ended, and what they wait for by the name of its type.
func (w *world) listening(ctx context.Context, id string, state *decide.State, broken breaks) {
	if state.Status.Ended() {
		return
	}
	for _, n := range state.Open() {
		if n.Listen == nil || n.Listen.Deaf {
			continue
		}
		to := n.Task().Listen.To
		filters := to.Filters
		if to.UntilEvent != nil {
			filters = slices.Concat(filters, to.UntilEvent.Filters)
		}
		for _, typ := range typesIn(filters) {
			if !w.hears(ctx, id, typ) && !w.hears(ctx, id, "*") {
				broken("who listens is told", id, "%s waits for %s, and stands on no list for it", runName(n.Run.String()), typ)
			}
		}
	}
}

// hears reports whether an execution stands on the list of those that wait for a type.
func (w *world) hears(ctx context.Context, id, typ string) bool {
	there, err := w.client.SIsMember(ctx, "tenant:"+w.tenantOf(id)+":listen:"+typ, w.idOf(id)).Result()
	return there || err != nil
}

// typesIn are the types that filters name as they are.
func typesIn(filters []dsl.EventFilter) (types []string) {
	for _, f := range filters {
		for _, attribute := range f.With {
			if attribute.Key != "type" {
				continue
			}
			if v, ok := attribute.Value.Constant(); ok {
				if typ, ok := v.(string); ok {
					types = append(types, typ)
				}
			}
		}
	}
	return types
}
