package schedule

import (
	"errors"
	"time"

	"flunq.io/flunq/engine/event"
)

// Filter selects events. The zero value of each field selects all.
type Filter struct {
	Status    Status
	Topic     string
	Partition *int
	DueAfter  time.Time // the earliest Due
	DueBefore time.Time // exclusive upper bound of Due
	Limit     int       // 1 to 1000
	Cursor    string    // of the previous page
}

// Matches reports whether f selects an event. It ignores the partition.
func (f Filter) Matches(e *Event) bool {
	return (f.Status == "" || f.Status == e.Status) && (f.Topic == "" || f.Topic == e.Topic) &&
		(f.DueAfter.IsZero() || !e.Due.Before(f.DueAfter)) && (f.DueBefore.IsZero() || e.Due.Before(f.DueBefore))
}

// Claim asks a ledger for due events.
type Claim struct {
	Partition int
	Limit     int
	Owner     string
	Lease     time.Duration
}

// Claimed is the reply to a Claim.
type Claimed struct {
	Now    time.Time // by the clock of Redis
	Events []Event   // now FIRING
	// Fired are events that the ledger has published itself. Of their fields, only ID, Status, Due, Topic,
	// Owner, Attempts before this one, and Next, when they were to be claimed, are set.
	Fired []Event
	// Next is when the next event of the partition is due or the next lease expires; not after Now if
	// more are due already. It is zero if the partition is empty.
	Next time.Time
}

// Entry is an open event in an index.
type Entry struct {
	ID   string
	Next time.Time // when it needs attention: its Next, or the end of its Lease
}

// Members are the processes that fire events, and the partitions that they share.
type Members struct {
	Now       time.Time
	Processes []string // sorted
	// Partitions are those of the newest count and, while they may hold events, of former
	// ones; sorted.
	Partitions []int
	Count      int // the newest count of partitions; 0 if none was set
}

// Counts are the numbers of events in one partition.
type Counts struct {
	Partition int
	Now       time.Time // by the clock of Redis
	Scheduled int64     // events that are SCHEDULED
	Overdue   int64     // SCHEDULED events that should have been claimed already
	Firing    int64     // events that a process has claimed
	Dead      int64
	Next      time.Time // when the next event is due or the next lease ends; zero: never
}

// Sum returns the sum of the counts of several partitions; its Partition has no meaning.
func Sum(all []Counts) (sum Counts) {
	for _, c := range all {
		sum.Scheduled += c.Scheduled
		sum.Overdue += c.Overdue
		sum.Firing += c.Firing
		sum.Dead += c.Dead
		sum.Next = event.Earlier(sum.Next, c.Next)
		if c.Now.After(sum.Now) {
			sum.Now = c.Now
		}
	}
	return sum
}

// Errors of a ledger that a client or an operator can resolve.
var (
	// ErrPartitions says that Redis has another number of partitions than expected.
	ErrPartitions = errors.New("another number of partitions")
	// ErrCursor says that the Cursor of a Filter was not returned by List.
	ErrCursor = errors.New("unknown cursor")
	// ErrFull says that there is no memory for more events.
	ErrFull = errors.New("no memory for more events")
)

// StoreUnavailable is the scheduler's error message while its store is unavailable.
const StoreUnavailable = "the store of the scheduler does not respond: repeat the request"
