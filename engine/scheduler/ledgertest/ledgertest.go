// Package ledgertest tests the guarantees of every scheduler.Ledger.
package ledgertest

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"flunq.io/flunq/engine/schedule"
	"flunq.io/flunq/engine/scheduler"
)

// Environment is an empty ledger.
type Environment struct {
	Ledger scheduler.Ledger
	// Another returns the ledger as another process sees it.
	Another func() scheduler.Ledger
	// Advance lets time pass, at least d.
	Advance func(d time.Duration)
	// Unordered says that List returns events in any order.
	Unordered bool
}

// Run runs all tests, each in its own environment.
func Run(t *testing.T, start func(t *testing.T) Environment) {
	t.Helper()
	for _, test := range []struct {
		name string
		run  func(*testing.T, *ledger)
	}{
		{"place", testPlace},
		{"place twice", testPlaceTwice},
		{"claim", testClaim},
		{"never early", testNeverEarly},
		{"order", testOrder},
		{"lease", testLease},
		{"fencing", testFencing},
		{"uncertain", testUncertain},
		{"retry", testRetry},
		{"dead", testDead},
		{"cancel", testCancel},
		{"move", testMove},
		{"replace", testReplace},
		{"race", testRace},
		{"partitions", testPartitions},
		{"members", testMembers},
		{"list", testList},
		{"same millisecond", testSameMillisecond},
		{"hostile", testHostile},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			env := start(t)
			test.run(t, &ledger{Ledger: env.Ledger, env: env, t: t})
		})
	}
}

// count is the number of partitions of most tests.
const count = 4

// lease is longer than any test that does not wait for its end; soon is longer than a few requests
// take.
const (
	lease = time.Minute
	soon  = 300 * time.Millisecond
)

// ledger is the ledger under test. Its errors end the test.
type ledger struct {
	scheduler.Ledger

	env Environment
	t   *testing.T
}

func (l *ledger) check(err error) {
	l.t.Helper()
	if err != nil {
		l.t.Fatal(err)
	}
}

func (l *ledger) now() time.Time {
	l.t.Helper()
	now, err := l.Now(l.t.Context())
	l.check(err)
	return now
}

// partitioned sets the number of partitions.
func (l *ledger) partitioned() {
	l.t.Helper()
	l.check(l.SetPartitions(l.t.Context(), 0, count))
}

// another is the ledger of another process.
func (l *ledger) another() *ledger { return &ledger{Ledger: l.env.Another(), env: l.env, t: l.t} }

// id returns the n-th id.
func id(n int) string { return fmt.Sprintf("%08x-1111-4222-8333-%012x", n*2654435761%(1<<32), n) }

// event returns the n-th event, due after a time.
func (l *ledger) event(n int, after time.Duration) schedule.Event {
	l.t.Helper()
	now := l.now().Truncate(time.Millisecond)
	due := now.Add(after)
	return schedule.Event{
		Content: schedule.Content{
			Due: due, Topic: "orders", Tenant: "default", Key: "key", Headers: map[string]string{"trace": "a\n\"b\" ü"},
			Payload: []byte("{\"status\":\n\x00\xff" + id(n)),
		},
		ID: id(n), Status: schedule.Scheduled, Version: 1, Next: due, Created: now, Updated: now,
	}
}

// place stores events that do not exist.
func (l *ledger) place(events ...schedule.Event) {
	l.t.Helper()
	placed, err := l.Place(l.t.Context(), events)
	l.check(err)
	for i, p := range placed {
		if !p.Created || p.Event.ID != events[i].ID {
			l.t.Fatalf("event %d: created %v, id %s", i, p.Created, p.Event.ID)
		}
	}
}

// get returns an event that exists.
func (l *ledger) get(id string) schedule.Event {
	l.t.Helper()
	found, err := l.Get(l.t.Context(), []string{id})
	l.check(err)
	if len(found) != 1 || found[0] == nil {
		l.t.Fatalf("event %s does not exist", id)
	}
	return *found[0]
}

// claim claims events of all partitions, in the order of their ids.
func (l *ledger) claim(lease time.Duration) []schedule.Event {
	l.t.Helper()
	var out []schedule.Event
	for _, p := range l.members().Partitions {
		out = append(out, l.claimOf(p, 1000, lease).Events...)
	}
	slices.SortFunc(out, func(a, b schedule.Event) int {
		return slices.Compare([]byte(a.ID[24:]), []byte(b.ID[24:]))
	})
	return out
}

