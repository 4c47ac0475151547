package playback

import (
	"context"
	"slices"

	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/tui"
)

// Sizes of the lists in an overview.
const (
	fewDue     = 12
	fewRunning = 20
	fewFailed  = 12
)

// Overview returns the overview at the shown moment.
func (f *Playback) Overview(context.Context) (tui.Overview, error) {
	now := f.lock()
	defer f.mu.Unlock()
	p := &f.playhead
	o := tui.Overview{
		Now: p.at, Place: f.opts.Place, Tenant: f.opts.Tenant, Clock: f.clock(now),
		Counts: f.counts(), Failed: f.failures(),
	}
	o.Running, o.Of.Running = f.running()
	o.Of.Due, o.Of.Failed = o.Counts.Timers, o.Counts.Faulted+o.Counts.Dead
	o.Events, o.Fires = f.rates(now)
	for _, t := range f.stage.pending()[:min(len(f.stage.timers), fewDue)] {
		o.Due = append(o.Due, f.timerRow(t))
	}
	o.Notes = append(p.skipNote(now), f.endNotes()...)
	return o, nil
}

// endNotes returns the notes about the end, once it is known.
func (f *Playback) endNotes() []string {
	if !f.over {
		return nil
	}
	return f.notes
}

func (f *Playback) counts() tui.Counts {
	t := f.tally(f.playhead.n)
	overdue, _ := slices.BinarySearchFunc(f.stage.pending(), f.playhead.at, byMoment)
	return tui.Counts{
		Open: int64(t.executions[openKind]), Completed: int64(t.executions[completedKind]),
		Faulted: int64(t.executions[faultedKind]), Cancelled: int64(t.executions[cancelledKind]),
		Timers: int64(t.timers), Overdue: int64(overdue), Dead: int64(t.dead),
	}
}

// running returns the first tasks that work or listen, and the number of all. Waits are
// listed by their timers.
func (f *Playback) running() (rows []tui.Row, all int64) {
	for _, t := range f.stage.open() {
		if composite(t.kind) || t.kind == string(dsl.Wait) {
			continue
		}
		if all++; len(rows) < fewRunning {
			rows = append(rows, f.taskRow(t))
		}
	}
	return rows, all
}

// failures returns failed executions and dead letters, latest first.
func (f *Playback) failures() (rows []tui.Row) {
	n := f.playhead.n
	failed, _ := slices.BinarySearch(f.failed, n)
	dead, _ := slices.BinarySearch(f.dead, n)
	for len(rows) < fewFailed && failed+dead > 0 {
		if dead > 0 && (failed == 0 || f.dead[dead-1] > f.failed[failed-1]) {
			dead--
			rows = append(rows, f.deadLetterRow(f.dead[dead]))
			continue
		}
		failed--
		fr := &f.frames[f.failed[failed]]
		if fr.track.ended(fr.track.version(n)) != fr.version {
			continue // it was retried
		}
		row := f.executionRow(fr.track)
		row.Kind = "execution"
		var ended event.Ended
		if f.read(fr, &ended) && ended.Error != nil {
			row.Note = ended.Error.Error()
		}
		rows = append(rows, row)
	}
	return rows
}
