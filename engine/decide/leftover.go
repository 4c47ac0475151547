package decide

import (
	"slices"

	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/event"
)

// Leftovers lists what an execution may leave behind, according to its history. No decisions are
// replayed to compute it, so it also works if they fail or crash the process.
type Leftovers struct {
	Timers   []event.Timer // scheduled, and neither fired nor cancelled
	Children int           // upper bound of the number of child executions started
	Waiting  int           // run tasks that have not ended

	running map[string]bool // ids of their runs
}

// Add processes the next part of the history. It skips events that it cannot decode.
func (l *Leftovers) Add(history []event.Event) {
	for _, e := range history {
		switch e.Type {
		case event.TaskRequested:
			var requested event.Requested
			if DecodeData(e, &requested) == nil && requested.TaskType == string(dsl.Run) {
				l.Children++
				if l.running == nil {
					l.running = map[string]bool{}
				}
				l.running[e.Task] = true
				l.Waiting = len(l.running)
			}
		case event.TaskCompleted:
			delete(l.running, e.Task)
			l.Waiting = len(l.running)
		case event.TimerScheduled, event.TimerCancelled, event.TimerFired:
			var t event.Timer
			if DecodeData(e, &t) != nil {
				continue
			}
			l.Timers = slices.DeleteFunc(l.Timers, t.Same)
			if e.Type == event.TimerScheduled {
				l.Timers = append(l.Timers, t)
			}
		default:
		}
	}
}
