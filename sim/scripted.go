package sim

import (
	"context"
	"time"

	"flunq.io/flunq/engine"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/executor/breaker"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/sim/invariant"
)

// Scripted lists scripted events of a simulation, in addition to those that its Plan and seed
// decide. The simulator's own workloads use it.
type Scripted struct {
	Arrivals  []Arrival           // events from outside and operations
	CrashURL  string              // a URL whose callers crash
	CrashType event.Type          // a type of event whose consumers crash
	Refuse    func(n uint64) int  // how many times the n-th timer request fails at first; nil: never
	Breakers  func() *breaker.Set // of each process; nil: none
	Retention *engine.Retention   // nil: depends on the seed
}

// Arrival is an event from outside, or an operation, and the virtual time at which it arrives.
type Arrival struct {
	At    time.Time
	Event event.Event
	Do    func(context.Context, Operator) error // instead of an event; nil: the event
}

// Operator is passed to an operation.
type Operator struct {
	Store   *store.Store
	Elapsed time.Duration    // since the start of the simulation
	Report  invariant.Report // records a violation
}
