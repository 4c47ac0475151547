package delivery

import (
	"context"
	"slices"
	"time"

	"flunq.io/flunq/engine/store/stream"
)

// fetchOthers reads the tenants that are not in skip. It claims their abandoned entries only if
// it may block; otherwise there is other work to do.
func (c *Consumer) fetchOthers(ctx context.Context, r stream.Reader, count int, block time.Duration, skip []string) (Fetched, error) {
	skipped := func(tenant string) bool { return slices.Contains(skip, tenant) }
	others := slices.DeleteFunc(slices.Clone(r.Tenants), skipped)
	some, patience := c.recent.next(r.Tenants, c.opts.Block)
	lately := len(some) > 0
	some = slices.DeleteFunc(some, skipped)
	switch {
	case len(others) == 0, lately && len(some) == 0 && block == 0:
		return Fetched{}, nil
	case len(some) > 0:
		others, block = some, min(block, patience)
	}
	r.Tenants = others
	if c.opts.Alarm != nil && block > 0 {
		defer c.opts.Alarm(block)()
	}
	waits := block > 0
	f, err := c.read(ctx, r, count, block)
	if len(some) > 0 {
		c.recent.at(f.Now)
		return f, c.reportUnread(err)
	}
	found := slices.Clone(r.ReadInfo.Found)
	for _, tenant := range skip { // they have events, too
		found = append(found, stream.Found{Tenant: tenant})
	}
	c.recent.saw(found, f.Now)
	if err != nil || !waits || !c.opts.Reclaim || c.claimedRecently(f.Now, len(r.Tenants), f.Events > 0) {
		return f, c.reportUnread(err)
	}
	return c.claim(ctx, r, count, f)
}
