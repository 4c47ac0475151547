package timer

import (
	"sync"
	"time"

	"flunq.io/flunq/engine/delivery"
	"flunq.io/flunq/engine/event"
)

// Watch coordinates the timer services of one process: one of them polls the timers for all, and
// one waits for the next timer. It is safe for concurrent use.
type Watch struct {
	isolation delivery.Isolation // of the services' messages

	mu           sync.Mutex
	now          time.Time // Redis' time when it was last asked
	next         time.Time // when the next known timer is due; zero: none is known
	polled       time.Time // when a service last polled; zero: one must poll now
	firing       *Service  // the service that polls and fires; nil if none does
	setMeanwhile time.Time // the earliest timer that was set while firing was polling
	reader       *Service  // the service that blocks in a read until readEnds; nil if none does
	readEnds     time.Time // latest time at which the read of reader ends
	services     int
	ahead        map[string]time.Duration // how far clocks of cluster nodes are ahead of the reference clock, by tenant
	closed       bool
	changed      chan struct{}
}

// NewWatch returns the watch of one process.
func NewWatch() *Watch { return &Watch{changed: make(chan struct{})} }

// Close wakes all resting services. From then on, none rests.
func (w *Watch) Close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	w.broadcast()
}

// join adds a service.
func (w *Watch) join() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.services++
}

// single reports whether there is only one service.
func (w *Watch) single() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.services == 1
}

// clock returns Redis' time when it was last asked, or the Unix epoch before that.
func (w *Watch) clock() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.now.IsZero() {
		return time.Unix(0, 0).UTC()
	}
	return w.now
}

// upcoming returns when the next known timer is due; zero if none is known, or if another service is
// firing.
func (w *Watch) upcoming(s *Service) time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.firing != nil && w.firing != s {
		return time.Time{}
	}
	return w.next
}

// begin reports whether a service must poll the timers: no other service is polling, and a timer is
// due or the last poll is longer ago than sleep (always with a sleep of 0). No other service polls
// until it calls end.
func (w *Watch) begin(s *Service, sleep time.Duration) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.firing != nil || sleep > 0 && !w.due(sleep) {
		return w.firing == s
	}
	w.firing, w.setMeanwhile = s, time.Time{}
	return true
}

// due reports whether a service must poll. If the clock ran backwards, the known times are invalid.
func (w *Watch) due(sleep time.Duration) bool {
	return w.polled.IsZero() || w.now.Before(w.polled) || !w.now.Before(w.nextPoll(sleep))
}

// nextPoll returns when a service must poll next.
func (w *Watch) nextPoll(sleep time.Duration) time.Time {
	return event.Earlier(w.next, w.polled.Add(sleep))
}

// recordClock records how far the clock of a tenant's node is ahead of the reference clock. On a single
// Redis there is only one clock.
func (w *Watch) recordClock(tenant string, at, reference time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ahead == nil {
		w.ahead = map[string]time.Duration{}
	}
	if !reference.IsZero() {
		w.ahead[tenant] = at.Sub(reference)
	}
}

// reference converts a time of a tenant's clock to the reference clock.
func (w *Watch) reference(tenant string, at time.Time) time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	if at.IsZero() {
		return at
	}
	return at.Add(-w.ahead[tenant])
}

// recordPoll records the result of a poll.
func (w *Watch) recordPoll(now, next time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !now.IsZero() {
		w.now = now
	}
	w.next, w.polled = event.Earlier(next, w.setMeanwhile), w.now
}

// end lets other services poll.
func (w *Watch) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.firing = nil
}

// recordSet records that timers were set, the first of which is due at due; zero: none.
func (w *Watch) recordSet(now, due time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !now.IsZero() {
		w.now = now
	}
	w.next, w.setMeanwhile = event.Earlier(w.next, due), event.Earlier(w.setMeanwhile, due)
}

// invalidate forces a new poll.
func (w *Watch) invalidate() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.polled, w.setMeanwhile = time.Time{}, w.now
}

// blockFor returns how long a service may block in a read. If the read of another service ends in time,
// an idle service gets a channel instead, and rests until it is closed.
func (w *Watch) blockFor(s *Service, o Options) (patience time.Duration, rest <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	need := w.nextPoll(o.MaxSleep)
	// Reads end at full milliseconds.
	covered := w.firing != nil && w.firing != s || w.reader != nil && !w.readEnds.After(need.Add(time.Millisecond))
	if covered && s.idle && w.reader != nil && !w.closed {
		return 0, w.changed
	}
	patience = o.Block
	if !covered {
		patience = w.readTime(o)
	}
	// Before the first reply of Redis with its time, it is unknown when the read ends.
	back := w.now.Add(patience)
	if o.Alarm != nil && !o.alarms(patience) {
		back = back.Add(o.Lookahead) // Redis ends it late
	}
	if !w.now.IsZero() && (w.reader == nil || back.Before(w.readEnds)) {
		w.reader, w.readEnds = s, back
	}
	return patience, nil
}

// arrived records that a service is back from its read.
func (w *Watch) arrived(s *Service, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !now.IsZero() {
		w.now = now
	}
	if w.reader == s {
		w.reader = nil
		w.broadcast()
	}
}

func (w *Watch) broadcast() {
	close(w.changed)
	w.changed = make(chan struct{})
}

// readTime returns how long a read may block if no other service polls in time: at least a millisecond,
// the unit of Redis.
func (w *Watch) readTime(o Options) time.Duration {
	wait := min(o.Block, w.polled.Add(o.MaxSleep).Sub(w.now))
	if !w.next.IsZero() {
		left := w.next.Sub(w.now)
		if left > o.Lookahead {
			left -= o.Lookahead
		}
		wait = min(wait, left)
	}
	return max(wait.Round(time.Millisecond), time.Millisecond)
}
