package telemetry

import "sync"

// maxTenants is the maximum number of tenants with their own metrics so that scrapes stay small. All
// others share one name.
const maxTenants = 100

// otherTenants is the label of the tenants beyond the limit. No tenant can have this
// name.
const otherTenants = "(other)"

// tenantLabels maps tenants, or other names given by clients, to labels. The first names are kept for
// the life of the process. It is safe for concurrent use.
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
	case len(l.known) >= maxTenants:
		return otherTenants
	}
	if l.known == nil {
		l.known = map[string]bool{}
	}
	l.known[tenant] = true
	return tenant
}
