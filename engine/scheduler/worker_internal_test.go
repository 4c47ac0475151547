package scheduler

import (
	"context"
	"slices"
	"testing"
	"time"

	"flunq.io/flunq/engine/schedule"
)

// recorder is a ledger that records every outcome.
type recorder struct{ Ledger }

func (recorder) Settle(_ context.Context, _ int, ends []schedule.Settled, _ time.Time) ([]bool, error) {
	return slices.Repeat([]bool{true}, len(ends)), nil
}

// taker is a sink that accepts every event.
type taker struct{}

func (taker) Publish(_ context.Context, events []schedule.Event) []error {
	return make([]error, len(events))
}

// A publication is never dated before the claim, although a slow reply sets the clock back in between.
func TestPublishedAfterClaim(t *testing.T) {
	t.Parallel()
	now := time.UnixMilli(2_000_000_000_000)
	var seen []Publication
	w := newWorker(&Scheduler{
		ledger: recorder{}, sink: taker{}, queue: newPartitionQueue(),
		clock: &clock{local: func() time.Time { return now }},
		opts:  Options{Observe: func(p Publication) { seen = append(seen, p) }},
	})
	w.clock.set(now.Add(-time.Second))
	claimed := schedule.Claimed{Now: now, Events: []schedule.Event{{ID: "1", Content: schedule.Content{Due: now}, Status: schedule.Firing}}}
	if _, err := w.publish(t.Context(), claimed); err != nil || len(seen) != 1 || seen[0].Lateness != 0 {
		t.Errorf("%+v, %v: want a lateness of 0", seen, err)
	}
}
