package server_test

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"flunq.io/flunq/engine/schedule"
)

// ledger is a scheduler.Ledger in memory that can be away, slow and wrong. It fires nothing.
type ledger struct {
	mu     sync.Mutex
	events map[string]schedule.Event
	count  int
	err    error                 // of all calls
	before func(context.Context) // each call, unlocked
}

func newLedger() *ledger { return &ledger{events: map[string]schedule.Event{}, count: 16} }

func (l *ledger) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.err = err
}

// enter begins a call that ends with the returned function.
func (l *ledger) enter(ctx context.Context) (leave func(), err error) {
	if l.before != nil {
		l.before(ctx)
	}
	l.mu.Lock()
	return l.mu.Unlock, cmp.Or(l.err, ctx.Err())
}

func (l *ledger) Now(ctx context.Context) (time.Time, error) {
	leave, err := l.enter(ctx)
	defer leave()
	return time.Now(), err
}

func (l *ledger) Place(ctx context.Context, events []schedule.Event) ([]schedule.Placed, error) {
	leave, err := l.enter(ctx)
	defer leave()
	if err != nil {
		return nil, err
	}
	out := make([]schedule.Placed, 0, len(events))
	for _, e := range events {
		stored, exists := l.events[e.ID]
		if !exists {
			stored, l.events[e.ID] = e, e
		}
		out = append(out, schedule.Placed{Event: &stored, Created: !exists})
	}
	return out, nil
}

func (l *ledger) Get(ctx context.Context, ids []string) ([]*schedule.Event, error) {
	leave, err := l.enter(ctx)
	defer leave()
	out := make([]*schedule.Event, len(ids))
	for i, id := range ids {
		if e, ok := l.events[id]; ok {
			out[i] = &e
		}
	}
	return out, err
}

func (l *ledger) Change(ctx context.Context, id string, change schedule.Change, now time.Time) (schedule.Outcome, error) {
	leave, err := l.enter(ctx)
	defer leave()
	e, ok := l.events[id]
	if err != nil || !ok {
		return schedule.Outcome{Code: schedule.NotFound, Message: "there is no event " + id}, err
	}
	if refused, ok := change.Allows(&e); !ok {
		return refused, nil
	}
	e = change.Apply(e, now)
	l.events[id] = e
	return schedule.Outcome{Event: &e}, nil
}

func (l *ledger) List(ctx context.Context, f schedule.Filter) (page []schedule.Event, next string, err error) {
	leave, err := l.enter(ctx)
	defer leave()
	if err != nil {
		return nil, "", err
	}
	if f.Cursor == "no cursor" {
		return nil, "", schedule.ErrCursor
	}
	for _, e := range l.events {
		if e.ID > f.Cursor && (f.Status == "" || e.Status == f.Status) && (f.Topic == "" || e.Topic == f.Topic) {
			page = append(page, e)
		}
	}
	slices.SortFunc(page, func(a, b schedule.Event) int { return cmp.Compare(a.ID, b.ID) })
	if len(page) > f.Limit {
		page = page[:f.Limit]
		next = page[f.Limit-1].ID
	}
	return page, next, nil
}

func (l *ledger) Claim(context.Context, schedule.Claim) (schedule.Claimed, error) {
	panic("no client claims")
}

func (l *ledger) Settle(context.Context, int, []schedule.Settled, time.Time) ([]bool, error) {
	panic("no client settles")
}

func (l *ledger) Members(ctx context.Context, _ string, _ time.Duration) (schedule.Members, error) {
	leave, err := l.enter(ctx)
	defer leave()
	return schedule.Members{Now: time.Now(), Processes: []string{"one"}, Partitions: []int{0, 1}, Count: l.count}, err
}

func (l *ledger) SetPartitions(ctx context.Context, from, count int) error {
	leave, err := l.enter(ctx)
	defer leave()
	if err == nil && from != l.count {
		return schedule.ErrPartitions
	}
	if err == nil {
		l.count = count
	}
	return err
}
