package sim

import (
	"cmp"
	"context"
	"time"
)

// clock is the virtual clock and its pace.
type clock struct {
	now  time.Time
	pace float64 // virtual seconds per real second; 0: does not wait at all

	real time.Time // when now was set, used while real time matters
}

func newClock(start time.Time, pace float64) clock {
	return clock{now: start, pace: pace, real: realNow()}
}

// realNow reads the machine's clock. The simulation needs it only to keep a pace and
// while real calls are under way.
func realNow() time.Time { return time.Now() }

// wait blocks until the virtual time next (zero: no limit), until a call returns, or
// until ctx ends, and returns the virtual time at that moment. With no pace and no calls
// it returns immediately.
func (c *clock) wait(ctx context.Context, next time.Time, calls *calls) time.Time {
	if c.pace == 0 && calls.open == 0 {
		return next
	}
	pace := cmp.Or(c.pace, 1) // real calls take real time
	began := c.real
	if c.pace == 0 {
		began = calls.since
	}
	due := make(<-chan time.Time)
	if !next.IsZero() {
		left := time.Duration(float64(next.Sub(c.now))/pace) - realNow().Sub(began)
		timer := time.NewTimer(left)
		defer timer.Stop()
		due = timer.C
	}
	select {
	case <-ctx.Done():
		return c.now
	case <-due:
		c.restart(calls)
		return next
	case back := <-calls.back:
		calls.arrived = append(calls.arrived, back)
		now := c.now.Add(time.Duration(float64(realNow().Sub(began)) * pace))
		if !next.IsZero() && now.After(next) {
			now = next
		}
		c.restart(calls)
		return now
	}
}

// restart measures real time from now on.
func (c *clock) restart(calls *calls) {
	c.real = realNow()
	calls.since = c.real
}
