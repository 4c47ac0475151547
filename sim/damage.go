package sim

import (
	"cmp"
	"context"
	"slices"

	"flunq.io/flunq/engine/store"
)

// damage overwrites the history of an execution, as another program might. Until mend
// restores it, each event for the execution fails, is delivered again, and is
// dead-lettered in the end.
func (w *simulation) damage(ctx context.Context, id string) error {
	if _, is := w.operators.damaged[id]; is {
		return nil
	}
	w.operators.damaged[id] = w.clock.now
	key := w.keyOf(id) + ":history"
	there, err := w.client.Exists(ctx, key).Result()
	if err == nil && there == 1 {
		err = w.client.Rename(ctx, key, key+aside).Err()
	}
	if err == nil {
		err = w.client.Set(ctx, key, "what another program has written", 0).Err()
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
	key := w.keyOf(id) + ":history"
	if err := w.client.Del(ctx, key).Err(); err != nil {
		return err
	}
	there, err := w.client.Exists(ctx, key+aside).Result()
	if err == nil && there == 1 {
		err = w.client.Rename(ctx, key+aside, key).Err()
	}
	if err != nil {
		return err
	}
	deadLetters, _, err := w.engine.Store.DeadLetters(ctx, store.DeadLetterQuery{Tenant: w.tenantOf(id), Count: 100}) //nolint:mnd // more than there are
	if err != nil {
		return err
	}
	slices.SortFunc(deadLetters, func(a, b store.DeadLetter) int {
		return cmp.Compare(mix(w.cfg.Seed, hashed(a.ID), 0), mix(w.cfg.Seed, hashed(b.ID), 0))
	})
	for _, l := range deadLetters {
		again, err := w.engine.Store.Replay(ctx, l)
		if err != nil {
			return err
		}
		if !again {
			w.report("a dead letter is replayed once", id, "the one of "+l.Event.ID+" was gone")
		}
	}
	return nil
}