func (l *ledger) claimOf(partition, most int, lease time.Duration) schedule.Claimed {
	l.t.Helper()
	claimed, err := l.Claim(l.t.Context(), schedule.Claim{Partition: partition, Limit: most, Owner: `host "1"`, Lease: lease})
	l.check(err)
	return claimed
}

// only claims the one event that is due.
func (l *ledger) only(lease time.Duration) schedule.Event {
	l.t.Helper()
	claimed := l.claim(lease)
	if len(claimed) != 1 {
		l.t.Fatalf("%d events were claimed, want 1", len(claimed))
	}
	return claimed[0]
}

func (l *ledger) members() schedule.Members {
	l.t.Helper()
	m, err := l.Members(l.t.Context(), "", 0)
	l.check(err)
	return m
}

// settle records the end of a publication and reports whether it took effect.
func (l *ledger) settle(end schedule.Settled) bool {
	l.t.Helper()
	m := l.members()
	for _, p := range m.Partitions {
		took, err := l.Settle(l.t.Context(), p, []schedule.Settled{end}, l.now().Truncate(time.Millisecond))
		l.check(err)
		if len(took) != 1 {
			l.t.Fatalf("%d results, want 1", len(took))
		}
		if took[0] {
			return true
		}
	}
	return false
}

// mustSettle records the end of a publication, which has to take effect.
func (l *ledger) mustSettle(end schedule.Settled) {
	l.t.Helper()
	if !l.settle(end) {
		l.t.Fatalf("event %s is not settled", end.ID)
	}
}

// nothingDue checks that no event can be claimed.
func (l *ledger) nothingDue() {
	l.t.Helper()
	if n := len(l.claim(lease)); n != 0 {
		l.t.Errorf("%d events are claimed, want none", n)
	}
}

// change changes an event, and checks the code of the outcome.
func (l *ledger) change(id string, c schedule.Change, want schedule.Code) schedule.Outcome {
	l.t.Helper()
	out, err := l.Change(l.t.Context(), id, c, l.now().Truncate(time.Millisecond))
	l.check(err)
	if out.Code != want {
		l.t.Errorf("%s of event %s: the code is %s, want %s: %+v", c.Kind, id, out.Code, want, out)
	}
	return out
}

// want checks the state of an event.
func (l *ledger) want(e schedule.Event, status schedule.Status, version int64, attempts, failures int) {
	l.t.Helper()
	if e.Status != status || e.Version != version || e.Attempts != attempts || e.Failures != failures {
		l.t.Errorf("event %s is %s version %d, attempts %d, failures %d; want %s, %d, %d, %d",
			e.ID, e.Status, e.Version, e.Attempts, e.Failures, status, version, attempts, failures)
	}
}

// A stored event equals the one that was placed.
func testPlace(t *testing.T, l *ledger) {
	if _, err := l.Place(t.Context(), []schedule.Event{l.event(2000, time.Hour)}); !errors.Is(err, schedule.ErrPartitions) {
		t.Errorf("an event is placed although there are no partitions: %v", err)
	}
	l.partitioned()
	var events []schedule.Event
	for n := range 300 {
		events = append(events, l.event(n, time.Hour+time.Duration(n)*time.Second))
	}
	l.place(events...)
	l.place()
	for i := range events {
		e, want := l.get(events[i].ID), events[i]
		if !e.Equal(want.Content) || e.ID != want.ID || !e.Next.Equal(want.Next) || !e.Created.Equal(want.Created) || !e.Updated.Equal(want.Updated) {
			t.Fatalf("event %d is\n%+v, want\n%+v", i, e, want)
		}
		l.want(e, schedule.Scheduled, 1, 0, 0)
	}
	found, err := l.Get(t.Context(), []string{id(5), id(1000), id(7)})
	if err != nil || found[0] == nil || found[0].ID != id(5) || found[1] != nil || found[2] == nil || found[2].ID != id(7) {
		t.Errorf("get: %v, %v", found, err)
	}
}

