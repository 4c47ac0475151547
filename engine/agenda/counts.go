package agenda

import (
	"context"
	"time"

	"flunq.io/flunq/engine/schedule"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/wire"
)

// Counts returns the numbers of events in each partition. Events that were due more than late ago
// and that no process has taken are overdue.
func (p *partitions) Counts(ctx context.Context, late time.Duration) ([]schedule.Counts, error) {
	known, err := p.partitioning(ctx)
	if err != nil {
		return nil, err
	}
	all := known.all()
	requests := make([]*request, len(all))
	for i, n := range all {
		requests[i] = &request{keys: []string{p.keys.prefix(n)}, args: []any{late.Milliseconds()}}
	}
	cmds, err := callAll(ctx, p.rdb, countsScript, requests)
	if err != nil {
		return nil, store.Failed("count scheduled events", err)
	}
	out := make([]schedule.Counts, len(all))
	for i, cmd := range cmds {
		reply, err := cmd.Slice()
		if err != nil {
			return nil, store.Failed("count scheduled events", err)
		}
		list := wire.List(reply)
		out[i] = schedule.Counts{
			Partition: all[i], Now: moment(number(list.Text(0))), Scheduled: list.Number(1), Overdue: list.Number(2), Firing: list.Number(3), Dead: list.Number(4),
			Next: moment(number(list.Text(5))),
		}
	}
	return out, nil
}
