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
	if _, _, err := w.publish(t.Context(), claimed); err != nil || len(seen) != 1 || seen[0].Lateness != 0 {
		t.Errorf("%+v, %v: want a lateness of 0", seen, err)
	}
}

// When Redis' clock has gone back, no partition waits until it has caught up. A jump of the machine's
// clock changes nothing.
func TestClockGoesBack(t *testing.T) {
	t.Parallel()
	start := time.Now()
	local := start
	s := &Scheduler{queue: newPartitionQueue(), clock: &clock{local: func() time.Time { return local }}}
	s.queue.set([]int{0}, func(int) bool { return true })
	redis := start.Add(10 * time.Minute)
	s.setClock(redis)
	if _, ok := s.queue.reserve(nil); !ok {
		t.Fatal("no partition")
	}
	s.queue.release(0, redis.Add(30*time.Second))
	s.queue.pause(redis.Add(time.Second))
	local = start.Add(5 * time.Second)
	s.setClock(redis.Add(5 * time.Second))
	if got := s.queue.due(0); !got.Equal(redis.Add(30 * time.Second)) {
		t.Errorf("without a jump it is due at %s", got)
	}
	s.setClock(start)
	if got := s.queue.due(0); !got.Before(start) {
		t.Errorf("after the jump it is due at %s, in %s", got, got.Sub(s.clock.now()))
	}
}

// jumped is a ledger whose Redis has another time than the process believes.
type jumped struct {
	Ledger

	now time.Time
}

func (j jumped) Now(context.Context) (time.Time, error) { return j.now, nil }

func (jumped) Place(_ context.Context, events []schedule.Event) ([]schedule.Placed, error) {
	return []schedule.Placed{{Event: events[0], Created: true}}, nil
}

// A delay counts from the time of Redis, even immediately after its clock has jumped.
func TestDelayAfterJump(t *testing.T) {
	t.Parallel()
	start := time.UnixMilli(2_000_000_000_000).UTC()
	for _, jump := range []time.Duration{10 * time.Minute, -10 * time.Minute} {
		s := &Scheduler{
			queue: newPartitionQueue(), clock: &clock{local: func() time.Time { return start }},
			ledger: jumped{now: start.Add(jump)},
		}
		s.setClock(start)
		api := NewAPI(s.ledger, APIOptions{Limits: schedule.Limits{MaxDelay: time.Hour, Payload: 1}, Now: s.Now, ReadTime: s.ReadTime})
		out, err := api.Schedule(t.Context(), []Request{{
			ID: "00000000-0000-4000-8000-000000000001", After: 3 * time.Second, Content: schedule.Content{Topic: "t", Payload: []byte("1")},
		}})
		if err != nil || !out[0].Created {
			t.Fatalf("%+v, %v", out, err)
		}
		if got, want := out[0].Event.Due, start.Add(jump+3*time.Second); !got.Equal(want) {
			t.Errorf("after a jump of %s it is due at %s, want %s", jump, got, want)
		}
	}
}