// An event whose id exists is left unchanged, whatever its state and content.
func testPlaceTwice(t *testing.T, l *ledger) {
	l.partitioned()
	e := l.event(1, 20*time.Millisecond)
	l.place(e)
	twice := func(status schedule.Status) {
		t.Helper()
		other := e
		other.Due, other.Next, other.Payload = e.Due.Add(time.Hour), e.Due.Add(time.Hour), []byte("other")
		for _, again := range []schedule.Event{other, e} {
			placed, err := l.Place(t.Context(), []schedule.Event{again, l.event(2, time.Hour)})
			if err != nil {
				t.Fatal(err)
			}
			if p := placed[0]; p.Created || p.Event.Status != status || !p.Event.Equal(e.Content) {
				t.Errorf("placed again: %+v, want the stored %s event with its first content", p, status)
			}
		}
	}
	twice(schedule.Scheduled)
	l.env.Advance(20 * time.Millisecond)
	claimed := l.only(lease)
	twice(schedule.Firing)
	l.mustSettle(schedule.Settled{ID: e.ID, Version: claimed.Version, Status: schedule.Fired, Attempts: 1})
	twice(schedule.Fired)
	l.nothingDue()
}

// A claimed event is FIRING and belongs to its owner; a published one is FIRED.
func testClaim(t *testing.T, l *ledger) {
	l.partitioned()
	e := l.event(1, soon)
	l.place(e)
	if c := l.claimOf(schedule.Partition(e.ID, count), 10, lease); !c.Next.Equal(e.Due) || len(c.Events) != 0 {
		t.Errorf("next is %v, want %v", c.Next, e.Due)
	}
	l.env.Advance(soon)
	before := l.now()
	claimed := l.only(lease)
	for _, e := range []schedule.Event{claimed, l.get(e.ID)} {
		l.want(e, schedule.Firing, 2, 0, 0)
		if e.Owner != `host "1"` || e.Lease.Before(before.Add(lease).Truncate(time.Millisecond)) || e.Lease.After(l.now().Add(lease)) {
			t.Errorf("the event has the owner %q and the lease %v, claimed at %v for %v", e.Owner, e.Lease, before, lease)
		}
		if !e.Next.Equal(e.Due) {
			t.Errorf("next is %v, want due %v", e.Next, e.Due)
		}
	}
	if !claimed.Equal(e.Content) {
		t.Errorf("claimed %+v, want the content %+v", claimed, e.Content)
	}
	c := l.claimOf(schedule.Partition(e.ID, count), 10, lease)
	if len(c.Events) != 0 || !c.Next.Equal(claimed.Lease) {
		t.Errorf("claimed again: %d, next %v, want %v", len(c.Events), c.Next, claimed.Lease)
	}
	now := l.now().Truncate(time.Millisecond)
	l.mustSettle(schedule.Settled{ID: e.ID, Version: 2, Status: schedule.Fired, Attempts: 1})
	fired := l.get(e.ID)
	l.want(fired, schedule.Fired, 3, 1, 0)
	if fired.Published.Before(now) || !fired.Updated.Equal(fired.Published) || !fired.Equal(e.Content) {
		t.Errorf("the published event is %+v, want it published and updated at %v or later", fired, now)
	}
	if c := l.claimOf(schedule.Partition(e.ID, count), 10, lease); !c.Next.IsZero() || len(c.Events) != 0 {
		t.Errorf("the partition is not empty: %+v", c)
	}
}

// No event is claimed before it is due.
func testNeverEarly(t *testing.T, l *ledger) {
	l.partitioned()
	const n = 60
	for i := range n {
		l.place(l.event(i, time.Duration(i)*time.Millisecond))
	}
	seen := 0
	for seen < n {
		for p := range count {
			c := l.claimOf(p, 1000, lease)
			for _, e := range c.Events {
				if e.Due.After(c.Now) {
					t.Errorf("an event due at %v is claimed at %v", e.Due, c.Now)
				}
			}
			seen += len(c.Events)
			if len(c.Events) == 0 && !c.Next.IsZero() && !c.Next.After(c.Now) {
				t.Errorf("nothing was claimed, though the next is due at %v, and it is %v", c.Next, c.Now)
			}
		}
		l.env.Advance(time.Millisecond)
	}
}

// The oldest events are claimed first, as many as requested.
func testOrder(t *testing.T, l *ledger) {
	l.check(l.SetPartitions(t.Context(), 0, 1))
	const n, most = 1000, 70
	var events []schedule.Event
	for i := range n {
		e := l.event(i, 0)
		e.Due = e.Due.Add(-time.Duration(i*7919%n) * time.Millisecond)
		e.Next = e.Due
		events = append(events, e)
	}
	l.place(events...)
	var last time.Time
	for seen := 0; seen < n; {
		c := l.claimOf(0, most, lease)
		if len(c.Events) != min(most, n-seen) {
			t.Fatalf("%d events were claimed, want %d", len(c.Events), min(most, n-seen))
		}
		seen += len(c.Events)
		for _, e := range c.Events {
			if e.Due.Before(last) {
				t.Fatalf("%v is claimed after %v", e.Due, last)
			}
			last = e.Due
		}
		if more := seen < n; more == c.Next.After(c.Now) {
			t.Fatalf("after %d events next is %v, now %v", seen, c.Next, c.Now)
		}
	}
}

