package telemetry

import "sync"

// mostTenants is how many tenants have metrics of their own, so that the answer to a
// scrape stays small. All others share one name; the simulator knows no metrics.
const mostTenants = 100

// otherTenants is the name that the tenants beyond the limit share. No tenant has it.
const otherTenants = "(other)"

// tenantLabels names tenants in metrics. The first ones that are asked for keep their own
// names for as long as the process lives. It is safe for concurrent use.
type tenantLabels struct {
	mu    sync.Mutex
	known map[string]bool
}

func (l *tenantLabels) of(tenant string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.known[tenant]:
		return tenant
	case len(l.known) >= mostTenants:
		return otherTenants
	}
	if l.known == nil {
		l.known = map[string]bool{}
	}
	l.known[tenant] = true
	return tenant
}
