package executor

import "time"

// Attempt is a call that the breakers allowed. Only the first outcome that is reported
// counts; a nil Attempt ignores all.
type Attempt struct {
	of    *Breakers
	to    Target
	epoch uint64 // of the host's breaker
	ended bool
}

// Failure is a failed call that its host is to blame for.
type Failure struct {
	Reason     string        // short and without secrets; other workflows see it
	RetryAfter time.Duration // how long the host asks callers to wait; 0 if unknown
	Private    bool          // the host's name contains a secret
}

// Succeed reports that the host answered.
func (a *Attempt) Succeed() {
	a.end(func(b *Breakers, h *breaker) {
		switch {
		case h == nil || h.epoch != a.epoch:
		case h.circuit == HalfOpen:
			b.turn(h, Closed)
		case h.epoch == 0: // it never opened, so there are no late outcomes to tell apart
			delete(b.hosts, a.to)
		default:
			h.failures, h.reason = 0, ""
		}
	})
}

// Cancel reports that the caller did not wait for the answer.
func (a *Attempt) Cancel() {
	a.end(func(_ *Breakers, h *breaker) {
		if h != nil && h.epoch == a.epoch && h.circuit == HalfOpen {
			h.probes--
		}
	})
}

// Fail reports that the host did not answer or cannot serve.
func (a *Attempt) Fail(f Failure) {
	a.end(func(b *Breakers, h *breaker) {
		if h == nil && a.epoch == 0 {
			b.reserve()
			h = &breaker{circuit: Closed}
			b.hosts[a.to] = h
		}
		if h == nil {
			return
		}
		h.private = h.private || f.Private
		if h.epoch == a.epoch {
			h.failures, h.reason, h.changed = h.failures+1, f.Reason, b.clock
			if h.circuit == HalfOpen || h.failures >= b.opts.Failures {
				b.turn(h, Open)
			}
		}
		if h.circuit == Open && f.RetryAfter > 0 {
			b.lengthen(h, f.RetryAfter)
		}
	})
}

// end applies the first outcome of an attempt to its host's breaker, nil if there is
// none.
func (a *Attempt) end(outcome func(*Breakers, *breaker)) {
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
func (b *Breakers) lengthen(h *breaker, wanted time.Duration) {
	wanted = min(wanted, b.opts.Longest)
	if until := earlier(b.clock.Add(wanted), h.opened.Add(b.opts.Longest)); until.After(h.until) {
		h.until = until
	}
}