// An event whose lease has ended is claimed again, and its attempt counts.
func testLease(t *testing.T, l *ledger) {
	l.partitioned()
	l.place(l.event(1, 0))
	first := l.only(30 * time.Millisecond)
	l.env.Advance(first.Lease.Sub(l.now()))
	second := l.only(lease)
	l.want(second, schedule.Firing, 3, 1, 0)
	if l.settle(schedule.Settled{ID: first.ID, Version: first.Version, Status: schedule.Fired, Attempts: 1}) {
		t.Error("the first claim settles the event")
	}
	if !l.settle(schedule.Settled{ID: first.ID, Version: second.Version, Status: schedule.Fired, Attempts: 2}) {
		t.Error("the second claim does not settle the event")
	}
	l.want(l.get(first.ID), schedule.Fired, 4, 2, 0)
}

// An outcome takes effect once, and only in the version that was claimed.
func testFencing(t *testing.T, l *ledger) {
	l.partitioned()
	e := l.event(1, 0)
	l.place(e, l.event(2, time.Hour))
	end := schedule.Settled{ID: e.ID, Version: 1, Status: schedule.Fired, Attempts: 1}
	if l.settle(end) {
		t.Error("an event that is SCHEDULED is settled")
	}
	end.Version = l.only(lease).Version
	for i, version := range []int64{end.Version - 1, end.Version + 1, end.Version, end.Version, end.Version + 1} {
		end := end
		end.Version = version
		if took := l.settle(end); took != (i == 2) {
			t.Errorf("settling version %d, the %dth try, took effect: %v", version, i+1, took)
		}
	}
	if l.settle(schedule.Settled{ID: id(77), Version: 1, Status: schedule.Fired}) {
		t.Error("an unknown event is settled")
	}
}

// An event that may have been published stays FIRING until it is claimed again, and cannot be cancelled.
func testUncertain(t *testing.T, l *ledger) {
	l.partitioned()
	l.place(l.event(1, 0))
	e := l.only(lease)
	next := l.now().Add(soon).Truncate(time.Millisecond)
	l.mustSettle(schedule.Settled{ID: e.ID, Version: e.Version, Status: schedule.Firing, Attempts: 1, Failures: 1, Next: next, Error: "away"})
	got := l.get(e.ID)
	l.want(got, schedule.Firing, 3, 1, 1)
	if !got.Lease.Equal(next) || got.Error != "away" {
		t.Errorf("the event has the lease %v and the error %q, want %v and away", got.Lease, got.Error, next)
	}
	l.change(e.ID, schedule.Change{Kind: schedule.Cancel}, schedule.Conflict)
	l.nothingDue()
	l.env.Advance(next.Sub(l.now()))
	l.want(l.only(lease), schedule.Firing, 4, 2, 1)
}

// An event that was certainly not published is SCHEDULED again, later.
func testRetry(t *testing.T, l *ledger) {
	l.partitioned()
	l.place(l.event(1, 0))
	e := l.only(lease)
	next := l.now().Add(soon).Truncate(time.Millisecond)
	l.mustSettle(schedule.Settled{ID: e.ID, Version: e.Version, Status: schedule.Scheduled, Attempts: 1, Failures: 1, Next: next, Error: `no "leader"`})
	got := l.get(e.ID)
	l.want(got, schedule.Scheduled, 3, 1, 1)
	if !got.Next.Equal(next) || got.Error != `no "leader"` || !got.Due.Equal(e.Due) {
		t.Errorf("the event is %+v, want it at %v with the error", got, next)
	}
	l.nothingDue()
	l.env.Advance(next.Sub(l.now()))
	again := l.only(lease)
	l.want(again, schedule.Firing, 4, 1, 1)
	if !again.Next.Equal(next) || again.Error != `no "leader"` {
		t.Errorf("claimed again at %v with the error %q, want %v and the same error", again.Next, again.Error, next)
	}
	l.mustSettle(schedule.Settled{ID: e.ID, Version: 4, Status: schedule.Scheduled, Attempts: 2, Failures: 2, Next: l.now().Add(time.Hour), Error: "x"})
	// It was certainly not published, so it can be cancelled.
	l.change(e.ID, schedule.Change{Kind: schedule.Cancel}, schedule.Success)
}

