package top

import (
	"cmp"
	"time"

	"flunq.io/flunq/cmd/actions"
	"flunq.io/flunq/engine/history"
	"flunq.io/flunq/engine/store"
	"flunq.io/flunq/engine/store/inspect"
	"flunq.io/flunq/engine/store/stream"
	"flunq.io/flunq/engine/store/timers"
	"flunq.io/flunq/tui"
)

func executionRow(x store.Execution) tui.Row {
	return tui.Row{
		ID: x.ID, Cursor: x.Cursor(), State: tui.State(x.Status), Workflow: x.Workflow,
		Execution: x.Parent, Task: x.ParentTask, At: x.CreatedAt, Until: x.EndedAt, Count: x.Version,
	}
}

// late is the delay above which a timer counts as overdue rather than about to fire.
const late = time.Second

func timerRow(p timers.Pending, now time.Time) tui.Row {
	row := tui.Row{
		ID: p.ID, Cursor: p.Cursor(), State: tui.Waiting, Kind: string(p.Kind), Workflow: p.Workflow,
		Execution: p.Execution, Task: p.TaskID, Note: p.Key, At: p.Moment().UTC(),
	}
	switch {
	case p.Err != nil:
		row.State, row.Kind, row.Note = tui.Broken, "", p.Err.Error()
	case now.Sub(row.At) >= late:
		row.State = tui.Overdue
	}
	row.Task = cmp.Or(actions.InputType(p), row.Task)
	switch {
	case p.Err != nil:
	case !p.ParkedUntil.IsZero():
		row.Kind += " (parked)"
	case !p.MovedTo.IsZero():
		row.Kind += " (moved)"
	}
	return row
}

func deadLetterRow(l stream.DeadLetter) tui.Row {
	return tui.Row{
		ID: l.ID, Cursor: l.ID, State: tui.Dead, Kind: history.Type(l.Event.Type), Workflow: l.Event.Workflow,
		Execution: l.Event.Execution, Task: l.Event.Task, Note: l.Reason, At: l.Died, Count: int64(l.Attempts),
	}
}

func eventRow(p inspect.Published) tui.Row {
	row := tui.Row{
		ID: p.ID, Cursor: p.ID, Kind: history.Type(p.Event.Type), Workflow: p.Event.Workflow,
		Execution: p.Event.Execution, Task: p.Event.Task, Note: history.Detail(p.Event), At: p.At,
	}
	if p.Err != nil {
		row.State, row.Note = tui.Broken, p.Err.Error()
		row.Kind = cmp.Or(row.Kind, string(tui.Broken))
	}
	return row
}
