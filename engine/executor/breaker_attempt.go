package executor

import "time"

// Attempt is a call that the breakers gave leave to. Only the first word on how it
// ended counts; nil takes every word and does nothing with it.
type Attempt struct {
	of    *Breakers
	to    Target
	epoch uint64 // of the host's breaker
	ended bool
}

// Failure is a call that its host is to blame for.
type Failure struct {
	Reason     string        // in few words without secrets; workflows of others see it
	RetryAfter time.Duration // how long the host wants to be left alone; 0 if it did not say
	Private    bool          // the host's name holds a secret
}

// Succeed says that the host answered.
func (a *Attempt) Succeed() {
	a.end(func(b *Breakers, h *breaker) {
		switch {
		case h == nil || h.epoch != a.epoch:
		case h.circuit == HalfOpen:
			b.turn(h, Closed)
		case h.epoch == 0: // it never opened: there are no late outcomes to be told from these
			delete(b.hosts, a.to)
		default:
			h.failures, h.reason = 0, ""
		}
	})
}

// Cancel says that nobody waited for the answer.
func (a *Attempt) Cancel() {
	a.end(func(_ *Breakers, h *breaker) {
		if h != nil && h.epoch == a.epoch && h.circuit == HalfOpen {
			h.probes--
		}
	})
}

// Fail says that the host did not answer, or that it cannot.
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

// end gives the first word on an attempt to its host's breaker, nil if there is none.
func (a *Attempt) end(word func(*Breakers, *breaker)) {
	if a == nil {
		return
	}
	a.of.mu.Lock()
	defer a.of.mu.Unlock()
	if !a.ended {
		a.ended = true
		word(a.of, a.of.hosts[a.to])
	}
}

// lengthen leaves a host alone for as long as it wants, within bounds.
func (b *Breakers) lengthen(h *breaker, wanted time.Duration) {
	wanted = min(wanted, b.opts.Longest)
	if until := earlier(b.clock.Add(wanted), h.opened.Add(b.opts.Longest)); until.After(h.until) {
		h.until = until
	}
}