// A dead event stays until it is replayed.
func testDead(t *testing.T, l *ledger) {
	l.partitioned()
	l.place(l.event(1, 0), l.event(2, 0))
	for _, e := range l.claim(lease) {
		l.mustSettle(schedule.Settled{ID: e.ID, Version: e.Version, Status: schedule.Dead, Attempts: 1, Failures: 1, Error: "too large"})
		if got := l.get(e.ID); got.Error != "too large" {
			t.Errorf("the error is %q, want too large", got.Error)
		}
	}
	l.want(l.get(id(1)), schedule.Dead, 3, 1, 1)
	l.nothingDue()
	for _, kind := range []schedule.ChangeKind{schedule.Cancel, schedule.Move} {
		l.change(id(1), schedule.Change{Kind: kind, Due: l.now().Add(time.Hour)}, schedule.Conflict)
	}
	l.place(l.event(3, 0))
	three := l.only(lease)
	l.mustSettle(schedule.Settled{ID: three.ID, Version: three.Version, Status: schedule.Dead, Attempts: 1, Failures: 1, Error: "x"})
	l.change(id(3), schedule.Change{Kind: schedule.Drop}, schedule.Success)
	l.want(l.get(id(3)), schedule.Cancelled, 4, 1, 1)
	out := l.change(id(1), schedule.Change{Kind: schedule.Replay}, schedule.Success)
	l.want(*out.Event, schedule.Scheduled, 4, 0, 0)
	l.want(l.only(lease), schedule.Firing, 5, 0, 0)
	later := l.now().Add(soon).Truncate(time.Millisecond)
	if out := l.change(id(2), schedule.Change{Kind: schedule.Replay, Due: later}, schedule.Success); !out.Event.Next.Equal(later) {
		t.Errorf("an event replayed at %v is published at %v", later, out.Event.Next)
	}
	l.nothingDue()
	l.env.Advance(later.Sub(l.now()))
	if e := l.only(lease); e.ID != id(2) {
		t.Errorf("event %s was claimed, the wrong one", e.ID)
	}
}

// A cancelled event is never claimed.
func testCancel(t *testing.T, l *ledger) {
	l.partitioned()
	cancel := schedule.Change{Kind: schedule.Cancel}
	if out := l.change(id(1), cancel, schedule.NotFound); out.Event != nil {
		t.Errorf("an unknown event is %+v", out.Event)
	}
	l.place(l.event(1, 10*time.Millisecond), l.event(2, 10*time.Millisecond))
	l.want(*l.change(id(1), cancel, schedule.Success).Event, schedule.Cancelled, 2, 0, 0)
	l.change(id(1), cancel, schedule.NoContent)
	l.want(l.get(id(1)), schedule.Cancelled, 2, 0, 0)
	l.env.Advance(10 * time.Millisecond)
	e := l.only(lease)
	if e.ID != id(2) {
		t.Errorf("event %s was claimed, the wrong one", e.ID)
	}
	l.want(*l.change(id(2), cancel, schedule.Conflict).Event, schedule.Firing, 2, 0, 0)
	l.mustSettle(schedule.Settled{ID: e.ID, Version: e.Version, Status: schedule.Fired, Attempts: 1})
	l.want(*l.change(id(2), cancel, schedule.Conflict).Event, schedule.Fired, 3, 1, 0)
}

// A moved event is claimed at its new time, and only then.
func testMove(t *testing.T, l *ledger) {
	l.partitioned()
	l.place(l.event(1, time.Hour), l.event(2, 10*time.Millisecond))
	earlier := l.now().Add(10 * time.Millisecond).Truncate(time.Millisecond)
	out := l.change(id(1), schedule.Change{Kind: schedule.Move, Due: earlier}, schedule.Success)
	if !out.Event.Due.Equal(earlier) || !out.Event.Next.Equal(earlier) {
		t.Errorf("an event moved to %v is due at %v and published at %v", earlier, out.Event.Due, out.Event.Next)
	}
	l.want(l.get(id(1)), schedule.Scheduled, 2, 0, 0)
	later := l.now().Add(time.Hour).Truncate(time.Millisecond)
	l.change(id(2), schedule.Change{Kind: schedule.Move, Due: later}, schedule.Success)
	if got := l.get(id(2)); !got.Due.Equal(later) || !got.Next.Equal(later) || string(got.Payload) == "" {
		t.Errorf("an event moved to %v is %+v", later, got)
	}
	l.env.Advance(20 * time.Millisecond)
	if e := l.only(lease); e.ID != id(1) {
		t.Errorf("event %s was claimed, the wrong one", e.ID)
	}
	l.change(id(1), schedule.Change{Kind: schedule.Move, Due: later}, schedule.Conflict) // it is FIRING
}

