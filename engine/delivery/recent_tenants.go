package delivery

import (
	"time"

	"flunq.io/flunq/engine/store/stream"
)

// recentTenants are the tenants that had events when all tenants were last read. The cost of
// reading all tenants grows with their number, even if only one has events. With many
// tenants, all are therefore read only at intervals, and only the recent ones in between.
type recentTenants struct {
	names []string
	asked time.Time // when all were last read, by Redis' clock
	now   time.Time
}

const (
	pauseEach = 15 * time.Microsecond // time between two reads of all tenants, per tenant
	pauseFrom = 2 * time.Millisecond  // a shorter pause is skipped: Redis counts in milliseconds
)

// next returns the tenants to read next, or none for all, and how long to block.
func (t *recentTenants) next(all []string, block time.Duration) (recent []string, patience time.Duration) {
	pause := time.Duration(len(all)) * pauseEach
	since := t.now.Sub(t.asked)
	if block == 0 || pause < pauseFrom || since < 0 || since >= pause {
		return nil, 0
	}
	return t.names, min(block, max((pause-since).Round(time.Millisecond), time.Millisecond))
}

// saw records a read of all tenants, except skipped ones: they have events, too.
func (t *recentTenants) saw(found []stream.Found, skipped []string, now time.Time) {
	t.names, t.asked, t.now = nil, now, now
	for _, f := range found {
		t.names = append(t.names, f.Tenant)
	}
	t.names = append(t.names, skipped...)
}

// at records the current time; zero if unknown.
func (t *recentTenants) at(now time.Time) {
	if t.now = now; now.IsZero() {
		t.names = nil
	}
}
