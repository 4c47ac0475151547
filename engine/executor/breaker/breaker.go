// Package breaker stops calls to hosts that do not respond or report that they cannot
// serve.
package breaker

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// Options says when calls to a failing host are stopped.
type Options struct {
	// Failures is the number of consecutive failed calls that opens a host's breaker. Default 10;
	// 0 means never.
	Failures int

	// Open is how long an open breaker allows no calls. Then it allows one, the probe. Default 30 s.
	Open time.Duration
}

// Defaults are the options of an ordinary deployment.
func Defaults() Options {
	return Options{Failures: 10, Open: 30 * time.Second}
}

// check reports all bad options.
func (o Options) check() error {
	var errs []error
	if o.Failures < 0 {
		errs = append(errs, fmt.Errorf("failures is %d, want 0 (off) or more", o.Failures))
	}
	if o.Open <= 0 {
		errs = append(errs, fmt.Errorf("open is %v, want more than 0", o.Open))
	}
	return errors.Join(errs...)
}

// Circuit is the state of a breaker.
type Circuit string

// The states of a breaker.
const (
	Closed   Circuit = "closed"    // calls are sent
	Open     Circuit = "open"      // no calls are sent
	HalfOpen Circuit = "half-open" // only a probe is sent
)

// Bounds on the number of remembered hosts, how long they are remembered, and the age of a call's
// time.
const (
	maxHosts   = 10_000
	quietAfter = time.Hour
	sweepEvery = time.Minute
	oldest     = 10 * time.Minute

	// longest is how long a host's Retry-After is obeyed, counted from when its breaker opened.
	longest = 5 * time.Minute
)

// Target is a host as one tenant calls it. Failures of one tenant's calls do not stop
// another's, which may use the host differently.
type Target struct{ Tenant, Host string }

// Set stops calls to hosts that do not respond or report that they cannot serve. It has one
// circuit breaker per target, shared by all executors of a process. Its clock is the latest time
// at which a call began. Hosts without failures take no memory, and a host is forgotten after an
// hour of silence. A nil Set never stops calls. A Set is safe for concurrent use.
type Set struct {
	opts Options

	mu    sync.Mutex
	clock time.Time
	swept time.Time // when silent hosts were last forgotten
	epoch uint64
	hosts map[Target]*breaker // those that failed recently
}

// breaker is the state of one host.
type breaker struct {
	circuit  Circuit
	epoch    uint64 // changes with every change of the circuit; 0 before the first
	failures int    // consecutive
	reason   string // of the last failure
	opened   time.Time
	until    time.Time // no call is sent before
	changed  time.Time
	probing  bool // a probe is running
	private  bool // the host's name contains a secret
}

// New returns a Set whose breakers are all closed.
func New(opts Options) (*Set, error) {
	if err := opts.check(); err != nil {
		return nil, fmt.Errorf("circuit breaker: %w", err)
	}
	return &Set{opts: opts, hosts: map[Target]*breaker{}}, nil
}

// OpenError says that a call was not sent because earlier calls to its host failed.
type OpenError struct {
	Host     string
	Failures int    // consecutive
	Reason   string // of the last failure
	Until    time.Time
	Trying   bool // a probe is running
}

// Error says which host failed, why, and when it is tried again.
func (e *OpenError) Error() string {
	again := "tried again at " + e.Until.UTC().Format(time.RFC3339)
	if e.Trying {
		again = "being tried again"
	}
	return fmt.Sprintf("not sent, because the circuit breaker of %s is open: consecutive failures: %d, the last: %s; the host is %s",
		e.Host, e.Failures, e.Reason, again)
}