// A replaced event has its new content.
func testReplace(t *testing.T, l *ledger) {
	l.partitioned()
	e := l.event(1, time.Hour)
	l.place(e)
	c := schedule.Content{Due: l.now().Truncate(time.Millisecond), Topic: "other", Payload: []byte("x")}
	l.change(e.ID, schedule.Change{Kind: schedule.Replace, Content: c}, schedule.Success)
	claimed := l.only(lease)
	if !claimed.Equal(c) || !claimed.Created.Equal(e.Created) {
		t.Errorf("claimed %+v, want the content %+v, created %v", claimed, c, e.Created)
	}
}

// Of several processes that place, claim, settle or cancel one event at the same time, one succeeds.
func testRace(t *testing.T, l *ledger) {
	l.partitioned()
	const racers = 16
	race := func(name string, try func(l *ledger) bool) {
		t.Helper()
		var wg sync.WaitGroup
		results := make([]bool, racers)
		for i := range racers {
			other := l.another()
			wg.Go(func() { results[i] = try(other) })
		}
		wg.Wait()
		n := 0
		for _, ok := range results {
			if ok {
				n++
			}
		}
		if n != 1 {
			t.Errorf("%s: %d succeed, want 1", name, n)
		}
	}
	for n := range 5 {
		e := l.event(n, 0)
		p := schedule.Partition(e.ID, count)
		race("place", func(l *ledger) bool {
			placed, err := l.Place(t.Context(), []schedule.Event{e})
			return err == nil && placed[0].Created
		})
		race("claim", func(l *ledger) bool {
			claimed, err := l.Claim(t.Context(), schedule.Claim{Partition: p, Limit: 10, Owner: "x", Lease: lease})
			return err == nil && len(claimed.Events) == 1
		})
		race("settle", func(l *ledger) bool {
			took, err := l.Settle(t.Context(), p, []schedule.Settled{{ID: e.ID, Version: 2, Status: schedule.Fired, Attempts: 1}}, e.Due)
			return err == nil && took[0]
		})
	}
	for n := range 20 {
		e := l.event(100+n, 0)
		l.place(e)
		p := schedule.Partition(e.ID, count)
		var mu sync.Mutex
		cancelled, claimed := 0, 0
		race("claim or cancel", func(l *ledger) bool {
			mu.Lock()
			turn := (cancelled + claimed) % 2
			cancelled, claimed = cancelled+turn, claimed+1-turn
			mu.Unlock()
			if turn == 1 {
				out, err := l.Change(t.Context(), e.ID, schedule.Change{Kind: schedule.Cancel}, e.Due)
				return err == nil && out.Code == schedule.Success
			}
			c, err := l.Claim(t.Context(), schedule.Claim{Partition: p, Limit: 10, Owner: "x", Lease: lease})
			return err == nil && len(c.Events) == 1
		})
	}
}

// Nothing is lost or stored twice when the number of partitions changes, although processes learn of
// it late.
func testPartitions(t *testing.T, l *ledger) {
	steps := []int{16, 4, 32, 5}
	stale := l.another()
	var last int
	n := 0
	for _, count := range steps {
		if err := l.SetPartitions(t.Context(), 99, count); err == nil {
			t.Errorf("%d partitions are set, although 99 were expected", count)
		}
		l.check(l.SetPartitions(t.Context(), last, count))
		l.check(l.SetPartitions(t.Context(), last, count)) // it is already count
		last = count
		for range 50 {
			by := []*ledger{l, stale}[n%2]
			by.place(by.event(n, 30*time.Millisecond))
			n++
		}
		for i := range n {
			e := l.get(id(i))
			placed, err := stale.Place(t.Context(), []schedule.Event{e})
			if err != nil || placed[0].Created {
				t.Fatalf("with %d partitions event %d is stored again: %v", count, i, err)
			}
		}
	}
	for i := range n / 2 {
		stale.change(id(2*i), schedule.Change{Kind: schedule.Cancel}, schedule.Success)
	}
	m := l.members()
	if m.Count != last || !slices.IsSorted(m.Partitions) || len(m.Partitions) < last {
		t.Errorf("members %+v", m)
	}
	l.env.Advance(30 * time.Millisecond)
	for i, e := range l.claim(lease) {
		if e.ID != id(2*i+1) {
			t.Fatalf("claimed %s, want %s", e.ID, id(2*i+1))
		}
		if !l.settle(schedule.Settled{ID: e.ID, Version: e.Version, Status: schedule.Fired, Attempts: 1}) {
			t.Errorf("event %d is not settled", i)
		}
		n--
	}
	if n != len(steps)*25 {
		t.Errorf("%d events are left", n)
	}
}

