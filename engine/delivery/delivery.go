// Package delivery is what the services do alike with the messages they take:
// what they hold, what becomes of one that fails, and how one that ends its
// process is kept from taking others along.
package delivery

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"time"

	"flunq.io/flunq/engine/store"
)

// Class says what may help against an error.
type Class string

// The classes of errors. They follow from an error's type, never from its words.
const (
	Transient   Class = "transient"   // trying again at once may do
	Recoverable Class = "recoverable" // trying again later may do
	Permanent   Class = "permanent"   // somebody has to change something
)

// classed is an error whose class is known.
type classed struct {
	class Class
	err   error
}

func (c *classed) Error() string { return c.err.Error() }
func (c *classed) Unwrap() error { return c.err }

// As marks an error with its class; nil stays nil.
func As(class Class, err error) error {
	if err == nil {
		return nil
	}
	return &classed{class, err}
}

// ClassOf is the class of an error that a message or its execution is to blame
// for, and "" of one of Redis or of the way to it: then the service itself tries
// again, and the message's attempts do not count.
func ClassOf(ctx context.Context, err error) Class {
	c, marked := errors.AsType[*classed](err)
	switch {
	case marked:
		return c.class
	case ctx.Err() != nil, store.Temporary(err):
		return ""
	default:
		return Recoverable
	}
}

// ErrEarly is wrapped by the error about a message that came before what it is about.
// That may lie with a process which has died: it takes a lease, or several, until
// somebody else has it, and the message is not given up before.
var ErrEarly = errors.New("it is not there yet")

// early is how often such a message is delivered: over some minutes.
const early = 12

// attempts is how often a message is delivered that an error keeps from being handled.
func (p Policy) attempts(cause error) int {
	if errors.Is(cause, ErrEarly) {
		return max(p.Attempts, early)
	}
	return p.Attempts
}

// Policy is how often and how soon a failed delivery is tried again.
type Policy struct {
	Attempts int           // deliveries before a message is given up; 1 to 100
	Delay    time.Duration // longest pause before the second one; it doubles with each
}

// DefaultPolicy is that of the documented services: three attempts, up to 200 ms
// and up to 400 ms apart.
func DefaultPolicy() Policy { return Policy{Attempts: 3, Delay: 200 * time.Millisecond} }

func (p Policy) check() error {
	if p.Attempts < 1 || p.Attempts > 100 {
		return fmt.Errorf("attempts is %d, want 1 to 100", p.Attempts)
	}
	return nil
}

// longest is the longest pause between two deliveries.
const longest = 5 * time.Minute

// pause is how long a message rests before its next delivery: up to a time that
// doubles with each attempt, spread over all of it, and the same whenever it is
// asked for.
func (p Policy) pause(m store.Message, class Class) time.Duration {
	if class == Transient {
		return 0
	}
	window := longest
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

// Deaths of processes beside which, and alone with which, a message was handled
// before it is a suspect, and before it is given up.
const (
	poisonCandidate = 2
	poison          = 5
)

// PoisonCandidate reports whether a message is to be handled with nothing beside it: two
// processes have died while they had it.
func PoisonCandidate(m store.Message) bool { return m.Crashes >= poisonCandidate }

// Poison is why a message is given up without a further try, nil if it is not.
func Poison(m store.Message) error {
	if m.Crashes < poison {
		return nil
	}
	return As(Permanent, fmt.Errorf("%d processes died while they handled it, the last %d with nothing beside it",
		m.Crashes, poison-poisonCandidate))
}
