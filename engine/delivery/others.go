package delivery

import (
	"context"
	"slices"

	"flunq.io/flunq/engine/store"
)

// fetchOthers reads the tenants that have not enough yet. It does not wait, and claims
// nothing: there is something to do.
func (d *Desk) fetchOthers(ctx context.Context, r store.Reader, count int, enough []string) (Fetched, error) {
	has := func(tenant string) bool { return slices.Contains(enough, tenant) }
	some, _ := d.busy.next(r.Tenants, d.opts.Block)
	all := len(some) == 0
	if !all {
		r.Tenants = some
	}
	if r.Tenants = slices.DeleteFunc(slices.Clone(r.Tenants), has); len(r.Tenants) == 0 {
		return Fetched{}, nil
	}
	f, err := d.read(ctx, r, count, 0)
	if !all {
		d.busy.at(f.Now)
		return f, d.told(err)
	}
	found := r.Notes.Found
	for _, tenant := range enough { // they have something as well
		found = append(found, store.Found{Tenant: tenant})
	}
	d.busy.saw(found, f.Now)
	return f, d.told(err)
}
