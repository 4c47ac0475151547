// Package tabletest tests the guarantees of every scheduler.Table.
package tabletest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"flunq.io/flunq/engine/schedule"
	"flunq.io/flunq/engine/scheduler"
)

// Run runs all tests, each on its own empty table.
func Run(t *testing.T, start func(t *testing.T) scheduler.Table) {
	t.Helper()
	for _, test := range []struct {
		name string
		run  func(*testing.T, table)
	}{
		{"put", testPut},
		{"put twice", testPutTwice},
		{"put race", testPutRace},
		{"claim", testClaim},
		{"claim race", testClaimRace},
		{"fired", testFired},
		{"retried", testRetried},
		{"uncertain", testUncertain},
		{"dead", testDead},
		{"replace", testReplace},
		{"cancel race", testCancelRace},
		{"open", testOpen},
		{"open pages", testOpenPages},
		{"list", testList},
		{"many", testMany},
		{"context", testContext},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			test.run(t, table{start(t), t})
		})
	}
}

// lease is the length of the leases in the tests.
const lease = 30 * time.Second

// begin is the time at which the tests begin; tables do not use a clock.
func begin() time.Time { return time.Date(2040, 1, 2, 3, 4, 5, 678_000_000, time.UTC) }

// table is a table whose errors end the test.
type table struct {
	scheduler.Table

	t *testing.T
}

