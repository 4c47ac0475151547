package agenda_test

import (
	"slices"
	"testing"
	"time"

	"flunq.io/flunq/engine/agenda"
	"flunq.io/flunq/engine/schedule"
)

const day = 24 * time.Hour

// onVirtual runs a test on each kind of Redis whose clock can be moved.
func onVirtual(t *testing.T, test func(t *testing.T, server redisServer)) {
	t.Helper()
	t.Parallel()
	for _, name := range []string{"miniredis", "memory"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, servers()[name](t))
		})
	}
}

// A former number of partitions is forgotten when it is no longer needed, and its partitions are
// served only while they hold open events.
func TestFormerPartitions(t *testing.T) {
	onVirtual(t, func(t *testing.T, server redisServer) {
		ctx, rdb := t.Context(), server.connect()
		l := agenda.NewLedger(rdb, agenda.Defaults())
		check := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		// members checks the partitions above the newest number and the former numbers.
		members := func(wantAbove bool, former string) schedule.Members {
			t.Helper()
			m, err := l.Members(ctx, "p", time.Minute)
			check(err)
			if above := len(m.Partitions) > m.Count; above != wantAbove || !slices.IsSorted(m.Partitions) {
				t.Errorf("partitions %v, want some above %d: %v", m.Partitions, m.Count, wantAbove)
			}
			if _, is := rdb.HGetAll(ctx, "scheduler:partitions").Val()["former:"+former]; is != (former != "") {
				t.Errorf("the hash of the partitions is %v", rdb.HGetAll(ctx, "scheduler:partitions").Val())
			}
			return m
		}
		check(l.SetPartitions(ctx, 0, 32))
		var events []schedule.Event
		now, _ := l.Now(ctx)
		for n := range 100 {
			due := now.Add(day).Truncate(time.Millisecond)
			events = append(events, schedule.Event{
				Content: schedule.Content{Due: due, Topic: "t", Payload: []byte("x")},
				ID:      uuid(n), Status: schedule.Scheduled, Version: 1, Next: due, Created: now, Updated: now,
			})
		}
		_, err := l.Place(ctx, events)
		check(err)
		check(l.SetPartitions(ctx, 32, 5))
		m := members(true, "32")
		server.advance(day)
		var dead string
		for _, p := range m.Partitions {
			c, err := l.Claim(ctx, schedule.Claim{Partition: p, Limit: 1000, Owner: "p", Lease: time.Minute})
			check(err)
			ends := make([]schedule.Settled, len(c.Events))
			for i, e := range c.Events {
				ends[i] = schedule.Settled{ID: e.ID, Version: e.Version, Status: schedule.Fired, Attempts: 1}
				if dead == "" && schedule.Partition(e.ID, 5) != p {
					dead, ends[i].Status = e.ID, schedule.Dead
				}
			}
			_, err = l.Settle(ctx, p, ends, c.Now)
			check(err)
		}
		members(false, "32")
		// Fired events are found for their retention, and the dead event for as long as it exists.
		server.advance(15*day - time.Minute)
		placed, err := l.Place(ctx, events)
		check(err)
		for _, p := range placed {
			if p.Created {
				t.Fatalf("event %s is stored again", p.Event.ID)
			}
		}
		server.advance(20 * day)
		members(false, "32")
		now, _ = l.Now(ctx)
		later := now.Add(15 * day)
		out, err := l.Change(ctx, dead, schedule.Change{Kind: schedule.Replay, Due: later}, now)
		check(err)
		if out.Code != schedule.Success {
			t.Fatalf("replay: %+v", out)
		}
		members(schedule.Partition(dead, 32) >= 5, "32")
		server.advance(15 * day)
		for p := range 32 {
			c, err := l.Claim(ctx, schedule.Claim{Partition: p, Limit: 10, Owner: "p", Lease: time.Minute})
			check(err)
			for _, e := range c.Events {
				_, err := l.Settle(ctx, p, []schedule.Settled{{ID: e.ID, Version: e.Version, Status: schedule.Fired, Attempts: 1}}, c.Now)
				check(err)
			}
		}
		members(false, "32") // the change was less than keep ago
		if found, err := l.Get(ctx, []string{dead}); err != nil || found[0] == nil || found[0].Status != schedule.Fired {
			t.Errorf("the replayed event: %+v, %v", found, err)
		}
		server.advance(15*day + time.Minute)
		members(false, "")
	})
}

// An entry is found in the partition of a former number.
func TestIndexFormerPartitions(t *testing.T) {
	onServers(t, func(t *testing.T, server redisServer) {
		ctx, rdb := t.Context(), server.connect()
		x, stale := agenda.NewIndex(rdb), agenda.NewIndex(server.connect())
		check := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		check(x.SetPartitions(ctx, 0, 16))
		_, err := stale.Members(ctx, "", 0)
		check(err)
		now, _ := x.Now(ctx)
		var entries []schedule.Entry
		for n := range 100 {
			entries = append(entries, schedule.Entry{ID: uuid(n), Next: now.Truncate(time.Millisecond)})
		}
		add := func(x agenda.Index) {
			t.Helper()
			_, err := x.Add(ctx, entries)
			check(err)
		}
		add(x)
		check(x.SetPartitions(ctx, 16, 5))
		add(x)
		// take takes all entries with leases that expire immediately.
		take := func(want int) {
			t.Helper()
			m, err := x.Members(ctx, "", 0)
			check(err)
			taken := map[string]int{}
			for _, p := range m.Partitions {
				entries, _, _, err := x.Take(ctx, p, 1000, 0)
				check(err)
				for _, e := range entries {
					taken[e.ID]++
				}
			}
			for id, n := range taken {
				if n > 1 {
					t.Errorf("entry %s is taken %d times", id, n)
				}
			}
			if len(taken) != want {
				t.Errorf("%d entries are taken, want %d", len(taken), want)
			}
		}
		take(100)
		add(stale) // a process that does not know the new number
		take(100)
		check(x.Remove(ctx, entries[:50]))
		take(50)
		check(x.Move(ctx, entries[50:]))
		take(50)
		check(x.Remove(ctx, entries))
		take(0)
	})
}
