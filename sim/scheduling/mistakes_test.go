package scheduling_test

import (
	"context"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"flunq.io/flunq/engine/schedule"
	"flunq.io/flunq/engine/scheduler"
	"flunq.io/flunq/engine/store/wire"
	"flunq.io/flunq/sim"
	"flunq.io/flunq/sim/scheduling"
)

// Each mistake is typical of such designs. It is planted around the real ledger, and the
// checker has to find it.
func TestMistakesAreFound(t *testing.T) {
	t.Parallel()
	ledger := func(wrong func(right scheduler.Ledger) scheduler.Ledger) scheduling.Mistake {
		return scheduling.Mistake{Ledger: func(l scheduler.Ledger, _ wire.Redis) scheduler.Ledger { return wrong(l) }}
	}
	table := func(wrong func(right scheduler.Table) scheduler.Table) scheduling.Mistake {
		return scheduling.Mistake{Table: wrong}
	}
	forgotten := func(r *scheduling.Trial) bool {
		return slices.ContainsFunc(r.Injected, func(f sim.Fault) bool { return f.Kind == scheduling.Forget })
	}
	for _, m := range []struct {
		name    string
		mistake scheduling.Mistake
		by      func(*scheduling.Trial) bool // nil: any trial
		seed    uint64                       // a seed that is known to find it
	}{
		{"H1 all events of a minute fire when it begins", ledger(func(l scheduler.Ledger) scheduler.Ledger { return wholeMinutes{l} }), nil, 0},
		{"H2 an event missing from the index is lost", scheduling.Mistake{NoReconciler: true}, func(r *scheduling.Trial) bool { return !forgotten(r) }, 64},
		{"H3 a conflict is not reported", ledger(func(l scheduler.Ledger) scheduler.Ledger { return noConflicts{l} }), nil, 0},
		{"H4 a repeated request fires again", ledger(newLists), nil, 6},
		{"H5 a consumer continues after an error", scheduling.Mistake{Consumer: func(l scheduler.Ledger) scheduler.Ledger { return goesOn{l} }}, nil, 58},
		{"H6 old events are ignored", ledger(func(l scheduler.Ledger) scheduler.Ledger { return onlyRecent{l} }), nil, 5},
		{"H8 a Cancel ignores the event's status", ledger(func(l scheduler.Ledger) scheduler.Ledger { return blindCancel{l} }), nil, 2},
		{"H9 reads are stale", table(newStale), nil, 4},
		{"H10 an event is handed out again while it is being published", ledger(func(l scheduler.Ledger) scheduler.Ledger { return shortLeases{l} }), nil, 256},
		{"H11 a lease ends before the event is back in the index", scheduling.Mistake{Ledger: func(l scheduler.Ledger, rdb wire.Redis) scheduler.Ledger { return twoSteps{l, rdb} }}, nil, 22},
		{"H12 an end is recorded elsewhere", ledger(func(l scheduler.Ledger) scheduler.Ledger { return elsewhere{l} }), nil, 0},
		{"H16 former partitions are forgotten", ledger(func(l scheduler.Ledger) scheduler.Ledger { return newestPartitions{l} }), nil, 6},
		{"H17 events that Redis loses are lost", scheduling.Mistake{NoReconciler: true}, forgotten, 35},
		{"a claim publishes an event and hands it out, too", scheduling.Mistake{Script: func(source string) string {
			return strings.Replace(source, "next or due\n  return true", "next or due\n  return false", 1)
		}}, nil, 0},
		{"H18 publication is retried forever", ledger(func(l scheduler.Ledger) scheduler.Ledger { return endlessAttempts{l} }), nil, 4},
	} {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			t.Log(find(t, m.mistake, m.by, m.seed))
		})
	}
}

// find returns the first violation that a mistake causes in a trial accepted by a function.
func find(t *testing.T, m scheduling.Mistake, by func(*scheduling.Trial) bool, first uint64) string {
	t.Helper()
	for seed := range uint64(400) {
		seed = (seed + first) % 400
		for _, random := range []bool{false, true} {
			r, err := scheduling.Try(t.Context(), scheduling.Plan{Seed: seed, Random: random}, m)
			if err != nil {
				t.Fatal(err)
			}
			if len(r.Broken) > 0 && (by == nil || by(r)) {
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
	for i := range events {
		events[i].Next = events[i].Due.Truncate(time.Minute)
	}
	return l.Ledger.Place(ctx, events)
}

type noConflicts struct{ scheduler.Ledger }

func (l noConflicts) Place(ctx context.Context, events []schedule.Event) ([]schedule.Placed, error) {
	placed, err := l.Ledger.Place(ctx, events)
	for i := range placed {
		placed[i] = schedule.Placed{Event: &events[i], Created: true}
	}
	return placed, err
}

// lists returns an event from Claim once for each time it was placed.
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

// stale returns the previous state of an event from the first read after a write.
type stale struct {
	scheduler.Table

	mu     *sync.Mutex
	unread map[string]bool
}

func newStale(t scheduler.Table) scheduler.Table {
	return stale{t, new(sync.Mutex), map[string]bool{}}
}

func (t stale) Put(ctx context.Context, events []schedule.Event) ([]schedule.Placed, error) {
	placed, err := t.Table.Put(ctx, events)
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, p := range placed {
		if p.Created {
			t.unread[p.Event.ID] = true
		}
	}
	return placed, err
}

func (t stale) Get(ctx context.Context, ids []string) ([]*schedule.Event, error) {
	found, err := t.Table.Get(ctx, ids)
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, id := range ids {
		if t.unread[id] && err == nil {
			found[i] = nil
		}
		delete(t.unread, id)
	}
	return found, err
}

// twoSteps ends the lease of an event in a separate command.
type twoSteps struct {
	scheduler.Ledger

	rdb wire.Redis
}

func (l twoSteps) Settle(ctx context.Context, partition int, ends []schedule.Settled, now time.Time) ([]bool, error) {
	for _, end := range ends {
		id, err := hex.DecodeString(strings.ReplaceAll(end.ID, "-", ""))
		if err == nil {
			err = l.rdb.ZRem(ctx, fmt.Sprintf("scheduler:{%d}:processing", partition), string(id)).Err()
		}
		if err != nil {
			return nil, err
		}
	}
	return l.Ledger.Settle(ctx, partition, ends, now)
}

type goesOn struct{ scheduler.Ledger }

func (l goesOn) Place(ctx context.Context, events []schedule.Event) ([]schedule.Placed, error) {
	placed, _ := l.Ledger.Place(ctx, events)
	return placed, nil
}
