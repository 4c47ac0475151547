// Package delivery handles messages for all services: it reads them, renews their leases, retries
// failed ones, and isolates those that crash their process.
package delivery

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"time"

	"flunq.io/flunq/engine/store"
)

// Class says what may resolve an error.
type Class string

// The classes of errors. They depend on an error's type or Redis' error code, never on
// the rest of its message.
const (
	Transient   Class = "transient"   // an immediate retry may help
	Recoverable Class = "recoverable" // a retry later may help
	Permanent   Class = "permanent"   // a retry cannot succeed until something is changed
)

// classified is an error of a known class.
type classified struct {
	class Class
	err   error
}

func (c *classified) Error() string { return c.err.Error() }
func (c *classified) Unwrap() error { return c.err }

// As gives an error a class; nil stays nil.
func As(class Class, err error) error {
	if err == nil {
		return nil
	}
	return &classified{class, err}
}

// ClassOf returns the class of an error caused by a message or its execution. It returns ""
// for an error of Redis or the connection: the service retries, and the attempt does not count.
func ClassOf(ctx context.Context, err error) Class {
	c, marked := errors.AsType[*classified](err)
	switch {
	case marked:
		return c.class
	case ctx.Err() != nil, store.Temporary(err):
		return ""
	default:
		return Recoverable
	}
}

// ErrEarly is wrapped by the error for a message that arrives before the message it depends
// on, such as the start of its execution. A crashed process may hold that one until its
// lease expires; until then, the early message must not be dead-lettered.
var ErrEarly = errors.New("the message is early")

// earlyAttempts is how many times an early message is delivered, over several minutes.
const earlyAttempts = 12

// attempts returns how many times a message with an error is delivered.
func (p Policy) attempts(cause error) int {
	if errors.Is(cause, ErrEarly) {
		return max(p.Attempts, earlyAttempts)
	}
	return p.Attempts
}

// Policy says how many times and how soon a failed message is delivered again.
type Policy struct {
	Attempts int           // deliveries before a message is dead-lettered; 1 to 100
	Delay    time.Duration // longest pause before the second delivery; doubles with each attempt
}

// DefaultPolicy returns the documented policy: three attempts, up to 200 ms and up to 400 ms
// apart.
func DefaultPolicy() Policy { return Policy{Attempts: 3, Delay: 200 * time.Millisecond} }

func (p Policy) check() error {
	if p.Attempts < 1 || p.Attempts > 100 {
		return fmt.Errorf("attempts is %d, want 1 to 100", p.Attempts)
	}
	return nil
}

// longestPause is the longest pause between two deliveries.
const longestPause = 5 * time.Minute

// pause returns how long to wait before the next delivery: a deterministic jitter between
// 0 and a limit that doubles with each attempt.
func (p Policy) pause(m store.Message, class Class) time.Duration {
	if class == Transient {
		return 0
	}
	window := longestPause
	if shift := m.Attempt; shift < 20 {
		window = min(window, p.Delay<<shift)
	}
	if window <= 0 {
		return 0
	}
	h := fnv.New64a()
	fmt.Fprintf(h, "%s/%s/%d", m.Tenant, m.Event.ID, m.Attempt)
	return time.Duration(h.Sum64() % uint64(window+1))
}

// After poisonCandidate crashes, a message is handled in isolation; after poison crashes, it is
// dead-lettered.
const (
	poisonCandidate = 2
	poison          = 5
)

// PoisonCandidate reports whether a message must be handled in isolation because two processes
// crashed while handling it.
func PoisonCandidate(m store.Message) bool { return m.Crashes >= poisonCandidate }

// Poison returns the reason why a message is dead-lettered without another attempt, or nil if it
// is not.
func Poison(m store.Message) error {
	if m.Crashes < poison {
		return nil
	}
	return As(Permanent, fmt.Errorf("%d processes died while handling it, the last %d while handling nothing else",
		m.Crashes, poison-poisonCandidate))
}
