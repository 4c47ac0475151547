package schedule

import (
	"errors"
	"time"
)

// Errors that a sink wraps to say what is known about a failed publication. After any other error, it
// is unknown whether the event was published.
var (
	// ErrUnreachable says that the sink cannot be reached: nothing was published, through no fault of the
	// event.
	ErrUnreachable = errors.New("unreachable")
	// ErrUnavailable says that nothing was published, through no fault of the event, but that other events
	// may be published: its topic or partition is not available.
	ErrUnavailable = errors.New("not available")
	// ErrRefused says that the sink will never accept the event.
	ErrRefused = errors.New("refused")
	// ErrNotPublished says that nothing was published this time.
	ErrNotPublished = errors.New("not published")
)

// Retry says how publications are retried.
type Retry struct {
	Attempts int           // number of certain failures after which an event is DEAD; 1 or more
	First    time.Duration // the pause after the first failure; doubles with each
	Longest  time.Duration // of the pauses
	Lease    time.Duration // how long a claimed event belongs to its process
}

// DefaultRetry is the Retry of an ordinary deployment.
func DefaultRetry() Retry {
	return Retry{Attempts: 10, First: 10 * time.Millisecond, Longest: time.Second, Lease: 30 * time.Second}
}

// Pause returns how long to wait after n failures, 1 or more.
func (r Retry) Pause(n int) time.Duration {
	pause := r.First
	for range n - 1 {
		if pause *= 2; pause >= r.Longest {
			return r.Longest
		}
	}
	return min(pause, r.Longest)
}

// Settled is the outcome of one publication, as a ledger records it. It takes effect only if the event
// is still FIRING with this Version.
type Settled struct {
	ID      string
	Version int64 // of the event when it was claimed
	Status  Status
	// Attempts and Failures are the new values for the event.
	Attempts, Failures int
	Next               time.Time // when an event that stays open is claimed again
	Error              string
}

// Settle returns what follows, at now, from a publication of a claimed event that returned err, nil
// if it was published. It returns false if the outcome is unknown: the event then stays FIRING until
// its lease expires.
func (r Retry) Settle(e *Event, err error, now time.Time) (Settled, bool) {
	out := Settled{ID: e.ID, Version: e.Version, Attempts: e.Attempts + 1, Failures: e.Failures}
	switch {
	case err == nil:
		out.Status = Fired
		return out, true
	case errors.Is(err, ErrUnreachable), errors.Is(err, ErrUnavailable):
		out.Status, out.Attempts, out.Next = Scheduled, e.Attempts, now.Add(r.Longest)
	case errors.Is(err, ErrRefused):
		out.Status, out.Failures = Dead, e.Failures+1
	case errors.Is(err, ErrNotPublished):
		out.Failures = e.Failures + 1
		if out.Status = Dead; out.Failures < r.Attempts {
			out.Status, out.Next = Scheduled, now.Add(r.Pause(out.Failures))
		}
	default:
		return Settled{}, false
	}
	if out.Status == Scheduled && e.Attempts > e.Failures {
		// An earlier publication may have succeeded: the event stays FIRING so that it cannot be
		// cancelled, and its next claim adds an attempt.
		out.Status = Firing
		out.Attempts--
	}
	out.Error = err.Error()
	return out, true
}
