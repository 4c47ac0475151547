package sim

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"maps"
	"slices"

	"flunq.io/flunq/engine/event"
)

// observe counts the events that a worker committed after a version of a history, and shows
// them. It first shows events whose commit the worker did not learn of, because the reply was
// lost.
func (sim *simulation) observe(after int64, events []event.Event) {
	id := sim.label(events[0].Tenant, events[0].Execution)
	if after > sim.seen[id] {
		sim.readUnobserved(context.Background(), id, after-sim.seen[id]) //nolint:forbidigo // an observer gets no context
	}
	if known := sim.seen[id] - after; known > 0 {
		events = events[min(known, int64(len(events))):]
	}
	sim.show(id, events)
}

// showUnobserved shows at the end the commits whose replies were lost.
func (sim *simulation) showUnobserved(ctx context.Context) {
	if len(sim.injected) == 0 {
		return
	}
	ids := slices.Clone(sim.ids)
	for _, id := range slices.Sorted(maps.Keys(sim.seen)) {
		if !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	const all = 1 << 30
	for _, id := range ids {
		sim.readUnobserved(ctx, id, all)
	}
}

// readUnobserved reads and shows up to count entries of a history that were not observed.
func (sim *simulation) readUnobserved(ctx context.Context, id string, count int64) {
	current := sim.current
	sim.current = nil // the simulation reads, not a service
	events, err := sim.engine.Store.History(ctx, sim.tenantOf(id), sim.idOf(id), sim.seen[id], int(count))
	sim.current = current
	if err == nil { // otherwise the invariants report it
		sim.show(id, events)
	}
}

func (sim *simulation) show(id string, events []event.Event) {
	if len(events) == 0 {
		return
	}
	sim.seen[id] += int64(len(events))
	sim.events += len(events)
	for _, e := range events {
		sim.trace.Add(e)
		sim.missed.recordHistory(e)
		switch e.Type { //nolint:exhaustive // the others are not counted
		case event.TaskRequested:
			sim.tasks++
		case event.ExecutionStarted:
			if !slices.Contains(sim.ids, id) {
				sim.openExecutions++
			}
		case event.WorkflowCompleted, event.WorkflowFailed, event.WorkflowCancelled:
			sim.openExecutions--
		}
	}
	if sim.cfg.Observe != nil {
		sim.cfg.Observe(relabeled(events, id))
	}
}

// relabeled returns events with the execution id that the simulation uses.
func relabeled(events []event.Event, label string) []event.Event {
	if len(events) == 0 || events[0].Execution == label {
		return events
	}
	out := slices.Clone(events)
	for i := range out {
		out[i].Execution = label
	}
	return out
}

// Trace hashes events in their order.
type Trace struct {
	hash hash.Hash
	text []byte // buffer for the event that is added
}

// NewTrace returns an empty Trace.
func NewTrace() *Trace { return &Trace{hash: sha256.New()} }

// Add adds an event.
func (t *Trace) Add(e event.Event) {
	t.text = t.text[:0]
	for _, field := range e.Fields() {
		t.text = append(append(t.text, field...), 0)
	}
	t.hash.Write(append(t.text, 1))
}

// Sum returns the hash of the events so far.
func (t *Trace) Sum() string { return hex.EncodeToString(t.hash.Sum(nil)) }

// OutcomeOf returns a hash of how an execution ended and of its effects, independent of the
// order of events.
func OutcomeOf(r *Result) string {
	h := sha256.New()
	h.Write([]byte(r.Status))
	h.Write([]byte{0})
	h.Write(r.Output)
	h.Write([]byte{0})
	if r.Error != nil {
		h.Write(event.Encode(r.Error))
	}
	if r.Effects != "" { // earlier versions had no effects
		h.Write([]byte{0})
		h.Write([]byte(r.Effects))
	}
	return hex.EncodeToString(h.Sum(nil))
}
