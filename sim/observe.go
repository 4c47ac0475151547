package sim

import (
	"context"
	"maps"
	"slices"

	"flunq.io/flunq/engine/event"
)

// observe counts what the workers committed behind a version of a history, and
// shows it. What was committed without its worker getting to know, which is what a
// lost reply means, is shown before it.
func (w *simulation) observe(after int64, events []event.Event) {
	id := w.label(events[0].Tenant, events[0].Execution)
	if after > w.seen[id] {
		w.unheard(context.Background(), id, after-w.seen[id]) //nolint:forbidigo // an observer is given none
	}
	if known := w.seen[id] - after; known > 0 {
		events = events[min(known, int64(len(events))):]
	}
	w.show(id, events)
}

// uncover shows what nobody got to know until the end.
func (w *simulation) uncover(ctx context.Context) {
	if len(w.struck) == 0 {
		return
	}
	ids := slices.Clone(w.ids)
	for _, id := range slices.Sorted(maps.Keys(w.seen)) {
		if !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	const all = 1 << 30
	for _, id := range ids {
		w.unheard(ctx, id, all)
	}
}

// unheard reads so many entries of a history that were not observed.
func (w *simulation) unheard(ctx context.Context, id string, count int64) {
	current := w.current
	w.current = nil // it is the world that reads
	events, err := w.engine.Store.History(ctx, w.tenantOf(id), w.idOf(id), w.seen[id], int(count))
	w.current = current
	if err == nil { // else the oracles find out
		w.show(id, events)
	}
}

func (w *simulation) show(id string, events []event.Event) {
	if len(events) == 0 {
		return
	}
	w.seen[id] += int64(len(events))
	w.events += len(events)
	for _, e := range events {
		w.trace.add(e)
		w.tookIn(e)
		switch e.Type { //nolint:exhaustive // the others count for nothing
		case event.TaskRequested:
			w.tasks++
		case event.ExecutionStarted:
			if !slices.Contains(w.ids, id) {
				w.living++
			}
		case event.WorkflowCompleted, event.WorkflowFailed, event.WorkflowCancelled:
			w.living--
		}
	}
	if w.cfg.Observe != nil {
		w.cfg.Observe(called(events, id))
	}
}

// called are events as those of an execution that the world calls so.
func called(events []event.Event, label string) []event.Event {
	if len(events) == 0 || events[0].Execution == label {
		return events
	}
	out := slices.Clone(events)
	for i := range out {
		out[i].Execution = label
	}
	return out
}
