// Package scheduler publishes events when they are due, at least once, whichever process dies:
//
//	client ── gRPC ──▶ API ──▶ Ledger ──due──▶ Worker ──▶ Sink (tenant, Redis stream, Kafka)
//	                            ▲ records and their index
//	           Feed ──▶ Consumer┘
//
// If records and streams are in one Redis, the ledger publishes an event in the step that claims it,
// exactly once.
//
// Each actor is a step function, like the services of the engine. In production, Run loops over
// them; the simulator calls them itself.
//
// A call of Schedule: the server joins concurrent calls (server.combiner), API.Schedule checks their
// requests, and the ledger stores the events (agenda.Ledger.Place, place.lua). The partitionQueue knows
// when the next event of each partition is due. Then Scheduler.work claims a batch (Ledger.Claim,
// claim.lua), publishes it to the Sink, and records the outcomes (Ledger.Settle, settle.lua).
package scheduler

import (
	"context"
	"time"

	"flunq.io/flunq/engine/schedule"
)

// Ledger keeps the events, and hands out those that are due. Each method is atomic for each event.
// After an error of a write it is unknown whether it took effect.
//
// Two ledgers exist: agenda.Ledger keeps everything in Redis; TableLedger keeps the records in a
// Table and only their ids in Redis.
type Ledger interface {
	// Now returns the time of Redis, which decides what is due.
	Now(ctx context.Context) (time.Time, error)

	// Place stores SCHEDULED events, whose ids must differ, whose Version must be 1, and whose Created and
	// Updated times the caller has set. An event whose id exists is left unchanged. The result has one
	// element for each event.
	Place(ctx context.Context, events []schedule.Event) ([]schedule.Placed, error)

	// Get returns events in the order of their ids, with nil for each that does not exist.
	Get(ctx context.Context, ids []string) ([]*schedule.Event, error)

	// Change applies a change to an event if Change.Allows it in the event's current state. It returns
	// the outcome with the event afterwards, or schedule.NotFound.
	Change(ctx context.Context, id string, change schedule.Change, now time.Time) (schedule.Outcome, error)

	// List returns a page of events, ordered by Due and id as far as the ledger can, and the
	// cursor of the next page, "" after the last one.
	List(ctx context.Context, filter schedule.Filter) (page []schedule.Event, next string, err error)

	// Claim makes up to Limit events of a partition FIRING and returns them: those that are due
	// and those whose lease has expired. No event is claimed before its Next, by
	// the clock of Redis. A ledger that publishes events itself returns those as Fired.
	Claim(ctx context.Context, claim schedule.Claim) (schedule.Claimed, error)

	// Settle records the outcomes, at now, of publications of one partition. An outcome whose event is
	// not FIRING in that version has no effect; the result says which took effect.
	Settle(ctx context.Context, partition int, ends []schedule.Settled, now time.Time) (took []bool, err error)

	// Members returns the processes that fire events, and the partitions. If process is not "", it is
	// registered for ttl, or removed if ttl is 0.
	Members(ctx context.Context, process string, ttl time.Duration) (schedule.Members, error)

	// SetPartitions sets the number of partitions to count if the newest number is from (0 if none was
	// set) or already count; otherwise it returns schedule.ErrPartitions. Events stay in their
	// partitions; former ones are forgotten when they are empty.
	SetPartitions(ctx context.Context, from, count int) error
}
