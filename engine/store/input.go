package store

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/store/wire"
)

// InputOutcome says what happened to an input.
type InputOutcome string

// The outcomes.
const (
	InputAccepted  InputOutcome = "accepted"          // a task consumed it
	InputRejected  InputOutcome = "rejected"          // no task listened for it
	InputParked    InputOutcome = "parked"            // no task listens for it yet: it is kept for one that begins to
	InputCompleted InputOutcome = "already_completed" // its execution has ended
	InputUnknown   InputOutcome = "unknown"           // the execution does not exist: the input was dead-lettered
	InputDuplicate InputOutcome = "duplicate"         // it was already accepted; this outcome is not recorded
)

// InputResult says what a commit does with the input that its message delivers.
type InputResult struct {
	Timer   event.Timer // that delivered it
	Outcome InputOutcome
	Parked  *ParkedInput // nil: do not park it
	Record  *Observation // nil: do not record it
}

// ParkedInput is an input that is kept for a task that begins to listen.
type ParkedInput struct {
	Timer event.Timer // ends the parking
	Score string      // of that timer
	Fired event.Event // delivered to such a task
}

// args returns the arguments for an input as commit.lua reads them.
func (r *InputResult) args(s *Store) []any {
	args := []any{TimerNote(r.Timer)}
	if p := r.Parked; p != nil {
		args = append(args, p.Score, s.SealText(event.TimerText(&p.Timer)), r.Timer.InputID(),
			p.Fired.Time.UTC().Format(time.RFC3339Nano), s.SealText(string(p.Fired.Data)))
	} else {
		args = append(args, "", "", "", "", "")
	}
	if r.Record != nil {
		args = append(args, wire.Args(r.Record.fields(s))...)
	}
	return args
}

// Observation records what became of an input.
type Observation struct {
	ID         string // of its entry
	Execution  string
	Workflow   string
	Type       string // of the event
	Key        string
	Outcome    InputOutcome
	Reason     string // why it was rejected
	FireAt     time.Time
	ObservedAt time.Time
}

// maxObservations is the approximate number of observations kept per tenant.
const maxObservations = 10_000

func (o *Observation) fields(s *Store) []string {
	return []string{
		"execution", o.Execution, "workflow", o.Workflow, "input_type", o.Type, "key", o.Key, "outcome", string(o.Outcome),
		"reason", s.SealText(o.Reason), "fire_at", o.FireAt.UTC().Format(time.RFC3339Nano),
		"observed_at", o.ObservedAt.UTC().Format(time.RFC3339Nano),
	}
}

// Observe records what became of an input outside of a commit.
func (s *Store) Observe(ctx context.Context, tenant string, o Observation) error {
	if err := CheckTenant(tenant); err != nil {
		return err
	}
	return Failed("record an input", s.rdb.XAdd(ctx, &redis.XAddArgs{
		Stream: s.keys.Inputs(tenant), MaxLen: maxObservations, Approx: true, Values: o.fields(s),
	}).Err())
}

// Observations reads up to limit records of a tenant, newest first, beginning before an id; "" begins
// with the newest. next is the id to continue with, "" at the end.
func (s *Store) Observations(ctx context.Context, tenant, before string, limit int) (all []Observation, next string, err error) {
	if err := CheckTenant(tenant); err != nil {
		return nil, "", err
	}
	from := "+"
	if before != "" {
		from = "(" + before
	}
	entries, err := s.rdb.XRevRangeN(ctx, s.keys.Inputs(tenant), from, "-", int64(limit)).Result()
	if err != nil {
		return nil, "", Failed("read the records of inputs", err)
	}
	for _, entry := range entries {
		text := func(name string) string {
			value, _ := entry.Values[name].(string) // go-redis always reads a string
			return value
		}
		all = append(all, Observation{
			ID: entry.ID, Execution: text("execution"), Workflow: text("workflow"), Type: text("input_type"), Key: text("key"),
			Outcome: InputOutcome(text("outcome")), Reason: string(s.Unseal(text("reason"))),
			FireAt: wire.Time(text("fire_at")), ObservedAt: wire.Time(text("observed_at")),
		})
	}
	if len(entries) == limit && limit > 0 {
		next = entries[limit-1].ID
	}
	return all, next, nil
}
