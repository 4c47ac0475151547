package playback

import (
	"cmp"
	"encoding/json"
	"strconv"

	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/history"
	"flunq.io/flunq/tui"
)

// redacted returns text without secrets.
func (pb *Playback) redacted(text []byte) []byte {
	if pb.opts.Redact == nil || len(text) == 0 {
		return text
	}
	return pb.opts.Redact(text)
}

// shown returns an event without secrets.
func (pb *Playback) shown(e event.Event) event.Event {
	e.Data = pb.redacted(e.Data)
	return e
}

// read decodes the data of a frame, without secrets.
func (pb *Playback) read(fr *frame, into any) bool {
	return json.Unmarshal(pb.redacted(fr.Data), into) == nil
}

func (pb *Playback) executionRow(r *track) tui.Row {
	version := r.version(pb.playhead.n)
	row := tui.Row{
		ID: r.id, State: r.states[max(version, 1)-1], Workflow: r.workflow(),
		Execution: r.started.Parent, Task: r.started.ParentTask, At: r.begun.Time, Count: int64(version),
	}
	if ended := r.ended(version); ended > 0 {
		row.Until = pb.frames[r.frames[ended-1]].at
	}
	return row
}

// workflow returns the name of the workflow.
func (t *track) workflow() string {
	if t.begun.Workflow != "" || t.started.Name == "" {
		return t.begun.Workflow
	}
	return t.started.Namespace + "." + t.started.Name
}

func (pb *Playback) timerRow(s *interval) tui.Row {
	kind := cmp.Or(s.timer.Kind, event.WaitTimer)
	row := tui.Row{
		ID: s.id, Cursor: strconv.FormatInt(s.timer.Due.UnixNano(), 10) + "/" + strconv.Itoa(s.from),
		State: tui.Waiting, Kind: string(kind), Workflow: s.track.workflow(), Execution: s.track.id,
		Task: s.run.String(), Note: s.timer.Key, At: s.timer.Due.UTC(),
	}
	if row.At.Before(pb.playhead.at) {
		row.State = tui.Overdue
	}
	return row
}

func (pb *Playback) taskRow(s *interval) tui.Row {
	row := tui.Row{
		ID: s.id, State: tui.Running, Kind: s.run.Kind, Workflow: s.track.workflow(), Execution: s.track.id, Task: s.run.String(),
		At: pb.frames[s.from].at, Note: s.run.Name,
	}
	if s.run.Kind == string(dsl.Listen) {
		row.State = tui.Waiting
	}
	return row
}

func (pb *Playback) deadLetterRow(at int) tui.Row {
	fr := &pb.frames[at]
	row := tui.Row{
		ID: strconv.Itoa(at + 1), State: tui.Dead, Kind: history.Type(fr.Type),
		Workflow: fr.track.workflow(), Execution: fr.Execution, Task: fr.Task, At: fr.at,
	}
	var dead event.Dead
	if pb.read(fr, &dead) {
		row.Note, row.Count = dead.Reason, int64(dead.Attempts)
	}
	return row
}

func (pb *Playback) eventRow(at int) tui.Row {
	fr := &pb.frames[at]
	return tui.Row{
		ID: strconv.Itoa(at + 1), Kind: history.Type(fr.Type), Workflow: fr.track.workflow(),
		Execution: fr.Execution, Task: fr.Task, Note: history.Detail(pb.shown(fr.Event)), At: fr.at,
	}
}