// A process is a member until its registration ends.
func testMembers(t *testing.T, l *ledger) {
	if m := l.members(); m.Count != 0 || len(m.Partitions)+len(m.Processes) != 0 || m.Now.IsZero() {
		t.Errorf("members %+v", m)
	}
	l.partitioned()
	for _, process := range []string{"b", "a", "c"} {
		_, err := l.Members(t.Context(), process, map[string]time.Duration{"a": lease, "b": soon, "c": lease}[process])
		l.check(err)
	}
	m := l.another().members()
	if !slices.Equal(m.Processes, []string{"a", "b", "c"}) || m.Count != count || !slices.Equal(m.Partitions, []int{0, 1, 2, 3}) {
		t.Errorf("members %+v", m)
	}
	l.env.Advance(soon)
	m, err := l.Members(t.Context(), "c", 0)
	if err != nil || !slices.Equal(m.Processes, []string{"a"}) {
		t.Errorf("members %+v, %v", m, err)
	}
}

// list returns all pages of a list.
func (l *ledger) list(filter schedule.Filter) (all []schedule.Event) {
	l.t.Helper()
	for range 1000 {
		page, next, err := l.List(l.t.Context(), filter)
		l.check(err)
		if len(page) > filter.Limit {
			l.t.Fatalf("a page has %d events, want at most %d", len(page), filter.Limit)
		}
		all = append(all, page...)
		if filter.Cursor = next; next == "" {
			return all
		}
	}
	l.t.Fatal("the list has no end")
	return nil
}

// statuses returns the states of the events of testList, by number.
func statuses() []schedule.Status {
	return []schedule.Status{schedule.Scheduled, schedule.Fired, schedule.Dead, schedule.Firing, schedule.Cancelled}
}

// mixed stores events in all states.
func (l *ledger) mixed(each int) []schedule.Event {
	l.t.Helper()
	events, number := make([]schedule.Event, each*len(statuses())), map[string]int{}
	for n := range events {
		switch statuses()[n%len(statuses())] {
		case schedule.Scheduled, schedule.Cancelled:
			events[n] = l.event(n, time.Hour+time.Duration(n/50)*time.Second)
		case schedule.Firing, schedule.Fired, schedule.Dead:
			events[n] = l.event(n, 0)
		}
		if n%2 == 0 {
			events[n].Topic = "even"
		}
		number[events[n].ID] = n
	}
	l.place(events...)
	for _, e := range l.claim(lease) {
		end := schedule.Settled{ID: e.ID, Version: e.Version, Status: statuses()[number[e.ID]%len(statuses())], Attempts: 1}
		if end.Status != schedule.Firing && !l.settle(end) {
			l.t.Fatal("not settled")
		}
	}
	for n, e := range events {
		if statuses()[n%len(statuses())] == schedule.Cancelled {
			l.change(e.ID, schedule.Change{Kind: schedule.Cancel}, schedule.Success)
		}
	}
	return events
}

