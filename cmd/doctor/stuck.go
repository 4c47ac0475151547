package doctor

import (
	"cmp"
	"context"
	"fmt"

	"flunq.io/flunq/cmd/cli"
	"flunq.io/flunq/engine/decide"
	"flunq.io/flunq/engine/examine"
	"flunq.io/flunq/engine/history"
	"flunq.io/flunq/engine/store"
)

// stuck searches the oldest open executions of each tenant for those that nothing will wake
// or that have lost a timer.
func (d *doctor) stuck(ctx context.Context) {
	examined := 0
	for _, tenant := range d.tenants {
		n, err := d.stuckOf(ctx, tenant)
		if examined += n; err != nil {
			d.unchecked("stuck", tenant, err)
		}
	}
	d.sumUp("stuck", history.Count(examined, "open execution")+" examined: none is stuck or lacks a timer")
}

func (d *doctor) stuckOf(ctx context.Context, tenant string) (examined int, err error) {
	query := store.ExecutionQuery{Statuses: []string{string(decide.Running), string(decide.Waiting)}, Limit: maxOpen, Back: true}
	var unreadable []string
	var why error
	query.Damaged = func(id string, damage error) { unreadable, why = append(unreadable, id), cmp.Or(why, damage) }
	open, next, err := d.remote.Store.Executions(ctx, tenant, query)
	if err != nil {
		return 0, err
	}
	if len(unreadable) > 0 {
		d.add(finding{
			Check: "stuck", State: isBad, Tenant: tenant, Examples: unreadable,
			Text:   fmt.Sprintf("%s cannot be read, and cannot continue: %v", history.Count(len(unreadable), "execution"), why),
			Remedy: "restore the execution from a backup",
		})
	}
	outlooks, err := d.remote.Examiner.Examine(ctx, tenant, open)
	if err != nil {
		return 0, err
	}
	d.stuckFinding(tenant, open, outlooks, next != "")
	return len(outlooks), nil
}

// stuckFinding reports executions that are damaged, stuck or without a timer.
func (d *doctor) stuckFinding(tenant string, open []store.Execution, outlooks map[string]examine.Findings, more bool) {
	var stuck, unlimited, damaged []string
	restorable := false
	for _, x := range open {
		switch o := outlooks[x.ID]; {
		case o.Damage != "":
			damaged = append(damaged, x.ID)
		case len(o.Stuck) > 0:
			stuck = append(stuck, x.ID)
			restorable = restorable || !o.Missing.Empty()
		case len(o.Missing.Timers) > 0:
			unlimited = append(unlimited, x.ID)
		}
	}
	among := ""
	if more {
		among = fmt.Sprintf(" (among the %s oldest open ones)", history.Number(maxOpen))
	}
	if len(damaged) > 0 {
		d.add(finding{
			Check: "stuck", State: isBad, Tenant: tenant, Examples: damaged,
			Text:   fmt.Sprintf("the history of %s is missing or truncated%s: such an execution cannot continue", history.Count(len(damaged), "execution"), among),
			Remedy: fmt.Sprintf("restore the history from a backup, or flunq cancel %s --tenant %s", damaged[0], tenant),
		})
	}
	if len(stuck) > 0 {
		f := finding{Check: "stuck", State: isBad, Tenant: tenant, Examples: stuck}
		f.Text = fmt.Sprintf("nothing will wake %s: what a task waits for is missing%s", history.Count(len(stuck), "execution"), among)
		f.Remedy = fmt.Sprintf("flunq ps --stuck --tenant %s lists them, flunq show %s --tenant %s shows why", tenant, stuck[0], tenant)
		if restorable {
			f.Remedy += fmt.Sprintf("; flunq timers restore %s --tenant %s restores it", stuck[0], tenant)
		}
		d.add(f)
	}
	if len(unlimited) > 0 {
		d.add(finding{
			Check: "stuck", State: isDoubtful, Tenant: tenant, Examples: unlimited,
			Text:   fmt.Sprintf("a timer of %s was cancelled or lost, but the execution can continue without it%s", history.Count(len(unlimited), "execution"), among),
			Remedy: fmt.Sprintf("flunq show %s --tenant %s shows which; flunq timers restore %s --tenant %s restores it", unlimited[0], tenant, unlimited[0], tenant),
		})
	}
}

// manyKept is the number of finished executions of a tenant that causes a warning.
const manyKept = 100_000

// kept checks how many ended executions are kept. Without a setting, all are.
func (d *doctor) kept(ctx context.Context, tenant string) {
	counts, err := d.remote.Store.Counts(ctx, tenant)
	var keep store.Keep
	if err == nil {
		keep, err = d.remote.Store.Kept(ctx, tenant)
	}
	finished := counts.Completed + counts.Faulted + counts.Cancelled
	if err != nil {
		d.unchecked("finished", tenant, err)
		return
	}
	if finished == 0 {
		return
	}
	f := finding{Check: "finished", State: isFine, Tenant: tenant, number: finished, Text: history.Count(int(finished), "finished execution")}
	size, err := d.remote.Store.Weight(ctx, tenant)
	if err == nil && size > 0 {
		f.bytes = size
		f.Text += ", about " + mebibytes(f.bytes)
	}
	if keep.Bounded() {
		f.Text += "; " + cli.KeptOf(keep)
		d.add(f)
		return
	}
	f.Text += "; no process removes any"
	if finished >= manyKept || d.server.Limit > 0 && size > d.server.Limit/4 {
		f.State = isDoubtful
		f.Remedy = "flunq serve --keep-finished 30d removes older ones (KEEP_FINISHED); KEEP_FINISHED_COUNT limits their number"
	}
	d.add(f)
}
