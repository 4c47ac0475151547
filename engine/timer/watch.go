package timer

import (
	"context"
	"sync"
	"time"
)

// Watch is what the timer services of one process know together, so that one of
// them looks at the timers for all, and one waits for the next timer.
type Watch struct {
	mu       sync.Mutex
	now      time.Time // by Redis' clock, when it was last asked
	next     time.Time // when the next timer is due, as far as is known; zero: none is known
	looked   time.Time // when somebody looked last; zero: somebody has to
	duty     *Service  // looks, and fires
	heard    time.Time // the earliest timer that was set while it looks
	sentinel *Service  // waits in a read, no longer than until …
	back     time.Time // … this
	services int
	closed   bool
	changed  chan struct{}
}

// NewWatch is the watch of one process.
func NewWatch() *Watch { return &Watch{changed: make(chan struct{})} }

// Close lets nobody rest any more.
func (w *Watch) Close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	w.broadcast()
}

// join takes in a service.
func (w *Watch) join() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.services++
}

// single reports whether there is but one service.
func (w *Watch) single() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.services == 1
}

// clock is Redis' time when it was last asked, and long ago before that.
func (w *Watch) clock() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.now.IsZero() {
		return time.Unix(0, 0).UTC()
	}
	return w.now
}

// upcoming is when the next timer is due, as far as is known; zero if none is, or
// another service is about to see to it.
func (w *Watch) upcoming(s *Service) time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.duty != nil && w.duty != s {
		return time.Time{}
	}
	return w.next
}

// begin reports whether a service is to look at the timers: nobody else does, and
// one is due by now as far as is known, or the last look was too long ago. With a
// longest sleep of 0 each look is. Whoever begins, ends; until then it goes on.
func (w *Watch) begin(s *Service, sleep time.Duration) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.duty != nil || sleep > 0 && !w.due(sleep) {
		return w.duty == s
	}
	w.duty, w.heard = s, time.Time{}
	return true
}

// due reports whether somebody has to look. A clock that runs back makes all that
// was known by it worthless.
func (w *Watch) due(sleep time.Duration) bool {
	return w.looked.IsZero() || w.now.Before(w.looked) || !w.now.Before(w.need(sleep))
}

// need is when somebody has to look next.
func (w *Watch) need(sleep time.Duration) time.Time {
	return earlier(w.next, w.looked.Add(sleep))
}

// saw says what a look has shown.
func (w *Watch) saw(now, next time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !now.IsZero() {
		w.now = now
	}
	w.next, w.looked = earlier(next, w.heard), w.now
}

// end ends what was begun.
func (w *Watch) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.duty = nil
}

// hear takes in that a timer was set, or that one was without anybody knowing which.
func (w *Watch) hear(now, due time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !now.IsZero() {
		w.now = now
	}
	w.next, w.heard = earlier(w.next, due), earlier(w.heard, due)
}

// stale says that what is known of the timers is worth nothing.
func (w *Watch) stale() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.looked, w.heard = time.Time{}, w.now
}

// wait is for how long a service may wait in a read. A service that was idle may
// rest instead, if another one will be back in time.
func (w *Watch) wait(s *Service, o Options) (patience time.Duration, rest <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	need := w.need(o.MaxSleep)
	// Reads end at full milliseconds.
	covered := w.duty != nil && w.duty != s || w.sentinel != nil && !w.back.After(need.Add(time.Millisecond))
	if covered && s.idle && w.sentinel != nil && !w.closed {
		return 0, w.changed
	}
	patience = o.Block
	if !covered {
		patience = w.patience(o)
	}
	// Before anybody has asked for the time it is not known when that is.
	if back := w.now.Add(patience); !w.now.IsZero() && (w.sentinel == nil || back.Before(w.back)) {
		w.sentinel, w.back = s, back
	}
	return patience, nil
}

// arrived says that a service is back from its read.
func (w *Watch) arrived(s *Service, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !now.IsZero() {
		w.now = now
	}
	if w.sentinel == s {
		w.sentinel = nil
		w.broadcast()
	}
}

// broadcast wakes all services that rest.
func (w *Watch) broadcast() {
	close(w.changed)
	w.changed = make(chan struct{})
}

// pause rests until something changes.
func pause(ctx context.Context, changed <-chan struct{}) {
	select {
	case <-changed:
	case <-ctx.Done():
	}
}

// patience is how long a read may wait if nobody else looks in time. Less than a
// millisecond is waited for in full ones, since that is what Redis counts in.
func (w *Watch) patience(o Options) time.Duration {
	wait := min(o.Block, w.looked.Add(o.MaxSleep).Sub(w.now))
	if !w.next.IsZero() {
		left := w.next.Sub(w.now)
		if left > o.Lookahead {
			left -= o.Lookahead
		}
		wait = min(wait, left)
	}
	return max(wait.Round(time.Millisecond), time.Millisecond)
}
