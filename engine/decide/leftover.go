package decide

import (
	"slices"

	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/event"
)

// Leftovers is what an execution may leave behind, according to its history. It is computed
// without any decision, so it also works for an execution whose decisions fail or crash the
// process.
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

// ListenTypes returns the constant event types that the tasks of the document listen for,
// sorted; "*" stands for any type. complete is false if the document computes some types.
func (env *Env) ListenTypes() (types []string, complete bool) {
	complete = true
	for _, t := range env.def.Tasks() {
		if t.Kind != dsl.Listen {
			continue
		}
		if len(t.Listen.To.Filters) == 0 {
			types = append(types, "*")
		}
		for _, f := range filtersOf(t) {
			typ, stated := statedType(f)
			types = append(types, typ)
			complete = complete && stated
		}
	}
	slices.Sort(types)
	return slices.Compact(types), complete
}

// statedType returns the same type as typeOf if it is a constant of the document. Otherwise
// it returns "*", and stated is false.
func statedType(f dsl.EventFilter) (typ string, stated bool) {
	typ, ok := constantType(f)
	if ok && plainType(typ) {
		return typ, true
	}
	return "*", ok || typeValue(f) == nil
}