// Begin asks whether a target may be called at a time. The caller reports the outcome to the
// Attempt once. If the breaker is open, the error is an *OpenError. A call without a time is
// always allowed and not counted.
func (s *Set) Begin(to Target, now time.Time) (*Attempt, error) {
	if s == nil || s.opts.Failures == 0 || now.IsZero() {
		return nil, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.advance(now)
	b := s.hosts[to]
	if b == nil {
		return &Attempt{of: s, to: to}, nil
	}
	if b.circuit == Open && !s.clock.Before(b.until) {
		s.turn(b, HalfOpen)
	}
	switch {
	case b.circuit == HalfOpen && !b.probing:
		b.probing = true
	case b.circuit != Closed:
		return nil, &OpenError{to.Host, b.failures, b.reason, b.until, b.circuit == HalfOpen}
	}
	return &Attempt{of: s, to: to, epoch: b.epoch}, nil
}

// advance moves the clock. A call's time may be older than that of calls begun earlier, because
// it waited. If it is older than the bound, the clock was set back, and all breakers begin anew.
func (s *Set) advance(now time.Time) {
	switch {
	case now.After(s.clock):
		s.clock = now
	case s.clock.Sub(now) > oldest:
		s.clock, s.swept = now, now
		clear(s.hosts)
	}
	if s.clock.Sub(s.swept) > sweepEvery {
		s.swept = s.clock
		silent := func(_ Target, b *breaker) bool { return s.clock.Sub(b.changed) > quietAfter && s.clock.After(b.until) }
		maps.DeleteFunc(s.hosts, silent)
	}
}

// reserve drops a host if the table is full: preferably a closed one, and of these the
// one whose last failure is oldest.
func (s *Set) reserve() {
	if len(s.hosts) < maxHosts {
		return
	}
	var least Target
	for to, b := range s.hosts {
		if least == (Target{}) || before(to, b, least, s.hosts[least]) {
			least = to
		}
	}
	delete(s.hosts, least)
}

// before reports whether to drop one host before another.
func before(to Target, b *breaker, otherTo Target, other *breaker) bool {
	switch {
	case (b.circuit == Closed) != (other.circuit == Closed):
		return b.circuit == Closed
	case !b.changed.Equal(other.changed):
		return b.changed.Before(other.changed)
	}
	return cmp.Or(strings.Compare(to.Host, otherTo.Host), strings.Compare(to.Tenant, otherTo.Tenant)) < 0
}

// turn changes a circuit. Outcomes of calls begun before the change no longer count.
func (s *Set) turn(b *breaker, to Circuit) {
	s.epoch++
	b.circuit, b.epoch, b.probing, b.changed = to, s.epoch, false, s.clock
	switch to {
	case Open:
		b.opened, b.until = s.clock, s.clock.Add(s.opts.Open)
	case Closed:
		b.failures, b.reason, b.until = 0, "", time.Time{}
	case HalfOpen:
	}
}

// HostState is the state of one host's breaker.
type HostState struct {
	Tenant   string    `json:"tenant"`
	Host     string    `json:"host"`
	State    Circuit   `json:"state"`
	Failures int       `json:"failures"`       // consecutive
	Until    time.Time `json:"until,omitzero"` // no call is sent before
}

// States returns the breakers of all targets that failed recently, by host and tenant. It omits
// hosts whose names contain a secret.
func (s *Set) States() []HostState {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]HostState, 0, len(s.hosts))
	for to, b := range s.hosts {
		if b.private {
			continue
		}
		state := b.circuit
		if state == Open && !s.clock.Before(b.until) {
			state = HalfOpen
		}
		out = append(out, HostState{to.Tenant, to.Host, state, b.failures, b.until})
	}
	slices.SortFunc(out, func(a, b HostState) int {
		return cmp.Or(strings.Compare(a.Host, b.Host), strings.Compare(a.Tenant, b.Tenant))
	})
	return out
}

// Attempt is a call that the breakers allowed. Only the first reported outcome counts; a nil
// Attempt ignores all.
type Attempt struct {
	of    *Set
	to    Target
	epoch uint64 // of the host's breaker
	ended bool
}

// Failure describes a failed call that is the host's fault.
type Failure struct {
	Reason     string        // short and without secrets; other workflows see it
	RetryAfter time.Duration // how long the host asks callers to wait; 0 if unknown
	Private    bool          // the host's name contains a secret
}

// Succeed reports that the host responded.
func (a *Attempt) Succeed() {
	a.end(func(s *Set, b *breaker) {
		switch {
		case b == nil || b.epoch != a.epoch:
		case b.circuit == HalfOpen:
			s.turn(b, Closed)
		case b.epoch == 0: // it never opened, so no outcome is late
			delete(s.hosts, a.to)
		default:
			b.failures, b.reason = 0, ""
		}
	})
}

// Cancel reports that the caller did not wait for the response.
func (a *Attempt) Cancel() {
	a.end(func(_ *Set, b *breaker) {
		if b != nil && b.epoch == a.epoch && b.circuit == HalfOpen {
			b.probing = false
		}
	})
}

// Fail reports that the host did not respond or cannot serve.
func (a *Attempt) Fail(f Failure) {
	a.end(func(s *Set, b *breaker) {
		if b == nil && a.epoch == 0 {
			s.reserve()
			b = &breaker{circuit: Closed}
			s.hosts[a.to] = b
		}
		if b == nil {
			return
		}
		b.private = b.private || f.Private
		if b.epoch == a.epoch {
			b.failures, b.reason, b.changed = b.failures+1, f.Reason, s.clock
			if b.circuit == HalfOpen || b.failures >= s.opts.Failures {
				s.turn(b, Open)
			}
		}
		if b.circuit == Open && f.RetryAfter > 0 {
			s.lengthen(b, f.RetryAfter)
		}
	})
}

// end applies the first outcome of an attempt to its host's breaker, which is nil if there is
// none.
func (a *Attempt) end(outcome func(*Set, *breaker)) {
	if a == nil {
		return
	}
	a.of.mu.Lock()
	defer a.of.mu.Unlock()
	if !a.ended {
		a.ended = true
		outcome(a.of, a.of.hosts[a.to])
	}
}

// lengthen extends the pause as the host asked, within bounds.
func (s *Set) lengthen(b *breaker, wanted time.Duration) {
	until := s.clock.Add(wanted)
	if last := b.opened.Add(longest); last.Before(until) {
		until = last
	}
	if until.After(b.until) {
		b.until = until
	}
}
