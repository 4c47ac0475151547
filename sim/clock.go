package sim

import (
	"context"
	"time"
)

// clock is the virtual time, and how fast it passes.
type clock struct {
	now  time.Time
	pace float64 // virtual seconds for each real one; 0: none at all

	real time.Time // when now was set, while real time matters
}

func newClock(start time.Time, pace float64) clock {
	return clock{now: start, pace: pace, real: realNow()}
}

// realNow is the machine's clock. It is read only where the world takes part:
// to keep a pace, and while calls are under way that really go out.
func realNow() time.Time { return time.Now() }

// wait lets real time pass until the virtual time next (zero: for ever), until
// a call is back, or until ctx ends, and says which virtual time it is then.
// With no pace and no calls it takes no time.
func (c *clock) wait(ctx context.Context, next time.Time, calls *calls) time.Time {
	if c.pace == 0 && calls.open == 0 {
		return next
	}
	pace := c.pace
	if pace == 0 {
		pace = 1 // calls that go out take the time they take
	}
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

// restart counts real time from here on.
func (c *clock) restart(calls *calls) {
	c.real = realNow()
	calls.since = c.real
}
