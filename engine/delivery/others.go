package delivery

import (
	"context"
	"slices"
	"time"

	"flunq.io/flunq/engine/store"
)

// ask is how much to read, for how long to wait for it, and of whom there is enough.
type ask struct {
	count  int
	block  time.Duration
	enough []string
}

// fetchOthers reads the tenants that have not enough yet. It claims nothing: there is
// something to do.
func (d *Desk) fetchOthers(ctx context.Context, r store.Reader, a ask) (Fetched, error) {
	some, _ := d.busy.next(r.Tenants, d.opts.Block)
	all := len(some) == 0
	if !all {
		r.Tenants = some
	}
	has := func(tenant string) bool { return slices.Contains(a.enough, tenant) }
	if r.Tenants = slices.DeleteFunc(slices.Clone(r.Tenants), has); len(r.Tenants) == 0 {
		return Fetched{}, nil
	}
	if d.opts.Alarm != nil && a.block > 0 {
		defer d.opts.Alarm(a.block)()
	}
	f, err := d.read(ctx, r, a.count, a.block)
	if !all {
		d.busy.at(f.Now)
		return f, d.told(err)
	}
	found := r.Notes.Found
	for _, tenant := range a.enough { // they have something as well
		found = append(found, store.Found{Tenant: tenant})
	}
	d.busy.saw(found, f.Now)
	return f, d.told(err)
}