func (b table) check(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

// event returns a new event that is due at a time.
func event(due time.Time) schedule.Event {
	u := rand.Text()
	id := fmt.Sprintf("%x", u)[:32]
	return schedule.Event{
		Content: schedule.Content{Due: due, Topic: "orders", Payload: []byte(`{"n":1}`)},
		ID:      fmt.Sprintf("%s-%s-%s-%s-%s", id[:8], id[8:12], id[12:16], id[16:20], id[20:]),
		Status:  schedule.Scheduled, Version: 1, Next: due, Created: begin(), Updated: begin(),
	}
}

// put stores a new event.
func (b table) put(due time.Time) schedule.Event {
	b.t.Helper()
	e := event(due)
	placed, err := b.Put(b.t.Context(), []schedule.Event{e})
	b.check(err)
	if !placed[0].Created {
		b.t.Fatalf("event %s was there", e.ID)
	}
	return e
}

// get returns an event that exists.
func (b table) get(id string) schedule.Event {
	b.t.Helper()
	found, err := b.Get(b.t.Context(), []string{id})
	b.check(err)
	if found[0] == nil {
		b.t.Fatalf("event %s is gone", id)
	}
	return *found[0]
}

// stored fails the test unless want is stored.
func (b table) stored(want schedule.Event) {
	b.t.Helper()
	if diff := cmp.Diff(want, b.get(want.ID), cmpopts.EquateEmpty()); diff != "" {
		b.t.Errorf("the stored event differs (-want +got):\n%s", diff)
	}
}

// claim claims one event, and returns nil if it could not be claimed.
func (b table) claim(id string, now time.Time) *schedule.Event {
	b.t.Helper()
	claimed, err := b.Claim(b.t.Context(), []string{id}, "owner", now, now.Add(lease))
	b.check(err)
	return claimed[0]
}

// settle records an end and reports whether it took effect.
func (b table) settle(end schedule.Settled, now time.Time) bool {
	b.t.Helper()
	took, err := b.Settle(b.t.Context(), []schedule.Settled{end}, now)
	b.check(err)
	return took[0]
}

// mustSettle records an end, which has to take effect.
func (b table) mustSettle(end schedule.Settled, now time.Time) {
	b.t.Helper()
	if !b.settle(end, now) {
		b.t.Fatalf("the end of event %s did not take effect", end.ID)
	}
}

// replace stores an event in place of the version before it.
func (b table) replace(e schedule.Event) bool {
	b.t.Helper()
	took, err := b.Replace(b.t.Context(), e)
	b.check(err)
	return took
}

// open returns all pages of Open.
func (b table) open(before time.Time) map[string]time.Time {
	b.t.Helper()
	all := map[string]time.Time{}
	for cursor := ""; ; {
		page, next, err := b.Open(b.t.Context(), before, cursor)
		b.check(err)
		for _, e := range page {
			if _, twice := all[e.ID]; twice {
				b.t.Errorf("Open returns %s twice", e.ID)
			}
			all[e.ID] = e.Next
		}
		if cursor = next; cursor == "" {
			return all
		}
	}
}

// opens fails the test unless Open returns these events soon.
func (b table) opens(before time.Time, want map[string]time.Time) {
	b.t.Helper()
	const patience, pause = 10 * time.Second, 10 * time.Millisecond
	var got map[string]time.Time
	for began := time.Now(); time.Since(began) < patience; time.Sleep(pause) {
		if got = b.open(before); cmp.Equal(want, got) {
			return
		}
	}
	b.t.Errorf("Open(%s) differs (-want +got):\n%s", before, cmp.Diff(want, got))
}

func testPut(t *testing.T, b table) {
	first, second := event(begin().Add(time.Hour)), event(begin().Add(time.Hour))
	first.Content = schedule.Content{
		Due: begin().Add(time.Hour + time.Millisecond), Tenant: "acme", Topic: "event:order.late", Key: "customer \xff 7",
		Headers: map[string]string{"trace": "1", "empty": "", "bytes": "\x00\xfe"}, Payload: []byte("\x00\xff{}"),
	}
	first.Next = first.Due
	placed, err := b.Put(t.Context(), []schedule.Event{first, second})
	b.check(err)
	for i, want := range []schedule.Event{first, second} {
		if diff := cmp.Diff(schedule.Placed{Event: &want, Created: true}, placed[i], cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("Put differs (-want +got):\n%s", diff)
		}
		b.stored(want)
	}
	found, err := b.Get(t.Context(), []string{second.ID, event(begin()).ID, first.ID, second.ID})
	b.check(err)
	if found[0].ID != second.ID || found[1] != nil || found[2].ID != first.ID || found[3].ID != second.ID {
		t.Errorf("Get returns %v: want them in the order of the ids, and nil for an unknown one", found)
	}
}

func testPutTwice(t *testing.T, b table) {
	first := b.put(begin().Add(time.Minute))
	again := first
	again.Payload, again.Due = []byte("other"), begin().Add(time.Hour)
	placed, err := b.Put(t.Context(), []schedule.Event{again, event(begin())})
	b.check(err)
	if diff := cmp.Diff(schedule.Placed{Event: &first}, placed[0], cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("the second Put of an id differs (-want +got):\n%s", diff)
	}
	if !placed[1].Created {
		t.Error("the new event beside it was not created")
	}
	b.stored(first)
}

// race calls f 16 times concurrently and returns the results.
func race[T any](f func(n int) T) []T {
	const racers = 16
	out := make([]T, racers)
	var wg sync.WaitGroup
	for n := range racers {
		wg.Go(func() { out[n] = f(n) })
	}
	wg.Wait()
	return out
}

func testPutRace(t *testing.T, b table) {
	e := event(begin().Add(time.Minute))
	results := race(func(n int) schedule.Placed {
		own := e
		own.Payload = fmt.Append(nil, n)
		placed, err := b.Put(t.Context(), []schedule.Event{own})
		if err != nil {
			t.Error(err)
		}
		return placed[0]
	})
	winner := slices.IndexFunc(results, func(p schedule.Placed) bool { return p.Created })
	if winner < 0 {
		t.Fatal("the event was not created")
	}
	for n, p := range results {
		if p.Created != (n == winner) || string(p.Event.Payload) != strconv.Itoa(winner) {
			t.Errorf("racer %d sees payload %s, created %v: want %d to have created it", n, p.Event.Payload, p.Created, winner)
		}
	}
}

func testClaim(t *testing.T, b table) {
	due := begin().Add(time.Minute)
	want := b.put(due)
	if b.claim(want.ID, due.Add(-time.Millisecond)) != nil {
		t.Error("an event was claimed a millisecond early")
	}
	later, unknown := b.put(due.Add(time.Minute)), event(due)
	claimed, err := b.Claim(t.Context(), []string{later.ID, want.ID, unknown.ID}, "first", due, due.Add(lease))
	b.check(err)
	want.Status, want.Owner, want.Lease, want.Version, want.Updated = schedule.Firing, "first", due.Add(lease), 2, due
	if diff := cmp.Diff([]*schedule.Event{nil, &want, nil}, claimed, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("Claim differs (-want +got):\n%s", diff)
	}
	b.stored(want)
	if b.claim(want.ID, due.Add(lease-time.Millisecond)) != nil {
		t.Error("an event was claimed during the lease of another process")
	}
	for attempt := 1; attempt < 3; attempt++ {
		now := want.Lease
		claimed := b.claim(want.ID, now)
		want.Owner, want.Lease, want.Version, want.Updated, want.Attempts = "owner", now.Add(lease), want.Version+1, now, attempt
		if diff := cmp.Diff(&want, claimed, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("the claim after the lease differs (-want +got):\n%s", diff)
		}
	}
	b.stored(want)
}

func testClaimRace(t *testing.T, b table) {
	e := b.put(begin())
	results := race(func(n int) *schedule.Event {
		claimed, err := b.Claim(t.Context(), []string{e.ID}, strconv.Itoa(n), begin(), begin().Add(lease))
		if err != nil {
			t.Error(err)
		}
		return claimed[0]
	})
	winner := slices.IndexFunc(results, func(e *schedule.Event) bool { return e != nil })
	if winner < 0 {
		t.Fatal("the event was not claimed")
	}
	if string(results[winner].Payload) != string(e.Payload) || b.get(e.ID).Owner != strconv.Itoa(winner) {
		t.Errorf("the winner %d has %+v, stored is %+v", winner, results[winner], b.get(e.ID))
	}
	if n := len(slices.DeleteFunc(results, func(e *schedule.Event) bool { return e == nil })); n != 1 {
		t.Errorf("%d have claimed the event, want 1", n)
	}
}

func testFired(t *testing.T, b table) {
	want := *b.claim(b.put(begin()).ID, begin())
	now := begin().Add(time.Second)
	end := schedule.Settled{ID: want.ID, Version: want.Version, Status: schedule.Fired, Attempts: 1}
	for name, other := range map[string]schedule.Settled{
		"an unknown event": {ID: event(now).ID, Version: 2, Status: schedule.Fired},
		"an old version":   {ID: want.ID, Version: want.Version - 1, Status: schedule.Fired},
		"a SCHEDULED one":  {ID: b.put(begin()).ID, Version: 1, Status: schedule.Fired},
	} {
		if b.settle(other, now) {
			t.Errorf("the end of %s took effect", name)
		}
	}
	b.stored(want)
	b.mustSettle(end, now)
	want.Status, want.Owner, want.Lease, want.Published, want.Updated = schedule.Fired, "", time.Time{}, now, now
	want.Version, want.Attempts = want.Version+1, 1
	b.stored(want)
	if b.settle(end, now) {
		t.Error("the end took effect twice")
	}
	if b.claim(want.ID, now.Add(time.Hour)) != nil {
		t.Error("a FIRED event was claimed")
	}
}

func testRetried(t *testing.T, b table) {
	want := *b.claim(b.put(begin()).ID, begin())
	now, next := begin().Add(time.Second), begin().Add(3*time.Second)
	b.mustSettle(schedule.Settled{
		ID: want.ID, Version: want.Version, Status: schedule.Scheduled, Attempts: 2, Failures: 1, Next: next, Error: "not now",
	}, now)
	want.Status, want.Owner, want.Lease, want.Updated, want.Next = schedule.Scheduled, "", time.Time{}, now, next
	want.Version, want.Attempts, want.Failures, want.Error = want.Version+1, 2, 1, "not now"
	b.stored(want)
	if b.claim(want.ID, next.Add(-time.Millisecond)) != nil {
		t.Error("an event was claimed before its next attempt")
	}
	claimed := b.claim(want.ID, next)
	if claimed == nil || claimed.Attempts != 2 || claimed.Failures != 1 || claimed.Error != "not now" {
		t.Fatalf("the second claim is %+v, want 2 attempts, 1 failure", claimed)
	}
	b.mustSettle(schedule.Settled{ID: want.ID, Version: claimed.Version, Status: schedule.Fired, Attempts: 3, Failures: 1}, next)
	if got := b.get(want.ID); got.Error != "" || got.Attempts != 3 || got.Failures != 1 {
		t.Errorf("the FIRED event is %+v, want no error, 3 attempts and 1 failure", got)
	}
}

// An event that may have been published stays FIRING until its next attempt.
func testUncertain(t *testing.T, b table) {
	id := b.put(begin()).ID
	b.claim(id, begin())
	again := b.claim(id, begin().Add(lease))
	now := begin().Add(lease + time.Second)
	next := now.Add(time.Second)
	b.mustSettle(schedule.Settled{ID: id, Version: again.Version, Status: schedule.Firing, Attempts: 1, Failures: 1, Next: next, Error: "away"}, now)
	got := b.get(id)
	if got.Status != schedule.Firing || !got.Lease.Equal(next) || got.Attempts != 1 || got.Failures != 1 {
		t.Errorf("the event is %+v, want it FIRING until %s", got, next)
	}
	b.opens(time.Time{}, map[string]time.Time{id: next})
	if b.claim(id, next.Add(-time.Millisecond)) != nil {
		t.Error("an event was claimed before its next attempt")
	}
	if claimed := b.claim(id, next); claimed == nil || claimed.Attempts != 2 {
		t.Errorf("the third claim is %+v, want 2 attempts", claimed)
	}
}

func testDead(t *testing.T, b table) {
	claimed := b.claim(b.put(begin()).ID, begin())
	now := begin().Add(time.Second)
	b.mustSettle(schedule.Settled{
		ID: claimed.ID, Version: claimed.Version, Status: schedule.Dead, Attempts: 1, Failures: 1, Error: "too large \xff",
	}, now)
	dead := b.get(claimed.ID)
	if dead.Status != schedule.Dead || dead.Error != "too large \xff" || !dead.Published.IsZero() {
		t.Errorf("the event is %+v, want it DEAD", dead)
	}
	b.opens(time.Time{}, map[string]time.Time{})
	replay := schedule.Change{Kind: schedule.Replay}.Apply(dead, now)
	if !b.replace(replay) {
		t.Fatal("the event was not replayed")
	}
	b.stored(replay)
	b.opens(time.Time{}, map[string]time.Time{dead.ID: now})
	if b.claim(dead.ID, now) == nil {
		t.Error("a replayed event was not claimed")
	}
}

func testReplace(t *testing.T, b table) {
	before := b.put(begin().Add(time.Minute))
	moved := schedule.Change{Kind: schedule.Move, Due: begin().Add(time.Hour)}.Apply(before, begin().Add(time.Second))
	if !b.replace(moved) {
		t.Fatal("the event was not moved")
	}
	b.stored(moved)
	b.opens(time.Time{}, map[string]time.Time{before.ID: moved.Due})
	if b.replace(schedule.Change{Kind: schedule.Cancel}.Apply(before, begin())) {
		t.Error("an old version was replaced")
	}
	unknown := event(begin())
	if b.replace(schedule.Change{Kind: schedule.Cancel}.Apply(unknown, begin())) {
		t.Error("an unknown event was replaced")
	}
	if found, err := b.Get(t.Context(), []string{unknown.ID}); err != nil || found[0] != nil {
		t.Errorf("the unknown event is %+v, %v", found[0], err)
	}
	if !b.replace(schedule.Change{Kind: schedule.Cancel}.Apply(moved, begin().Add(time.Minute))) {
		t.Fatal("the event was not cancelled")
	}
	if got := b.get(before.ID); got.Status != schedule.Cancelled || got.Version != 3 {
		t.Errorf("the event is %+v, want it CANCELLED with version 3", got)
	}
	b.opens(time.Time{}, map[string]time.Time{})
	if b.claim(before.ID, moved.Due) != nil {
		t.Error("a CANCELLED event was claimed")
	}
}

// Of claims and cancels that race, one wins.
func testCancelRace(t *testing.T, b table) {
	e := b.put(begin())
	won := race(func(n int) bool {
		if n%2 == 0 {
			claimed, err := b.Claim(t.Context(), []string{e.ID}, "owner", begin(), begin().Add(lease))
			if err != nil {
				t.Error(err)
			}
			return claimed[0] != nil
		}
		took, err := b.Replace(t.Context(), schedule.Change{Kind: schedule.Cancel}.Apply(e, begin()))
		if err != nil {
			t.Error(err)
		}
		return took
	})
	winner := slices.Index(won, true)
	if winner < 0 || slices.Contains(won[winner+1:], true) {
		t.Fatalf("won: %v, want one", won)
	}
	want := schedule.Firing
	if winner%2 == 1 {
		want = schedule.Cancelled
	}
	if got := b.get(e.ID); got.Status != want || got.Version != 2 {
		t.Errorf("the event is %+v, want it %s with version 2", got, want)
	}
}

func testOpen(t *testing.T, b table) {
	old, due, later := b.put(begin().Add(-90*24*time.Hour)), b.put(begin()), b.put(begin().Add(15*24*time.Hour))
	open := map[string]time.Time{old.ID: old.Due, due.ID: due.Due, later.ID: later.Due}
	b.opens(time.Time{}, open)
	b.opens(later.Due.Add(time.Millisecond), open)
	delete(open, later.ID)
	b.opens(later.Due, open)
	claimed := b.claim(due.ID, begin())
	open[due.ID] = claimed.Lease
	b.opens(later.Due, open)
	b.opens(begin().Add(time.Second), map[string]time.Time{old.ID: old.Due})
	b.mustSettle(schedule.Settled{ID: due.ID, Version: claimed.Version, Status: schedule.Fired, Attempts: 1}, begin())
	delete(open, due.ID)
	b.opens(later.Due, open)
}

func testOpenPages(t *testing.T, b table) {
	const count = 25
	want := map[string]time.Time{}
	for range count { // all at the same time
		e := b.put(begin())
		want[e.ID] = e.Due
	}
	b.opens(time.Time{}, want)
	if _, _, err := b.Open(t.Context(), time.Time{}, "nonsense"); !errors.Is(err, schedule.ErrCursor) {
		t.Errorf("with nonsense as cursor, Open returns %v: want ErrCursor", err)
	}
}

func testList(t *testing.T, b table) {
	byTopic := map[string][]string{}
	for i := range 30 {
		e := event(begin().Add(time.Duration(i) * time.Second))
		if e.Topic = "even"; i%2 == 1 {
			e.Topic = "odd"
		}
		_, err := b.Put(t.Context(), []schedule.Event{e})
		b.check(err)
		byTopic[e.Topic] = append(byTopic[e.Topic], e.ID)
	}
	claimed := b.claim(byTopic["even"][0], begin())
	all := slices.Concat(byTopic["even"], byTopic["odd"])
	for name, test := range map[string]struct {
		filter schedule.Filter
		want   []string
	}{
		"all":        {schedule.Filter{}, all},
		"pages":      {schedule.Filter{Limit: 7}, all},
		"topic":      {schedule.Filter{Topic: "odd", Limit: 4}, byTopic["odd"]},
		"status":     {schedule.Filter{Status: schedule.Firing, Limit: 5}, []string{claimed.ID}},
		"due after":  {schedule.Filter{Topic: "even", DueAfter: begin().Add(20 * time.Second)}, byTopic["even"][10:]},
		"due before": {schedule.Filter{Topic: "even", DueBefore: begin().Add(20 * time.Second)}, byTopic["even"][:10]},
		"none":       {schedule.Filter{Status: schedule.Dead}, nil},
	} {
		got := map[string]bool{}
		for {
			page, next, err := b.List(t.Context(), test.filter)
			b.check(err)
			if test.filter.Limit > 0 && len(page) > test.filter.Limit {
				t.Errorf("%s: a page of %d events, want %d", name, len(page), test.filter.Limit)
			}
			for _, e := range page {
				if got[e.ID] {
					t.Errorf("%s: event %s is listed twice", name, e.ID)
				}
				got[e.ID] = true
			}
			if test.filter.Cursor = next; next == "" {
				break
			}
		}
		if diff := cmp.Diff(slices.Sorted(slices.Values(test.want)), slices.Sorted(maps.Keys(got)), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s differs (-want +got):\n%s", name, diff)
		}
	}
	if _, _, err := b.List(t.Context(), schedule.Filter{Cursor: "nonsense"}); !errors.Is(err, schedule.ErrCursor) {
		t.Errorf("with nonsense as cursor, List returns %v: want ErrCursor", err)
	}
}

func testMany(t *testing.T, b table) {
	const count = 300
	events, ids := make([]schedule.Event, count), make([]string, count)
	for i := range events {
		events[i] = event(begin())
		events[i].Payload = fmt.Append(nil, i)
		ids[i] = events[i].ID
	}
	placed, err := b.Put(t.Context(), events)
	b.check(err)
	claimed, err := b.Claim(t.Context(), ids, "owner", begin(), begin().Add(lease))
	b.check(err)
	ends := make([]schedule.Settled, count)
	for i := range events {
		if !placed[i].Created || claimed[i] == nil || string(claimed[i].Payload) != strconv.Itoa(i) {
			t.Fatalf("event %d is placed as %+v and claimed as %+v", i, placed[i], claimed[i])
		}
		ends[i] = schedule.Settled{ID: ids[i], Version: claimed[i].Version, Status: schedule.Fired, Attempts: 1}
	}
	took, err := b.Settle(t.Context(), ends, begin())
	b.check(err)
	if slices.Contains(took, false) {
		t.Error("an end did not take effect")
	}
	found, err := b.Get(t.Context(), ids)
	b.check(err)
	for i, e := range found {
		if e == nil || e.Status != schedule.Fired {
			t.Fatalf("event %d is %+v, want it FIRED", i, e)
		}
	}
}

func testContext(t *testing.T, b table) {
	e := b.put(begin())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := b.Put(ctx, []schedule.Event{event(begin())}); err == nil {
		t.Error("Put after the end of its context is no error")
	}
	if claimed, err := b.Claim(ctx, []string{e.ID, e.ID}, "owner", begin(), begin().Add(lease)); err == nil || len(claimed) != 2 {
		t.Errorf("Claim after the end of its context returns %v, %v: want an error and a result for each", claimed, err)
	}
	if took, err := b.Settle(ctx, []schedule.Settled{{ID: e.ID}}, begin()); err == nil || len(took) != 1 {
		t.Errorf("Settle after the end of its context returns %v, %v: want an error and a result for each", took, err)
	}
}
