package delivery

import (
	"context"
	"slices"
	"time"

	"flunq.io/flunq/engine/store/stream"
)

// ask is how much to read, how long to block, and which tenants to leave out.
type ask struct {
	count  int
	block  time.Duration
	enough []string
}

// fetchOthers reads the tenants that are not in enough. It claims their abandoned entries
// only if it may block; otherwise there is other work to do.
func (d *Consumer) fetchOthers(ctx context.Context, r stream.Reader, a ask) (Fetched, error) {
	has := func(tenant string) bool { return slices.Contains(a.enough, tenant) }
	others := slices.DeleteFunc(slices.Clone(r.Tenants), has)
	some, patience := d.recent.next(r.Tenants, d.opts.Block)
	lately := len(some) > 0
	some = slices.DeleteFunc(some, has)
	switch {
	case len(others) == 0, lately && len(some) == 0 && a.block == 0:
		return Fetched{}, nil
	case len(some) > 0:
		others, a.block = some, min(a.block, patience)
	}
	r.Tenants = others
	if d.opts.Alarm != nil && a.block > 0 {
		defer d.opts.Alarm(a.block)()
	}
	waits := a.block > 0
	f, err := d.read(ctx, r, a.count, a.block)
	if len(some) > 0 {
		d.recent.at(f.Now)
		return f, d.reportUnread(err)
	}
	found := slices.Clone(r.ReadInfo.Found)
	for _, tenant := range a.enough { // they have events as well
		found = append(found, stream.Found{Tenant: tenant})
	}
	d.recent.saw(found, f.Now)
	if err != nil || !waits || !d.opts.Reclaim || d.claimedRecently(f.Now, len(r.Tenants), f.Events > 0) {
		return f, d.reportUnread(err)
	}
	return d.claim(ctx, r, a.count, f)
}
