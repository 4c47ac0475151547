package scheduler_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"flunq.io/flunq/engine/agenda"
	"flunq.io/flunq/engine/dynamo/dynamotest"
	"flunq.io/flunq/engine/schedule"
	"flunq.io/flunq/engine/scheduler"
	"flunq.io/flunq/engine/scheduler/ledgertest"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/redistest"
	"flunq.io/flunq/engine/store/wire"
	"flunq.io/flunq/sim/memory"
	"flunq.io/flunq/sim/table"
)

// redisServer is an empty Redis whose time passes.
type redisServer struct {
	connect func() *wire.Client
	advance func(time.Duration)
	flush   func()
}

// inMemory starts a Redis whose time passes only on demand.
func inMemory(t *testing.T) redisServer {
	t.Helper()
	server := memory.New(time.Date(2040, 1, 2, 3, 4, 5, 678_900_000, time.UTC))
	t.Cleanup(server.Close)
	connect := func() *wire.Client {
		client := wire.Passive(server.Dial)
		t.Cleanup(func() { _ = client.Close() })
		return wire.NewClient(client)
	}
	return redisServer{connect, func(d time.Duration) { server.SetTime(server.Now().Add(d)) }, flush(t, connect())}
}

// inReality starts a redis-server.
func inReality(t *testing.T) redisServer {
	t.Helper()
	addr := redistest.Addr(t)
	connect := func() *wire.Client {
		rdb, err := store.Dial(t.Context(), addr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = rdb.Close() })
		return wire.NewClient(rdb)
	}
	return redisServer{connect, time.Sleep, flush(t, connect())}
}

// flush makes a Redis forget everything.
func flush(t *testing.T, rdb *wire.Client) func() {
	t.Helper()
	return func() {
		if err := rdb.FlushAll(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
	}
}

// A TableLedger is a Ledger, wherever its table and its index are.
func TestTableLedger(t *testing.T) {
	t.Parallel()
	run := func(name string, redis func(*testing.T) redisServer, records func(*testing.T) scheduler.Table) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ledgertest.Run(t, func(t *testing.T) ledgertest.Environment {
				server, records := redis(t), records(t)
				ledger := func() scheduler.Ledger {
					return scheduler.NewTableLedger(records, agenda.NewIndex(server.connect()), nil)
				}
				return ledgertest.Environment{Ledger: ledger(), Another: ledger, Advance: server.advance, Unordered: true}
			})
		})
	}
	simulated := func(*testing.T) scheduler.Table { return table.New(table.Options{}) }
	run("simulated", inMemory, simulated)
	run("simulated with redis-server", inReality, simulated)
	run("dynalite", inMemory, func(t *testing.T) scheduler.Table { return dynamotest.Table(t, dynamotest.Dynalite(t)) })
}

// Of two processes that move an event, the one that is first in the table may be last in the index. The
// event fires at the time in the table.
func TestTableLedgerConcurrentMoves(t *testing.T) {
	t.Parallel()
	const id = "00000000-0000-4000-8000-000000000001"
	ctx, server := t.Context(), inMemory(t)
	now := time.Date(2040, 1, 2, 3, 4, 6, 0, time.UTC) // at most a second after the server's
	var ledger *scheduler.TableLedger
	move := func(after time.Duration) {
		out, err := ledger.Change(ctx, id, schedule.Change{Kind: schedule.Move, Due: now.Add(after)}, now)
		if err != nil || out.Code != schedule.Success {
			t.Errorf("move: %v, %v", out, err)
		}
	}
	first := true
	ledger = scheduler.NewTableLedger(table.New(table.Options{Hook: func(_ context.Context, method, _ string, carryOut func()) error {
		if carryOut(); method == "Replace" && first {
			first = false
			move(2 * time.Minute)
		}
		return nil
	}}), agenda.NewIndex(server.connect()), nil)
	if err := ledger.SetPartitions(ctx, 0, 1); err != nil {
		t.Fatal(err)
	}
	content := schedule.Content{Due: now.Add(time.Minute), Topic: "orders", Payload: []byte("1")}
	e := schedule.Event{ID: id, Content: content, Status: schedule.Scheduled, Version: 1, Next: content.Due, Created: now, Updated: now}
	if _, err := ledger.Place(ctx, []schedule.Event{e}); err != nil {
		t.Fatal(err)
	}
	move(3 * time.Minute)
	server.advance(2*time.Minute + time.Second)
	claimed, err := ledger.Claim(ctx, schedule.Claim{Limit: 1, Owner: "a", Lease: time.Minute})
	if err != nil || len(claimed.Events) != 1 {
		t.Errorf("claimed %d events, %v, want the one that is due", len(claimed.Events), err)
	}
}

// An event that was scheduled while records were kept in Redis is published once they are again.
func TestRecordsMove(t *testing.T) {
	t.Parallel()
	ctx, server := t.Context(), inMemory(t)
	now := time.Date(2040, 1, 2, 3, 4, 6, 0, time.UTC) // at most a second after the server's
	before := agenda.NewLedger(server.connect(), agenda.Defaults())
	if err := before.SetPartitions(ctx, 0, 1); err != nil {
		t.Fatal(err)
	}
	content := schedule.Content{Due: now.Add(time.Minute), Topic: "orders", Payload: []byte("1")}
	e := schedule.Event{ID: "00000000-0000-4000-8000-000000000001", Content: content, Status: schedule.Scheduled, Version: 1, Next: content.Due, Created: now, Updated: now}
	if _, err := before.Place(ctx, []schedule.Event{e}); err != nil {
		t.Fatal(err)
	}
	server.advance(2 * time.Minute)
	claim := schedule.Claim{Limit: 1, Owner: "a", Lease: time.Minute}
	meanwhile := scheduler.NewTableLedger(table.New(table.Options{}), agenda.NewIndex(server.connect()), nil)
	for range 2 {
		if claimed, err := meanwhile.Claim(ctx, claim); err == nil || !strings.Contains(err.Error(), e.ID) || len(claimed.Events) > 0 {
			t.Errorf("the other ledger claimed %d events, %v: want an error that names the event", len(claimed.Events), err)
		}
		server.advance(2 * time.Minute)
	}
	if claimed, err := before.Claim(ctx, claim); err != nil || len(claimed.Events) != 1 {
		t.Errorf("claimed %d events, %v, want one", len(claimed.Events), err)
	}
}
