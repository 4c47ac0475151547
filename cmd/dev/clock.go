package dev

import (
	"context"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"

	"flunq.io/flunq/engine/event"
)

// CheckTime returns an error if a virtual clock cannot show a time, since miniredis counts nanoseconds.
func CheckTime(at time.Time) error {
	if last := time.Unix(0, math.MaxInt64); at.After(last) {
		return fmt.Errorf("the virtual clock ends in the year %d", last.Year())
	}
	return nil
}

// clock is the clock of a miniredis.
type clock struct {
	mini *miniredis.Miniredis
	mode Mode

	mu       sync.Mutex
	base     time.Time // the time of the clock when it was last set
	since    time.Time // the real time at that moment
	paused   bool      // by the user
	moving   bool      // during an advance
	expired  time.Time // TTLs have been reduced by the time until then
	sleepers map[*sleeper]bool
	changed  chan struct{} // closed when the clock is set
}

// sleeper is a caller that waits for a time of the clock.
type sleeper struct{ until time.Time }

func newClock(mini *miniredis.Miniredis, mode Mode, start time.Time, paused bool) *clock {
	c := &clock{mini: mini, mode: mode, since: time.Now(), paused: paused, sleepers: map[*sleeper]bool{}, changed: make(chan struct{})}
	c.base = start.UTC().Truncate(time.Microsecond) // the precision of Redis
	c.expired = c.now()
	c.tick()
	return c
}

// now returns the time. The caller holds the lock.
func (c *clock) now() time.Time {
	switch {
	case c.mode == Real:
		return time.Now().UTC()
	case c.paused || c.moving:
		return c.base
	default:
		return c.base.Add(time.Since(c.since)).Truncate(time.Microsecond)
	}
}

// tick sets the time of miniredis to that of the clock, and expires keys.
func (c *clock) tick() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.update()
}

// update is tick for a caller that holds the lock. A key may expire expireEvery too early: miniredis
// knows only its remaining time to live, and scans all keys to reduce that.
func (c *clock) update() {
	const expireEvery = time.Second
	now := c.now()
	if c.mode == Virtual {
		c.mini.SetTime(now)
	}
	if passed := now.Sub(c.expired); passed >= expireEvery {
		c.mini.FastForward(passed)
		c.expired = now
	}
}

// set changes how the clock runs from its current time on.
func (c *clock) set(change func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.base, c.since = c.now(), time.Now()
	change()
	close(c.changed)
	c.changed = make(chan struct{})
	c.update()
}

// pause stops the clock or lets it run.
func (c *clock) pause(paused bool) { c.set(func() { c.paused = paused }) }

// hold stops the clock during an advance; release lets it run again.
func (c *clock) hold()    { c.set(func() { c.moving = true }) }
func (c *clock) release() { c.set(func() { c.moving = false }) }

// jump moves the clock forward, never back.
func (c *clock) jump(to time.Time) {
	c.set(func() {
		if to.After(c.base) {
			c.base = to.UTC()
		}
	})
}

func (c *clock) show() Clock {
	c.mu.Lock()
	defer c.mu.Unlock()
	return Clock{Mode: c.mode, Now: c.now(), Paused: c.paused}
}

// sleep waits until the clock has advanced by d.
func (c *clock) sleep(ctx context.Context, d time.Duration) error {
	c.mu.Lock()
	s := &sleeper{until: c.now().Add(d)}
	c.sleepers[s] = true
	c.mu.Unlock()
	defer c.wake(s)
	for {
		left, running, changed := c.left(s)
		if left <= 0 {
			return nil
		}
		var passed <-chan time.Time
		if running {
			passed = time.After(left)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
		case <-passed:
		}
	}
}

// left returns how long a sleeper still sleeps and whether the clock runs.
func (c *clock) left(s *sleeper) (left time.Duration, running bool, changed <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return s.until.Sub(c.now()), c.mode == Real || !c.paused && !c.moving, c.changed
}

func (c *clock) wake(s *sleeper) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.sleepers, s)
}

// sleeping returns the number of sleepers and when the first one wakes.
func (c *clock) sleeping() (n int, first time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	for s := range c.sleepers {
		if s.until.After(now) {
			n++
			first = event.Earlier(first, s.until)
		}
	}
	return n, first
}
