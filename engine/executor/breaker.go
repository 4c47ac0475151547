package executor

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// BreakerOptions say when calls to a host that fails are no longer made.
type BreakerOptions struct {
	// Failures is how many calls of one host that fail in a row open its
	// breaker; 10, and 0 is never (the simulator draws 1 to 20).
	Failures int

	// Open is how long nothing is sent then; 30 s (1 s to 5 min).
	Open time.Duration

	// Probes is how many calls go out at once after that, to see whether the
	// host is well again; 1 (1 to 4).
	Probes int

	// Longest is up to when a host's Retry-After is obeyed, counted from when its
	// breaker opened; 5 min, and 0 is not at all (0 to 1 h).
	Longest time.Duration
}

// DefaultBreakerOptions are those of an ordinary deployment.
func DefaultBreakerOptions() BreakerOptions {
	return BreakerOptions{Failures: 10, Open: 30 * time.Second, Probes: 1, Longest: 5 * time.Minute}
}

// check reports every bad option at once.
func (o BreakerOptions) check() error {
	var errs []error
	if o.Failures < 0 {
		errs = append(errs, fmt.Errorf("failures is %d, want 0 (off) or more", o.Failures))
	}
	if o.Open <= 0 {
		errs = append(errs, fmt.Errorf("open is %v, want more than 0", o.Open))
	}
	if o.Probes < 1 {
		errs = append(errs, fmt.Errorf("probes is %d, want 1 or more", o.Probes))
	}
	if o.Longest < 0 {
		errs = append(errs, fmt.Errorf("longest is %v, want 0 or more", o.Longest))
	}
	return errors.Join(errs...)
}

// Circuit is whether calls to a host are made.
type Circuit string

// The circuits.
const (
	Closed   Circuit = "closed"    // all are
	Open     Circuit = "open"      // none is
	HalfOpen Circuit = "half-open" // as many as it takes to see whether it is well again
)

// Bounds of what is remembered of hosts, and of how old the time of a call can be.
const (
	mostHosts  = 10_000
	quietAfter = time.Hour
	sweepEvery = time.Minute
	oldest     = 10 * time.Minute
)

// Target is a host as one tenant calls it. What one tenant's calls come to must not stop
// those of another, who may ask the same host for something that it can do.
type Target struct{ Tenant, Host string }

// Breakers keep calls from hosts that do not answer or say that they cannot: one
// circuit breaker for each target, for all executors of a process together.
// Their clock is the latest time that a call was begun at. Hosts without failures
// take no memory, and those of which nothing was heard for an hour are forgotten.
// Nil breakers never open. They are safe for concurrent use.
type Breakers struct {
	opts BreakerOptions

	mu    sync.Mutex
	clock time.Time
	swept time.Time // when quiet hosts were last forgotten
	epoch uint64
	hosts map[Target]*breaker // those that have failed lately
}

// breaker is what is known of one host.
type breaker struct {
	circuit  Circuit
	epoch    uint64 // another with each change of the circuit; 0 if there was none
	failures int    // in a row
	reason   string // of the last one
	opened   time.Time
	until    time.Time // nothing is sent before
	changed  time.Time
	probes   int  // under way
	private  bool // the host's name holds a secret
}

// NewBreakers are breakers that are all closed.
func NewBreakers(opts BreakerOptions) (*Breakers, error) {
	if err := opts.check(); err != nil {
		return nil, fmt.Errorf("circuit breaker: %w", err)
	}
	return &Breakers{opts: opts, hosts: map[Target]*breaker{}}, nil
}

// OpenError says that a call was not made because others to its host failed.
type OpenError struct {
	Host     string
	Failures int    // in a row
	Reason   string // of the last one
	Until    time.Time
	Trying   bool // calls that are to show whether it is well again are under way
}

// Error names the host, what happened to it, and when it is tried again.
func (e *OpenError) Error() string {
	again := "is tried again at"
	if e.Trying {
		again = "is being tried again since"
	}
	return fmt.Sprintf("not sent, because the circuit breaker of %s is open: calls failed in a row: %d, the last: %s; the host %s %s",
		e.Host, e.Failures, e.Reason, again, e.Until.UTC().Format(time.RFC3339))
}

