package playback

import (
	"context"
	"slices"
	"time"

	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/tui"
)

// Sizes of the lists in an overview.
const (
	fewDue     = 12
	fewRunning = 20
	fewFailed  = 12
)

// Overview returns the overview at the shown moment.
func (pb *Playback) Overview(context.Context) (tui.Overview, error) {
	now := pb.lock()
	defer pb.mu.Unlock()
	p := &pb.playhead
	o := tui.Overview{
		Now: p.at, Place: pb.opts.Place, Tenant: pb.opts.Tenant, Clock: pb.clock(now),
		Counts: pb.counts(), Failed: pb.failures(),
	}
	o.Running, o.Of.Running = pb.running()
	o.Of.Due, o.Of.Failed = o.Counts.Timers, o.Counts.Faulted+o.Counts.Dead
	o.Events, o.Fires = pb.rates(now)
	for _, t := range pb.open().timers[:min(len(pb.open().timers), fewDue)] {
		o.Due = append(o.Due, pb.timerRow(t))
	}
	o.Notes = p.skipNote(now)
	if pb.over { // how it ended is known
		o.Notes = append(o.Notes, pb.notes...)
	}
	return o, nil
}

func (pb *Playback) counts() tui.Counts {
	t := pb.tally(pb.playhead.n)
	overdue, _ := slices.BinarySearchFunc(pb.open().timers, pb.playhead.at, func(t *interval, at time.Time) int { return t.timer.Due.Compare(at) })
	return tui.Counts{
		Open: int64(t.executions[openKind]), Completed: int64(t.executions[completedKind]),
		Faulted: int64(t.executions[faultedKind]), Cancelled: int64(t.executions[cancelledKind]),
		Timers: int64(t.timers), Overdue: int64(overdue), Dead: int64(t.dead),
	}
}

// running returns the first tasks that work or listen, and the number of all. Waits are
// listed by their timers.
func (pb *Playback) running() (rows []tui.Row, all int64) {
	for _, t := range pb.open().tasks {
		if composite(t.run.Kind) || t.run.Kind == string(dsl.Wait) {
			continue
		}
		if all++; len(rows) < fewRunning {
			rows = append(rows, pb.taskRow(t))
		}
	}
	return rows, all
}

// failures returns failed executions and dead letters, latest first.
func (pb *Playback) failures() (rows []tui.Row) {
	n := pb.playhead.n
	failed, _ := slices.BinarySearch(pb.failed, n)
	dead, _ := slices.BinarySearch(pb.dead, n)
	for len(rows) < fewFailed && failed+dead > 0 {
		if dead > 0 && (failed == 0 || pb.dead[dead-1] > pb.failed[failed-1]) {
			dead--
			rows = append(rows, pb.deadLetterRow(pb.dead[dead]))
			continue
		}
		failed--
		fr := &pb.frames[pb.failed[failed]]
		if fr.track.ended(fr.track.version(n)) != fr.version {
			continue // it was retried
		}
		row := pb.executionRow(fr.track)
		row.Kind, row.Note = "execution", pb.failure(fr.track, fr.version)
		rows = append(rows, row)
	}
	return rows
}
