package decide

import (
	"slices"

	"flunq.io/flunq/engine/dsl"
	"flunq.io/flunq/engine/event"
	"flunq.io/flunq/engine/expr"
)

// Leftovers is what an execution may leave behind, by its history alone. It decides
// nothing, so that it can be worked out where a decision fails or kills its process.
type Leftovers struct {
	Timers   []event.Timer // set, and neither fired nor cancelled
	Children int           // at most so many executions were started
	Waiting  int           // tasks that wait for one of them

	running map[string]bool // their runs
}

// Add takes in more of the history. What cannot be read is passed over.
func (l *Leftovers) Add(history []event.Event) {
	for _, e := range history {
		switch e.Type {
		case event.TaskRequested:
			var asked event.Requested
			if DecodeData(e, &asked) == nil && asked.TaskType == string(dsl.Run) {
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
			l.Timers = slices.DeleteFunc(l.Timers, func(set event.Timer) bool { return sameTimer(set, t) })
			if e.Type == event.TimerScheduled {
				l.Timers = append(l.Timers, t)
			}
		default:
		}
	}
}

// ListenTypes returns the types of events that the tasks of the document listen for, as
// far as the document states them; "*" stands for any type. complete is false if it
// computes some.
func (env *Env) ListenTypes() (types []string, complete bool) {
	complete = true
	for _, t := range env.def.Tasks() {
		if t.Kind != dsl.Listen {
			continue
		}
		to := t.Listen.To
		filters := to.Filters
		if to.UntilEvent != nil {
			filters = slices.Concat(filters, to.UntilEvent.Filters)
		}
		if len(to.Filters) == 0 {
			types = append(types, "*")
		}
		for _, f := range filters {
			typ, stated := statedType(f)
			types = append(types, typ)
			complete = complete && stated
		}
	}
	slices.Sort(types)
	return slices.Compact(types), complete
}

// statedType is typeOf where the document states the type; else "*", which it may be.
func statedType(f dsl.EventFilter) (typ string, stated bool) {
	for _, attribute := range f.With {
		if attribute.Key != "type" {
			continue
		}
		v, ok := attribute.Value.Constant()
		if s := expr.Text(v); ok && plainType(s) {
			return s, true
		}
		return "*", ok
	}
	return "*", true
}
