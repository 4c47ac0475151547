package doctor

import (
	"context"
	"errors"
	"fmt"

	"flunq.io/flunq/engine/agenda"
	"flunq.io/flunq/engine/history"
	"flunq.io/flunq/engine/schedule"
)

// checkScheduler checks the scheduled events in Redis, if the scheduler has been used there.
func (d *doctor) checkScheduler(ctx context.Context) {
	const check = "scheduler"
	index := agenda.NewIndex(d.remote.Store.Redis())
	counts, err := index.Counts(ctx, lateAfter)
	if errors.Is(err, schedule.ErrPartitions) {
		return // nobody has started it
	}
	members, wrong := index.Members(ctx, "", 0)
	if err = errors.Join(err, wrong); err != nil {
		d.unchecked(check, "", err)
		return
	}
	sum := schedule.Sum(counts)
	processes := len(members.Processes)
	text := fmt.Sprintf("%s scheduled, %s being published; %s, %s", history.Count(sum.Scheduled, "event"),
		history.Number(sum.Firing), history.Count(members.Count, "partition"), history.Count(processes, "process"))
	switch late := sum.Now.Sub(sum.Next); {
	case processes == 0 && sum.Scheduled+sum.Firing > 0:
		d.report(check, isBad, text+": nobody publishes them", "start a process with 'flunq serve --scheduler'")
	case sum.Overdue > 0:
		d.report(check, isBad, fmt.Sprintf("%s; %s overdue, for %s", text, history.Count(sum.Overdue, "event"), history.Duration(late)),
			"see the errors in the log of 'flunq serve': is the sink reachable? Add processes if they only cannot keep up")
	case sum.Firing > 0 && late > lostAfter:
		d.report(check, isDoubtful, fmt.Sprintf("%s; a lease ended %s ago and nobody has claimed its event", text, history.Duration(late)),
			"see the errors in the log of 'flunq serve'")
	default:
		d.report(check, isFine, text, "")
	}
	if sum.Dead > 0 {
		d.report("dead events", isDoubtful, history.Count(sum.Dead, "scheduled event")+" could not be published",
			"'flunq schedule dlq ls' says why; 'flunq schedule dlq replay' publishes them again")
	}
	if len(members.Partitions) > members.Count && members.Count > 0 {
		d.report(check, isFine, history.Count(len(members.Partitions)-members.Count, "partition")+
			" of former counts may still hold events, and are served until they are empty", "")
	}
}
