package describe

import (
	"slices"

	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/history"
	"flunq.io/flunq/tui"
)

// Open returns the tasks that are open after consecutive events of a history, the newest
// first. It omits tasks that contain other open tasks.
func Open(events []event.Event) []tui.Row {
	x := history.NewExecution()
	for i, e := range events {
		x.Add(history.Read(int64(i)+1, e))
	}
	var rows []tui.Row
	for _, r := range slices.Backward(x.Innermost()) {
		rows = append(rows, tui.Row{Task: r.String(), State: r.State, At: r.Began.At, Until: r.Until})
	}
	return rows
}

// Event converts an event of a history. It omits the data, which may be large.
func Event(version int64, e event.Event) tui.Event {
	out := history.Read(version, e)
	out.Data = nil
	return out
}