// Begin asks for leave to call a target at a time. Whoever gets it tells the
// attempt how the call ended, once; else the error is an *OpenError. A call
// without a time may always be made, and counts for nothing.
func (b *Breakers) Begin(to Target, now time.Time) (*Attempt, error) {
	if b == nil || b.opts.Failures == 0 || now.IsZero() {
		return nil, nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.advance(now)
	h := b.hosts[to]
	if h == nil {
		return &Attempt{of: b, to: to}, nil
	}
	if h.circuit == Open && !b.clock.Before(h.until) {
		b.turn(h, HalfOpen)
	}
	switch {
	case h.circuit == HalfOpen && h.probes < b.opts.Probes:
		h.probes++
	case h.circuit != Closed:
		return nil, &OpenError{to.Host, h.failures, h.reason, h.until, h.circuit == HalfOpen}
	}
	return &Attempt{of: b, to: to, epoch: h.epoch}, nil
}

// advance moves the clock. Times of calls may be older than those of calls that
// were begun before them, because they waited; a clock that was set back by more
// than that is believed.
func (b *Breakers) advance(now time.Time) {
	switch {
	case now.After(b.clock):
		b.clock = now
	case b.clock.Sub(now) > oldest:
		b.clock = now
		for _, h := range b.hosts {
			h.opened = earlier(h.opened, now)
			h.until = earlier(h.until, now.Add(b.longest()))
			h.changed = earlier(h.changed, now)
		}
		b.swept = earlier(b.swept, now)
	}
	if b.clock.Sub(b.swept) > sweepEvery {
		b.swept = b.clock
		b.forget()
	}
}

func (b *Breakers) longest() time.Duration { return max(b.opts.Open, b.opts.Longest) }

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// forget drops the hosts of which nothing was heard for long.
func (b *Breakers) forget() {
	for host, h := range b.hosts {
		if b.clock.Sub(h.changed) > quietAfter && b.clock.After(h.until) {
			delete(b.hosts, host)
		}
	}
}

// reserve drops the host that matters least, if there is no room for another: a
// closed one if possible, of these the one that failed longest ago.
func (b *Breakers) reserve() {
	if len(b.hosts) < mostHosts {
		return
	}
	var least Target
	for to, h := range b.hosts {
		if least == (Target{}) || before(to, h, least, b.hosts[least]) {
			least = to
		}
	}
	delete(b.hosts, least)
}

// before is the order in which hosts are dropped.
func before(to Target, h *breaker, otherTo Target, other *breaker) bool {
	switch {
	case (h.circuit == Closed) != (other.circuit == Closed):
		return h.circuit == Closed
	case !h.changed.Equal(other.changed):
		return h.changed.Before(other.changed)
	}
	return cmp.Or(strings.Compare(to.Host, otherTo.Host), strings.Compare(to.Tenant, otherTo.Tenant)) < 0
}

// turn changes a circuit: how calls end that were begun before is of no account.
func (b *Breakers) turn(h *breaker, to Circuit) {
	b.epoch++
	h.circuit, h.epoch, h.probes, h.changed = to, b.epoch, 0, b.clock
	switch to {
	case Open:
		h.opened, h.until = b.clock, b.clock.Add(b.opts.Open)
	case Closed:
		h.failures, h.reason, h.until = 0, "", time.Time{}
	case HalfOpen:
	}
}

// BreakerState is how it stands with a host.
type BreakerState struct {
	Tenant   string    `json:"tenant"`
	Host     string    `json:"host"`
	State    Circuit   `json:"state"`
	Failures int       `json:"failures"`       // in a row
	Until    time.Time `json:"until,omitzero"` // nothing is sent before
}

// States are those of all targets that failed lately, by host and tenant. Hosts whose
// names hold a secret are left out.
func (b *Breakers) States() []BreakerState {
	if b == nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	out := make([]BreakerState, 0, len(b.hosts))
	for to, h := range b.hosts {
		if h.private {
			continue
		}
		state := h.circuit
		if state == Open && !b.clock.Before(h.until) {
			state = HalfOpen
		}
		out = append(out, BreakerState{to.Tenant, to.Host, state, h.failures, h.until})
	}
	slices.SortFunc(out, func(a, b BreakerState) int {
		return cmp.Or(strings.Compare(a.Host, b.Host), strings.Compare(a.Tenant, b.Tenant))
	})
	return out
}