// The pages of a list have each event once.
func testList(t *testing.T, l *ledger) {
	l.partitioned()
	const each = 40
	stored := map[string]schedule.Event{}
	for _, e := range l.mixed(each) {
		stored[e.ID] = e
	}
	// same checks the events of a list.
	same := func(found []schedule.Event, want int, status schedule.Status) {
		t.Helper()
		seen := map[string]bool{}
		for i, e := range found {
			if status == schedule.Scheduled && !l.env.Unordered && i > 0 &&
				cmp.Or(e.Due.Compare(found[i-1].Due), strings.Compare(e.ID, found[i-1].ID)) < 0 {
				t.Errorf("%s follows %s", e.ID, found[i-1].ID)
			}
			if seen[e.ID] || status != "" && e.Status != status || !e.Equal(stored[e.ID].Content) {
				t.Fatalf("%s: %+v", status, e)
			}
			seen[e.ID] = true
		}
		if len(found) != want {
			t.Errorf("%d events, want %d", len(found), want)
		}
	}
	for _, limit := range []int{7, each, 1000} {
		for _, status := range statuses() {
			same(l.list(schedule.Filter{Status: status, Limit: limit}), each, status)
		}
		same(l.list(schedule.Filter{Limit: limit}), len(stored), "")
	}
	same(l.list(schedule.Filter{Limit: 11, Topic: "even", Status: schedule.Scheduled}), each/2, schedule.Scheduled)
	from, to := stored[id(50)].Due, stored[id(150)].Due
	same(l.list(schedule.Filter{Limit: 3, Status: schedule.Scheduled, DueAfter: from, DueBefore: to}), each/2, schedule.Scheduled)
	if len(l.list(schedule.Filter{Limit: 3, Status: schedule.Scheduled, DueAfter: to, DueBefore: to.Add(1)})) == 0 {
		t.Errorf("no event is due before a nanosecond after %s", to)
	}
	sum := 0
	for p := range count {
		for _, e := range l.list(schedule.Filter{Limit: 11, Partition: &p}) {
			if schedule.Partition(e.ID, count) != p {
				t.Errorf("event %s is not in partition %d", e.ID, p)
			}
			sum++
		}
	}
	if sum != len(stored) {
		t.Errorf("the partitions have %d events, want %d", sum, len(stored))
	}
	if _, _, err := l.List(t.Context(), schedule.Filter{Limit: 1, Cursor: "x\ny"}); !errors.Is(err, schedule.ErrCursor) {
		t.Errorf("an invalid cursor: %v", err)
	}
}

// Events that are due in the same millisecond are claimed once each, as many as requested.
func testSameMillisecond(t *testing.T, l *ledger) {
	l.check(l.SetPartitions(t.Context(), 0, 1))
	const n, most = 500, 90
	due := l.now().Truncate(time.Millisecond)
	events := make([]schedule.Event, n)
	for i := range events {
		events[i] = l.event(i, 0)
		events[i].Due, events[i].Next = due, due
	}
	l.place(events...)
	seen := map[string]bool{}
	for len(seen) < n {
		c := l.claimOf(0, most, lease)
		if len(c.Events) != min(most, n-len(seen)) {
			t.Fatalf("%d events are claimed after %d", len(c.Events), len(seen))
		}
		for _, e := range c.Events {
			if seen[e.ID] {
				t.Fatalf("event %s is claimed twice", e.ID)
			}
			seen[e.ID] = true
		}
	}
}

// The content of an event does not affect how it is stored.
func testHostile(t *testing.T, l *ledger) {
	l.partitioned()
	long := strings.Repeat("é\"\\", 200)
	var events []schedule.Event
	for i, payload := range []string{
		"\n", "\n\n", "{", `{"status":"FIRED","version":9,"attempts":0,"failures":0}` + "\n", `{"format":2}` + "\n", "\x00\xff\r\n$5\r\n",
		strings.Repeat("\n", 1<<16),
	} {
		e := l.event(i, 0)
		e.Payload, e.Key, e.Topic = []byte(payload), long, `event:a\nb","error":"x`
		e.Headers = map[string]string{long: long, `","status":"DEAD`: `}`, "\u2028": "\n"}
		events = append(events, e)
	}
	l.place(events...)
	claimed, err := l.Claim(t.Context(), schedule.Claim{Partition: schedule.Partition(id(0), count), Limit: 0, Owner: "o", Lease: lease})
	if err != nil || len(claimed.Events) != 0 {
		t.Errorf("none was asked for: %+v, %v", claimed, err)
	}
	text := "\"" + `},"error":"x"}` + "\n" + long
	for i, e := range l.claim(lease) {
		if !e.Equal(events[i].Content) {
			t.Errorf("claimed %+v, want %+v", e, events[i])
		}
		next := l.now().Truncate(time.Millisecond)
		if !l.settle(schedule.Settled{ID: e.ID, Version: e.Version, Status: schedule.Firing, Next: next, Error: text}) {
			t.Errorf("event %d is not settled", i)
		}
	}
	l.env.Advance(time.Millisecond)
	for i, e := range l.claim(lease) {
		l.want(e, schedule.Firing, 4, 1, 0)
		if !e.Equal(events[i].Content) || e.Error != text {
			t.Errorf("claimed again: %+v", e)
		}
	}
}
