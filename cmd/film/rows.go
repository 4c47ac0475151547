package film

import (
	"encoding/json"
	"strconv"
	"time"

	"flunq.io/flunq/cmd/tale"
	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/tui"
)

// hidden is text without secrets.
func (f *Film) hidden(text []byte) []byte {
	if f.opts.Hide == nil || len(text) == 0 {
		return text
	}
	return f.opts.Hide(text)
}

// shown is an event without secrets.
func (f *Film) shown(e event.Event) event.Event {
	e.Data = f.hidden(e.Data)
	return e
}

// read reads the data of a frame, without secrets.
func (f *Film) read(fr *frame, into any) bool { return json.Unmarshal(f.hidden(fr.Data), into) == nil }

// byMoment compares when a timer is due with a moment.
func byMoment(t *span, at time.Time) int { return t.timer.Due().Compare(at) }

func (f *Film) executionRow(r *reel) tui.Row {
	version := r.version(f.playhead.n)
	row := tui.Row{
		ID: r.id, State: r.states[max(version, 1)-1], Workflow: r.workflow(),
		Execution: r.started.Parent, Task: r.started.ParentTask, At: r.begun.Time, Count: int64(version),
	}
	if ended := r.ended(version); ended > 0 {
		row.Until = f.frames[r.frames[ended-1]].at
	}
	return row
}

// workflow is the name of what it runs.
func (r *reel) workflow() string {
	if r.begun.Workflow != "" || r.started.Name == "" {
		return r.begun.Workflow
	}
	return r.started.Namespace + "." + r.started.Name
}

func (f *Film) timerRow(s *span) tui.Row {
	kind := s.timer.Kind
	if kind == "" {
		kind = event.WaitTimer
	}
	row := tui.Row{
		ID: s.id, Cursor: strconv.FormatInt(s.timer.Due().UnixNano(), 10) + "/" + strconv.Itoa(s.from),
		State: tui.Waiting, Kind: string(kind), Workflow: s.reel.workflow(), Execution: s.reel.id,
		Task: s.timer.TaskID, Note: s.timer.Key, At: s.timer.Due().UTC(),
	}
	if row.At.Before(f.playhead.at) {
		row.State = tui.Overdue
	}
	return row
}

func (f *Film) taskRow(s *span) tui.Row {
	row := tui.Row{
		ID: s.id, State: tui.Running, Kind: s.kind, Workflow: s.reel.workflow(), Execution: s.reel.id, Task: s.run,
		At: f.frames[s.from].at, Note: s.name,
	}
	if s.kind == string(dsl.Listen) {
		row.State = tui.Waiting
	}
	return row
}

func (f *Film) letterRow(at int) tui.Row {
	fr := &f.frames[at]
	row := tui.Row{
		ID: strconv.Itoa(at + 1), State: tui.Dead, Kind: tale.Type(fr.Type),
		Workflow: fr.reel.workflow(), Execution: fr.Execution, Task: fr.Task, At: fr.at,
	}
	var dead event.Dead
	if f.read(fr, &dead) {
		row.Note, row.Count = dead.Reason, int64(dead.Attempts)
	}
	return row
}

func (f *Film) eventRow(at int) tui.Row {
	fr := &f.frames[at]
	return tui.Row{
		ID: strconv.Itoa(at + 1), Kind: tale.Type(fr.Type), Workflow: fr.reel.workflow(),
		Execution: fr.Execution, Task: fr.Task, Note: tale.Brief(f.shown(fr.Event)), At: fr.at,
	}
}
