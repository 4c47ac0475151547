package sim

import (
	"cmp"
	"context"
	"slices"

	"flunq.io/flunq/engine/delivery"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/stream"
)

// damage overwrites the history of an execution, as another program might. Until mend
// restores it, each event for the execution fails, is delivered again, and is
// dead-lettered in the end.
func (w *simulation) damage(ctx context.Context, id string) error {
	if _, is := w.operators.damaged[id]; is {
		return nil
	}
	w.operators.damaged[id] = w.clock.now
	return w.overwrite(ctx, w.keyOf(id)+":history")
}

// overwrite keeps a key aside and puts a value of a wrong type in its place.
func (w *simulation) overwrite(ctx context.Context, key string) error {
	there, err := w.client.Exists(ctx, key).Result()
	if err == nil && there == 1 {
		err = w.client.Rename(ctx, key, key+aside).Err()
	}
	if err == nil {
		err = w.client.Set(ctx, key, "what another program has written", 0).Err()
	}
	return err
}

// restoreKey puts a key back that overwrite has kept aside.
func (w *simulation) restoreKey(ctx context.Context, key string) error {
	if err := w.client.Del(ctx, key).Err(); err != nil {
		return err
	}
	there, err := w.client.Exists(ctx, key+aside).Result()
	if err == nil && there == 1 {
		err = w.client.Rename(ctx, key+aside, key).Err()
	}
	return err
}

// aside is the suffix of the key that preserves the history meanwhile.
const aside = ":aside"

// mend restores the history and replays the messages that were dead-lettered meanwhile,
// in an order that depends on the seed.
func (w *simulation) mend(ctx context.Context, id string) error {
	o := &w.operators
	since, is := o.damaged[id]
	if !is {
		return nil
	}
	delete(o.damaged, id)
	o.rested += w.clock.now.Sub(since)
	if err := w.restoreKey(ctx, w.keyOf(id)+":history"); err != nil {
		return err
	}
	deadLetters, _, err := stream.New(w.engine.Store).DeadLetters(ctx, stream.DeadLetterQuery{Tenant: w.tenantOf(id), Range: store.Range{Count: 100}}) //nolint:mnd // more than there are
	if err != nil {
		return err
	}
	slices.SortFunc(deadLetters, func(a, b stream.DeadLetter) int {
		return cmp.Compare(mix(w.cfg.Seed, hashed(a.ID), 0), mix(w.cfg.Seed, hashed(b.ID), 0))
	})
	for _, l := range deadLetters {
		again, err := stream.New(w.engine.Store).Replay(ctx, l)
		if err != nil {
			return err
		}
		if !again {
			w.report("a dead letter is replayed once", id, "the one of "+l.Event.ID+" was gone")
		}
	}
	return nil
}

// refused are the timer requests that a timer service cannot carry out the first few times, because
// their execution is not what it should be in Redis meanwhile.
type refused struct {
	left  map[string]int // how often each request that was begun is still refused, by its id
	event string         // the id of the request that is refused now
	key   string         // of its execution, which is overwritten
}

// refuseTimer overwrites the execution of a timer request that is to be refused while a timer service
// handles it.
func (w *simulation) refuseTimer(a delivery.Activity) {
	if w.cfg.refuse == nil || a.Service != "timer" || a.Message.Event.Type != event.TimerScheduled {
		return
	}
	r, m := &w.refused, a.Message
	switch a.What { //nolint:exhaustive // the others come between these
	case delivery.Began:
		if r.left == nil {
			r.left = map[string]int{}
		}
		if _, known := r.left[m.Event.ID]; !known {
			r.left[m.Event.ID] = w.cfg.refuse(uint64(len(r.left)))
		}
		if r.left[m.Event.ID] == 0 || r.key != "" {
			return
		}
		r.left[m.Event.ID]--
		r.event, r.key = m.Event.ID, executionKey(m.Tenant, m.Event.Execution)
		w.aside(func(ctx context.Context) error { return w.overwrite(ctx, r.key) })
	case delivery.Done, delivery.Broken:
		if r.key != "" && r.event == m.Event.ID {
			w.aside(func(ctx context.Context) error { return w.restoreKey(ctx, r.key) })
			r.key = ""
		}
	}
}
