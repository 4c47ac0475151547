package scheduling_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"flunq.io/flunq/engine/schedule"
	"flunq.io/flunq/engine/scheduler"
	"flunq.io/flunq/sim/scheduling"
)

// Each mistake is one that designs like this one make. It is planted around the real ledger,
// and the observer has to find it.
func TestMistakesAreFound(t *testing.T) {
	t.Parallel()
	around := func(wrong func(right scheduler.Ledger) scheduler.Ledger) scheduling.Mistake {
		return scheduling.Mistake{Ledger: wrong}
	}
	for _, m := range []struct {
		name    string
		mistake scheduling.Mistake
	}{
		{"H1 all events of a minute fire when it begins", around(func(l scheduler.Ledger) scheduler.Ledger { return wholeMinutes{l} })},
		{"H3 a conflict is not told", around(func(l scheduler.Ledger) scheduler.Ledger { return noConflicts{l} })},
		{"H4 a repeated request fires again", around(newLists)},
		{"H6 old events are not looked at", around(func(l scheduler.Ledger) scheduler.Ledger { return onlyRecent{l} })},
		{"H8 a Cancel does not look at what has happened", around(func(l scheduler.Ledger) scheduler.Ledger { return blindCancel{l} })},
		{"H10 what is being published is handed out again", around(func(l scheduler.Ledger) scheduler.Ledger { return shortLeases{l} })},
		{"H12 an end is recorded elsewhere", around(func(l scheduler.Ledger) scheduler.Ledger { return elsewhere{l} })},
		{"H16 former partitions are forgotten", around(func(l scheduler.Ledger) scheduler.Ledger { return newestPartitions{l} })},
		{"H18 nothing is ever given up", around(func(l scheduler.Ledger) scheduler.Ledger { return endlessAttempts{l} })},
	} {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			t.Log(find(t, m.mistake))
		})
	}
}

// find returns the first violation that a mistake causes.
func find(t *testing.T, m scheduling.Mistake) string {
	t.Helper()
	for seed := range uint64(400) {
		for _, random := range []bool{false, true} {
			r, err := scheduling.Try(t.Context(), scheduling.Plan{Seed: seed, Random: random}, m)
			if err != nil {
				t.Fatal(err)
			}
			if len(r.Broken) > 0 {
				return fmt.Sprintf("seed %d, %d faults: %v", seed, len(r.Injected), r.Broken[0])
			}
		}
	}
	t.Fatal("it was not found")
	return ""
}

type wholeMinutes struct{ scheduler.Ledger }

func (l wholeMinutes) Place(ctx context.Context, events []schedule.Event) ([]schedule.Placed, error) {
	events = slices.Clone(events)
	dues := make([]time.Time, len(events))
	for i := range events {
		dues[i] = events[i].Due
		events[i].Due = events[i].Due.Truncate(time.Minute)
		events[i].Next = events[i].Due
	}
	placed, err := l.Ledger.Place(ctx, events)
	for i := range placed {
		if placed[i].Event.Due.Equal(events[i].Due) {
			placed[i].Event.Due = dues[i]
		}
	}
	return placed, err
}

type noConflicts struct{ scheduler.Ledger }

func (l noConflicts) Place(ctx context.Context, events []schedule.Event) ([]schedule.Placed, error) {
	placed, err := l.Ledger.Place(ctx, events)
	for i := range placed {
		placed[i] = schedule.Placed{Event: events[i], Created: true}
	}
	return placed, err
}

// lists claims each event as often as it was placed.
type lists struct {
	scheduler.Ledger

	mu     *sync.Mutex
	placed map[string]int
}

func newLists(l scheduler.Ledger) scheduler.Ledger {
	return lists{l, new(sync.Mutex), map[string]int{}}
}

func (l lists) Place(ctx context.Context, events []schedule.Event) ([]schedule.Placed, error) {
	placed, err := l.Ledger.Place(ctx, events)
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range placed {
		l.placed[p.Event.ID]++
	}
	return placed, err
}

func (l lists) Claim(ctx context.Context, c schedule.Claim) (schedule.Claimed, error) {
	claimed, err := l.Ledger.Claim(ctx, c)
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range slices.Clone(claimed.Events) {
		for range l.placed[e.ID] - 1 {
			claimed.Events = append(claimed.Events, e)
		}
	}
	return claimed, err
}

type onlyRecent struct{ scheduler.Ledger }

func (l onlyRecent) Claim(ctx context.Context, c schedule.Claim) (schedule.Claimed, error) {
	claimed, err := l.Ledger.Claim(ctx, c)
	claimed.Events = slices.DeleteFunc(claimed.Events, func(e schedule.Event) bool { return claimed.Now.Sub(e.Due) > time.Minute })
	return claimed, err
}

type blindCancel struct{ scheduler.Ledger }

func (l blindCancel) Change(ctx context.Context, id string, c schedule.Change, now time.Time) (schedule.Outcome, error) {
	if c.Kind != schedule.Cancel {
		return l.Ledger.Change(ctx, id, c, now)
	}
	found, err := l.Get(ctx, []string{id})
	if err != nil || found[0] == nil || found[0].Status != schedule.Scheduled {
		return l.Ledger.Change(ctx, id, c, now)
	}
	out, err := l.Ledger.Change(ctx, id, c, now)
	out.Code = schedule.Success
	return out, err
}

type shortLeases struct{ scheduler.Ledger }

func (l shortLeases) Claim(ctx context.Context, c schedule.Claim) (schedule.Claimed, error) {
	c.Lease /= 5
	return l.Ledger.Claim(ctx, c)
}

type elsewhere struct{ scheduler.Ledger }

func (l elsewhere) Settle(ctx context.Context, partition int, ends []schedule.Settled, now time.Time) ([]bool, error) {
	return l.Ledger.Settle(ctx, partition+1, ends, now)
}

type newestPartitions struct{ scheduler.Ledger }

func (l newestPartitions) Members(ctx context.Context, process string, ttl time.Duration) (schedule.Members, error) {
	m, err := l.Ledger.Members(ctx, process, ttl)
	m.Partitions = slices.DeleteFunc(m.Partitions, func(p int) bool { return p >= m.Count })
	return m, err
}

type endlessAttempts struct{ scheduler.Ledger }

func (l endlessAttempts) Settle(ctx context.Context, partition int, ends []schedule.Settled, now time.Time) ([]bool, error) {
	ends = slices.Clone(ends)
	for i := range ends {
		if ends[i].Status == schedule.Dead {
			ends[i].Status, ends[i].Next = schedule.Scheduled, now.Add(time.Second)
		}
	}
	return l.Ledger.Settle(ctx, partition, ends, now)
}
