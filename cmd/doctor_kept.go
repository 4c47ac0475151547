package cmd

import (
	"context"

	"flunq.io/flunq/engine/history"
	"flunq.io/flunq/engine/store"
)

// manyKept is the number of finished executions of a tenant from which on doctor warns.
const manyKept = 100_000

// kept checks how many ended executions are kept: without a setting, all are.
func (d *doctor) kept(ctx context.Context, tenant string) {
	counts, err := d.remote.store.Counts(ctx, tenant)
	var keep store.Keep
	if err == nil {
		keep, err = d.remote.store.Kept(ctx, tenant)
	}
	finished := counts.Completed + counts.Faulted + counts.Cancelled
	if err != nil {
		d.blind("finished", tenant, err)
		return
	}
	if finished == 0 {
		return
	}
	f := finding{Check: "finished", State: isFine, Tenant: tenant, number: finished, Text: history.Count(int(finished), "finished execution")}
	size, err := d.remote.store.Weight(ctx, tenant)
	if err == nil && size > 0 {
		f.bytes = size * finished
		f.Text += ", some " + mebibytes(f.bytes)
	}
	if keep.Bounded() {
		f.Text += "; " + keptOf(keep)
		d.add(f)
		return
	}
	f.Text += "; nobody removes any"
	if finished >= manyKept || d.server.Limit > 0 && size*finished > d.server.Limit/4 {
		f.State = isDoubtful
		f.Remedy = "flunq serve --keep-finished 30d removes those that ended longer ago (KEEP_FINISHED); KEEP_FINISHED_COUNT bounds how many there are"
	}
	d.add(f)
}
