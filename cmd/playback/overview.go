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
		Failed: pb.failures(),
	}
	timers, tasks := pb.open()
	o.Counts = pb.counts(timers)
	o.Running, o.Of.Running = pb.running(tasks)
	o.Of.Due, o.Of.Failed = o.Counts.Timers, o.Counts.Faulted+o.Counts.Dead
	o.Events, o.Fires = pb.rates(now)
	for _, t := range timers[:min(len(timers), fewDue)] {
		o.Due = append(o.Due, pb.timerRow(t))
	}
	o.Notes = p.skipNote(now)
	if pb.over { // how it ended is known
		o.Notes = append(o.Notes, pb.notes...)
	}
	return o, nil
}

func (pb *Playback) counts(timers []*interval) tui.Counts {
	overdue, _ := slices.BinarySearchFunc(timers, pb.playhead.at, func(t *interval, at time.Time) int { return t.timer.Due.Compare(at) })
	c := tui.Counts{Timers: int64(len(timers)), Overdue: int64(overdue), Dead: int64(before(pb.dead, pb.playhead.n))}
	for _, t := range pb.begun() {
		switch t.states[t.version(pb.playhead.n)-1] {
		case tui.Completed:
			c.Completed++
		case tui.Faulted:
			c.Faulted++
		case tui.Cancelled:
			c.Cancelled++
		default:
			c.Open++
		}
	}
	return c
}

// running returns the first tasks that work or listen, and the number of all. The others contain tasks,
// or are listed by their timers.
func (pb *Playback) running(open []*interval) (rows []tui.Row, all int64) {
	for _, t := range open {
		switch dsl.Kind(t.run.Kind) {
		case dsl.Do, dsl.For, dsl.Fork, dsl.Try, dsl.Wait:
			continue
		default:
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
	failed, dead := before(pb.failed, n), before(pb.dead, n)
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
