package scheduler

import (
	"context"
	"errors"
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

// Workers wait for different partitions, those that are due first. A worker that finds none is woken when
// one is released, and one that waits for a later partition is woken when another is due earlier.
func TestPartitionQueue(t *testing.T) {
	t.Parallel()
	at := func(s int) time.Time { return time.Unix(int64(s), 0) }
	q := newPartitionQueue()
	q.set([]int{0, 1, 2}, func(p int) bool { return p != 2 })
	wakes := make([]chan struct{}, 4)
	for i := range wakes {
		wakes[i] = make(chan struct{}, 1)
	}
	reserves := func(worker, partition int, due time.Time) {
		t.Helper()
		if p, got, ok := q.reserve(wakes[worker]); !ok || p != partition || !got.Equal(due) {
			t.Errorf("worker %d waits for %d until %s, %v, want %d until %s", worker, p, got, ok, partition, due)
		}
	}
	woken := func(want ...int) {
		t.Helper()
		var got []int
		for i, wake := range wakes {
			select {
			case <-wake:
				got = append(got, i)
			default:
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("woken: %v, want %v", got, want)
		}
	}
	for i := range 3 {
		reserves(i, i, time.Time{})
	}
	if _, _, ok := q.reserve(wakes[3]); ok {
		t.Fatal("a partition was reserved twice")
	}
	q.release(1, at(10))
	woken(3) // it is idle
	reserves(3, 1, at(10))
	q.release(2, at(5)) // of another process: a second later
	woken(3)            // the other partition is due later
	reserves(3, 2, at(6))
	q.release(0, at(20))
	woken()
	reserves(1, 1, at(10))
	q.notify(2, at(3))
	woken(3)
	q.notify(2, at(4))
	woken()
	reserves(3, 2, at(3))
	q.notify(0, at(2)) // no worker waits for it
	woken(1)
	reserves(1, 0, at(2))
	q.pause(at(8))
	reserves(3, 2, at(8))
	reserves(2, 1, at(10))
	q.set([]int{1, 2}, func(int) bool { return true }) // now this process owns both
	woken(3)
	reserves(3, 2, at(8))
	if n := q.owned(); n != 2 {
		t.Errorf("owns %d partitions, want 2", n)
	}
	q.release(0, at(1)) // gone meanwhile
	q.release(2, at(30))
	woken()
	reserves(1, 2, at(30))
}

// A publication is never dated before the claim, although a slow reply sets the clock back in between.
func TestPublishedAfterClaim(t *testing.T) {
	t.Parallel()
	now := time.UnixMilli(2_000_000_000_000)
	var seen []Publication
	s := &Scheduler{
		ledger: recorder{}, sink: taker{}, queue: newPartitionQueue(),
		clock: &clock{local: func() time.Time { return now }},
		opts:  Options{Observe: func(p Publication) { seen = append(seen, p) }},
	}
	s.clock.set(now.Add(-time.Second))
	claimed := schedule.Claimed{Now: now, Events: []schedule.Event{{ID: "1", Content: schedule.Content{Due: now}, Status: schedule.Firing}}}
	if _, _, err := s.publish(t.Context(), 0, claimed); err != nil || len(seen) != 1 || seen[0].Lateness != 0 {
		t.Errorf("%+v, %v: want a lateness of 0", seen, err)
	}
}

// partly is a ledger that records only the first outcome.
type partly struct{ Ledger }

func (partly) Settle(_ context.Context, _ int, ends []schedule.Settled, _ time.Time) ([]bool, error) {
	return append([]bool{true}, make([]bool, len(ends)-1)...), errors.New("away")
}

// If some outcomes cannot be recorded, only those are reported as not recorded.
func TestPartlyRecorded(t *testing.T) {
	t.Parallel()
	var unrecorded []bool
	s := &Scheduler{
		ledger: partly{}, sink: taker{}, queue: newPartitionQueue(), clock: &clock{local: time.Now},
		opts: Options{Observe: func(p Publication) { unrecorded = append(unrecorded, p.Unrecorded) }},
	}
	events := []schedule.Event{{ID: "1", Status: schedule.Firing}, {ID: "2", Status: schedule.Firing}}
	if _, _, err := s.publish(t.Context(), 0, schedule.Claimed{Events: events}); err == nil || !slices.Equal(unrecorded, []bool{false, true}) {
		t.Errorf("not recorded: %v, %v: want the second, and an error", unrecorded, err)
	}
}

// When Redis' clock has jumped, no partition waits by its former time. A jump of the machine's clock changes
// nothing.
func TestClockJumps(t *testing.T) {
	t.Parallel()
	for _, jump := range []time.Duration{-10 * time.Minute, 10 * time.Minute} {
		testClockJumps(t, jump)
	}
}

func testClockJumps(t *testing.T, jump time.Duration) {
	t.Helper()
	start := time.Now()
	local := start
	s := &Scheduler{queue: newPartitionQueue(), clock: &clock{local: func() time.Time { return local }}}
	s.queue.set([]int{0}, func(int) bool { return true })
	redis := start.Add(20 * time.Minute)
	s.setClock(redis)
	wake := make(chan struct{}, 1)
	due := func() time.Time {
		_, due, ok := s.queue.reserve(wake)
		if !ok {
			t.Fatal("no partition")
		}
		return due
	}
	s.queue.release(0, redis.Add(30*time.Second))
	s.queue.pause(redis.Add(time.Second))
	local = start.Add(5 * time.Second)
	s.setClock(redis.Add(5 * time.Second))
	if got := due(); !got.Equal(redis.Add(30 * time.Second)) {
		t.Errorf("without a jump it is due at %s", got)
	}
	s.setClock(redis.Add(jump))
	if got := due(); !got.Before(start) {
		t.Errorf("after a jump of %s it is due at %s, in %s", jump, got, got.Sub(s.clock.now()))
	}
}

// jumped is a ledger whose Redis has another time than the process believes.
type jumped struct {
	Ledger

	now time.Time
}

func (j jumped) Now(context.Context) (time.Time, error) { return j.now, nil }

func (jumped) Place(_ context.Context, events []schedule.Event) ([]schedule.Placed, error) {
	return []schedule.Placed{{Event: &events[0], Created: true}}, nil
}

// A delay counts from the time of Redis, even immediately after its clock has jumped, and a time is not
// refused by its former time.
func TestScheduleAfterJump(t *testing.T) {
	t.Parallel()
	start := time.UnixMilli(2_000_000_000_000).UTC()
	for _, jump := range []time.Duration{time.Hour, -time.Hour} {
		s := &Scheduler{
			queue: newPartitionQueue(), clock: &clock{local: func() time.Time { return start }},
			ledger: jumped{now: start.Add(jump)},
		}
		at := start.Add(jump + 30*time.Minute)
		for _, r := range []Request{{After: 30 * time.Minute}, {Content: schedule.Content{Due: at}}} {
			s.setClock(start)
			api := NewAPI(s.ledger, APIOptions{Limits: schedule.Limits{MaxDelay: time.Hour, Payload: 1}, Now: s.Now, ReadTime: s.ReadTime})
			r.ID, r.Topic, r.Payload = "00000000-0000-4000-8000-000000000001", "t", []byte("1")
			out, err := api.Schedule(t.Context(), []Request{r})
			if err != nil || !out[0].Created {
				t.Fatalf("%+v, %v", out, err)
			}
			if got := out[0].Event.Due; !got.Equal(at) {
				t.Errorf("after a jump of %s it is due at %s, want %s", jump, got, at)
			}
		}
	}
}
