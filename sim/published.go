package sim

import (
	"context"
	"slices"
	"time"

	"flunq.io/flunq/engine/event"
)

// published follows the stream, which has the order: what an event says of its own
// time is as old as the step that it comes from.
type published struct {
	broken breaks
	slack  time.Duration
	twice  bool // a fault may have sent an event twice

	seen map[string]bool      // ids
	over map[string]bool      // executions that have ended
	ends map[string]time.Time // when they did, at the earliest
	keys keyed
}

// outlived looks for timers that fired after the end of their execution, which
// takes all of them back, or although there was another word on their key, and for
// events that were published twice.
func (w *world) outlived(ctx context.Context, broken breaks) error {
	entries, err := w.client.XRange(ctx, w.stream, "-", "+").Result()
	if err != nil {
		return err
	}
	p := published{
		broken: broken, slack: w.slack(), seen: map[string]bool{}, over: map[string]bool{}, ends: map[string]time.Time{}, keys: keyed{},
		twice: slices.ContainsFunc(w.struck, func(s Struck) bool { return s.Kind == Duplicate }),
	}
	for _, entry := range entries {
		if e, err := event.FromAttributes(entry.Values); err == nil && e.Execution != "" && p.first(e) {
			p.take(entry.ID, e)
		}
	}
	p.keys.left(p.ends, broken)
	return nil
}

// first reports whether an event comes for the first time.
func (p *published) first(e event.Event) bool {
	switch {
	case !p.seen[e.ID]:
		p.seen[e.ID] = true
		return true
	case !p.twice && single(e.Type) && e.Ext[event.AttemptAttribute] == "": // it is not tried again either
		p.broken("an event is published once", e.Execution, "%s %s is there twice", e.Type, e.ID)
	}
	return false
}

func (p *published) take(entry string, e event.Event) {
	if e.Type == event.TimerFired && p.over[e.Execution] {
		p.broken("no timer outlives its execution", e.Execution, "one of %s fired at %v, after the end", e.Task, e.Time)
	}
	p.over[e.Execution] = (p.over[e.Execution] || ended(e)) && e.Type != event.ExecutionRetried
	if ended(e) {
		p.ends[e.Execution] = e.Time.Add(-p.slack)
	}
	if !p.twice { // a word that comes again is the last one
		p.keys.take(entry, e, p.slack, p.broken)
	}
}

// single reports whether an event of a type is never sent again by the engine itself.
func single(t event.Type) bool {
	return t == event.TimerFired || t == event.TaskCompleted || t == event.TaskRequested
}
