package agenda_test

import (
	"fmt"
	"testing"
	"time"

	"flunq.io/flunq/engine/agenda"
	"flunq.io/flunq/engine/schedule"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/redistest"
)

// Counts returns the numbers of events of each partition, in leaves, claimed and dead.
func TestCounts(t *testing.T) {
	t.Parallel()
	ledger := agenda.NewLedger(store.New(redistest.Start(t), store.Options{}).Redis(), agenda.Defaults())
	ctx := t.Context()
	if err := ledger.SetPartitions(ctx, 0, 2); err != nil {
		t.Fatal(err)
	}
	now, err := ledger.Now(ctx)
	if err != nil {
		t.Fatal(err)
	}
	var events []schedule.Event
	for i := range 400 {
		due := now.Add(time.Hour + time.Duration(i)*time.Second)
		if i < 100 {
			due = now.Add(-time.Minute)
		}
		c := schedule.Content{Due: due.Truncate(time.Millisecond), Topic: "t", Payload: []byte("x")}
		events = append(events, schedule.Event{ID: fmt.Sprintf("00000000-0000-4000-8000-%012d", i), Content: c, Status: schedule.Scheduled, Version: 1, Next: c.Due, Created: now, Updated: now})
	}
	if _, err := ledger.Place(ctx, events); err != nil {
		t.Fatal(err)
	}
	claimed, err := ledger.Claim(ctx, schedule.Claim{Partition: 0, Limit: 10, Owner: "p", Lease: time.Minute})
	if err != nil || len(claimed.Events) != 10 {
		t.Fatalf("claimed %d, %v", len(claimed.Events), err)
	}
	end := schedule.Settled{ID: claimed.Events[0].ID, Version: claimed.Events[0].Version, Status: schedule.Dead, Attempts: 1, Failures: 1, Error: "no"}
	if _, err := ledger.Settle(ctx, 0, []schedule.Settled{end}, now); err != nil {
		t.Fatal(err)
	}
	counts, err := ledger.Counts(ctx, time.Second)
	if err != nil || len(counts) != 2 {
		t.Fatalf("%+v, %v", counts, err)
	}
	want := schedule.Counts{Scheduled: 390, Overdue: 90, Firing: 9, Dead: 1}
	var got schedule.Counts
	for _, c := range counts {
		got.Scheduled, got.Overdue, got.Firing, got.Dead = got.Scheduled+c.Scheduled, got.Overdue+c.Overdue, got.Firing+c.Firing, got.Dead+c.Dead
		if c.Next.IsZero() || c.Now.Before(now) {
			t.Errorf("partition %d: next %s, now %s", c.Partition, c.Next, c.Now)
		}
	}
	if got != want {
		t.Errorf("counts %+v, want %+v", got, want)
	}
}

// A full Redis still records what was published: otherwise it would be published again after each lease.
func TestSettleInFullRedis(t *testing.T) {
	t.Parallel()
	ctx, rdb := t.Context(), redistest.Serve(t, "--maxmemory-policy", "noeviction").Client(t)
	ledger := agenda.NewLedger(store.New(rdb, store.Options{}).Redis(), agenda.Defaults())
	if err := ledger.SetPartitions(ctx, 0, 1); err != nil {
		t.Fatal(err)
	}
	now, err := ledger.Now(ctx)
	if err != nil {
		t.Fatal(err)
	}
	c := schedule.Content{Due: now.Add(-time.Minute).Truncate(time.Millisecond), Topic: "t", Payload: []byte("x")}
	e := schedule.Event{ID: "00000000-0000-4000-8000-000000000001", Content: c, Status: schedule.Scheduled, Version: 1, Next: c.Due, Created: now, Updated: now}
	if _, err := ledger.Place(ctx, []schedule.Event{e}); err != nil {
		t.Fatal(err)
	}
	if err := rdb.ConfigSet(ctx, "maxmemory", "1").Err(); err != nil {
		t.Fatal(err)
	}
	claimed, err := ledger.Claim(ctx, schedule.Claim{Limit: 1, Owner: "p", Lease: time.Minute})
	if err != nil || len(claimed.Events) != 1 {
		t.Fatalf("%+v, %v", claimed, err)
	}
	took, err := ledger.Settle(ctx, 0, []schedule.Settled{{ID: e.ID, Version: claimed.Events[0].Version, Status: schedule.Fired, Attempts: 1}}, now)
	if err != nil || !took[0] {
		t.Errorf("%v, %v", took, err)
	}
}
