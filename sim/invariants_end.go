package sim

import (
	"slices"
	"strings"

	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/store"
)

// dated checks the times of an execution against its history.
func (w *simulation) dated(x store.Execution, history []event.Event, broken reportFunc) {
	if len(history) == 0 {
		return
	}
	if first := history[0].Time; !x.CreatedAt.Equal(first) {
		broken(ruleKept, x.ID, "it was created at %v, its history begins at %v", x.CreatedAt, first)
	}
	last := history[len(history)-1].Time
	switch over := decide.Status(x.Status).Ended(); {
	case over && !x.EndedAt.Equal(last):
		broken(ruleKept, x.ID, "it has ended at %v, its history at %v", x.EndedAt, last)
	case !over && !x.EndedAt.IsZero():
		broken(ruleKept, x.ID, "it goes on, and has ended at %v", x.EndedAt)
	}
}

// openList is the list of running executions; there is one more list for each final
// status.
const openList = "open"

func executionIndexes() []string { return []string{openList, "completed", "faulted", "cancelled"} }

const ruleListed = "every execution is listed by its status"

// listed checks the lists of executions: each execution is in exactly one list, the one
// of its status, ordered by creation time.
func (w *simulation) listed(ends []End, broken reportFunc) {
	places := map[string]string{}
	for _, tenant := range w.tenants {
		for _, list := range executionIndexes() {
			w.memory.Ranked(store.Keys{}.Executions(tenant, list), func(id string, score float64) {
				id = w.label(tenant, id)
				if w.tenantOf(id) != tenant {
					broken(ruleApart, id, "it is listed by tenant %s", tenant)
				}
				begun(id, list, score, ends, broken)
				noteList(id, list, places, broken)
			})
		}
	}
	misplaced(ends, places, broken)
}

// noteList records the list of an execution, and checks that it is in no other one.
func noteList(id, list string, places map[string]string, broken reportFunc) {
	if other := places[id]; other != "" {
		broken(ruleListed, id, "it is among the %s ones and the %s ones", other, list)
	}
	places[id] = list
}

// begun checks that a listed execution exists and that its score is its creation time.
func begun(id, list string, at float64, ends []End, broken reportFunc) {
	i := slices.IndexFunc(ends, func(end End) bool { return end.ID == id })
	if i < 0 {
		broken(ruleListed, id, "it is among the %s ones, and there is nothing of it", list)
	} else if h := ends[i].History; len(h) > 0 && int64(at) != h[0].Time.UnixMilli() {
		broken(ruleListed, id, "it is listed as of %v, and began at %v", int64(at), h[0].Time)
	}
}

// misplaced reports executions that are not in the list of their status.
func misplaced(ends []End, places map[string]string, broken reportFunc) {
	for _, end := range ends {
		want := openList
		if end.Status.Ended() {
			want = string(end.Status)
		}
		if end.Status != "" && end.Status != Removed && places[end.ID] != want {
			broken(ruleListed, end.ID, "it is %s, and among the %q ones", end.Status, places[end.ID])
		}
	}
}

// known reports whether the engine documents a key.
func (w *simulation) known(key string, ends []End) bool {
	for _, tenant := range w.tenants {
		if rest, ours := strings.CutPrefix(key, store.Keys{}.Tenant(tenant)+":"); ours {
			return w.knownOf(tenant, rest, ends)
		}
	}
	return strings.HasPrefix(key, "flunq:timers:") || key == store.Keys{}.Tenants()
}

// knownOf reports whether a tenant's key, without its prefix, is documented.
func (w *simulation) knownOf(tenant, rest string, ends []End) bool {
	if rest == "workflows" || rest == "events" {
		return true
	}
	for _, prefix := range []string{"events:", "executions:", "workflow:definition:", "listen:"} {
		if strings.HasPrefix(rest, prefix) {
			return true
		}
	}
	id, isExecution := strings.CutPrefix(rest, "execution:")
	id = w.label(tenant, strings.TrimSuffix(id, ":history"))
	return isExecution && w.tenantOf(id) == tenant && slices.ContainsFunc(ends, func(end End) bool { return end.ID == id })
}

// checkKeys checks that no unknown keys and no timers are left.
func (w *simulation) checkKeys(ends []End, broken reportFunc) {
	for _, key := range w.memory.Keys("") {
		if !w.known(key, ends) {
			broken("no key is left over", "", "%s belongs to nothing", key)
		}
	}
	const order = 40 // digits, and a blank before the timer
	w.memory.Fields("flunq:timers:keys", func(identity, timer string) {
		if len(timer) > order+1 {
			broken("no timer is left", "", "that of %s is known still", identity)
		}
	})
	w.notes(ends, broken)
}

// notes checks that ended executions keep no working data.
func (w *simulation) notes(ends []End, broken reportFunc) {
	for _, end := range ends {
		if !end.Status.Ended() {
			continue
		}
		w.memory.Fields(w.keyOf(end.ID), func(name, _ string) {
			if strings.Contains(name, ":") || name == "snapshot" || name == "snapshot_version" {
				broken("an ended execution keeps no working data", end.ID, "%s is left", name)
			}
		})
	}
}
