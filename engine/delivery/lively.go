package delivery

import (
	"time"

	"flunq.io/flunq/engine/store"
)

// lively are the tenants of whom something was read when all were last asked for. A
// read of all costs by how many they are, even if one of them has a single event:
// where they are many, all are asked for now and then, and these in between.
type lively struct {
	found []store.Found
	asked time.Time // when all were last read, by Redis' clock
	now   time.Time
}

const (
	pauseEach = 15 * time.Microsecond // between two reads of all, for each of them
	pauseFrom = 2 * time.Millisecond  // shorter ones are none: Redis counts in milliseconds
)

// next is who is to be read next, and for how long to wait for them; none if it is
// all.
func (l *lively) next(all []string, block time.Duration) (some []string, patience time.Duration) {
	pause := time.Duration(len(all)) * pauseEach
	since := l.now.Sub(l.asked)
	if block == 0 || pause < pauseFrom || since < 0 || since >= pause {
		return nil, 0
	}
	for _, f := range l.found {
		some = append(some, f.Tenant)
	}
	return some, min(block, max((pause-since).Round(time.Millisecond), time.Millisecond))
}

// saw takes in a read of all.
func (l *lively) saw(found []store.Found, now time.Time) {
	l.found, l.asked, l.now = found, now, now
}

// at takes in what the time is by now; zero if that is not known.
func (l *lively) at(now time.Time) {
	if l.now = now; now.IsZero() {
		l.found = nil
	}
}
