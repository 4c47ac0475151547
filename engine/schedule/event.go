// Package schedule defines scheduled events: their content, their states, which requests are valid,
// which transitions are allowed, and when a publication is retried. It does no I/O and reads no
// clock.
package schedule

import (
	"bytes"
	"cmp"
	"maps"
	"time"

	"flunq.io/flunq/engine/event"
)

// Status is the state of an event.
type Status string

// The states of an event:
//
//	     Schedule           claim                 published
//	──────────────▶ SCHEDULED ──────▶ FIRING ──────────────────▶ FIRED
//	                 │  ▲  ▲            │ │
//	          Cancel │  │  └────────────┘ └── refused, or attempts used up ──▶ DEAD
//	                 ▼  │   certainly not published                            │
//	            CANCELLED└──────────────────── Replay ─────────────────────────┘
//
// An event whose publication is uncertain stays FIRING and is claimed again when its lease
// has ended.
const (
	Scheduled Status = "SCHEDULED"
	Firing    Status = "FIRING"
	Fired     Status = "FIRED"
	Cancelled Status = "CANCELLED"
	Dead      Status = "DEAD"
)

// Statuses lists all states, in the order of an event's life.
func Statuses() []Status { return []Status{Scheduled, Firing, Fired, Cancelled, Dead} }

// Open reports whether an event in this state may still be published.
func (s Status) Open() bool { return s == Scheduled || s == Firing }

// Content is the part of an event that the client provides. Two requests with the same id and
// Equal contents are the same request.
type Content struct {
	Due     time.Time // when to publish, to the millisecond
	Tenant  string    // for topics with the prefixes EventTopic and WorkflowTopic
	Topic   string    // where to publish
	Key     string    // of the published record; "": the event's id
	Headers map[string]string
	Payload []byte // published unchanged
}

// Equal reports whether two contents are the same, ignoring their trace contexts: a repeated request
// may come from another span.
func (c Content) Equal(d Content) bool {
	return c.Due.Equal(d.Due) && c.Tenant == d.Tenant && c.Topic == d.Topic && c.Key == d.Key &&
		maps.Equal(withoutTrace(c.Headers), withoutTrace(d.Headers)) && bytes.Equal(c.Payload, d.Payload)
}

// withoutTrace returns headers without the trace context.
func withoutTrace(headers map[string]string) map[string]string {
	headers = maps.Clone(headers)
	for _, name := range event.TraceAttributes() {
		delete(headers, name)
	}
	return headers
}

// Event is a scheduled event as a ledger keeps it.
type Event struct {
	Content

	ID     string // a UUID, in lower case
	Status Status

	// Version increases by one with each transition. A transition names the version that it follows,
	// so one of two racing transitions is rejected.
	Version int64

	// Attempts counts the publications tried, except those for which the sink was unavailable. Claiming an
	// event that is still FIRING adds one, since the outcome of its last publication is unknown.
	Attempts int
	Failures int       // attempts that certainly published nothing
	Next     time.Time // when a SCHEDULED event is claimed: Due, or later after a failure
	Lease    time.Time // end of the time for which a FIRING event belongs to its Owner
	Owner    string    // the process that publishes a FIRING event
	Error    string    // of the last publication that failed

	Created, Updated time.Time // to the millisecond, by the clock of Redis
	Published        time.Time // zero until FIRED
}

// RecordKey returns the key of the published record.
func (e *Event) RecordKey() string { return cmp.Or(e.Key, e.ID) }

// MayBePublished reports whether an event that is not FIRED may have been published nevertheless.
func (e *Event) MayBePublished() bool { return e.Status == Firing || e.Attempts > e.Failures }

// Partition returns the partition of an event among count partitions: the 32-bit FNV-1a hash
// of its id, modulo count.
func Partition(id string, count int) int {
	const offset, prime = 2166136261, 16777619
	hash := uint32(offset)
	for i := range len(id) {
		hash = (hash ^ uint32(id[i])) * prime
	}
	return int(hash % uint32(count))
}
